"""FedDF: the mean of the nets, taught what they say together of the public rows."""

import numpy as np
import pytest
from rounds import run, same

from fedkd_flwr.baselines.feddf import aggregate

pytest.importorskip("torch")


def test_the_server_s_net_is_nearer_to_the_ensemble_than_the_mean_is():
    fedavg, grid = run("fedavg", rounds=1, local_epochs=4)
    feddf, other = run("feddf", rounds=1, local_epochs=4)
    sent = [[a.numpy() for a in reply.content["arrays"].values()] for reply in other.replies[:4]]
    assert all(same(one, [a.numpy() for a in reply.content["arrays"].values()])
               for one, reply in zip(sent, grid.replies, strict=False))  # fmt: skip
    X = feddf.exchange.public.X
    teachers = aggregate(feddf.exchange._spare.set_arrays(arrays).logits(X) for arrays in sent)

    def distance(model):
        return -float((teachers * np.log(model.predict_proba(X))).sum(axis=1).mean())

    assert distance(feddf.model) < distance(fedavg.model)
    assert feddf.record.rounds[0].consensus_accuracy == (teachers.argmax(axis=1) == feddf.exchange.public.y).mean()


def test_one_party_s_answer_is_its_softmax_and_a_constant_beside_logits_changes_nothing():
    logits = np.random.default_rng(0).normal(size=(4, 3))
    alone = aggregate([logits])
    exact = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    assert np.allclose(alone, exact)
    assert np.allclose(aggregate([logits + 800.0, logits - 800.0]), exact)  # nothing overflows

"""FedDF: the mean of the nets, taught what they say together of the public rows."""

import numpy as np
import pytest
from weights import run, same

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


# ----------------------------------------------------------------------------------------------------------- arithmetic


def test_one_party_s_answer_is_its_softmax_and_a_constant_beside_logits_changes_nothing():
    logits = np.random.default_rng(0).normal(size=(4, 3))
    alone = aggregate([logits])
    exact = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    assert np.allclose(alone, exact)
    assert np.allclose(aggregate([logits + 800.0, logits - 800.0]), exact)  # nothing overflows


def test_parties_are_taken_one_at_a_time():
    assert np.allclose(aggregate(one for one in [np.zeros((2, 2))] * 3), 0.5)


def test_rows_of_very_different_size_do_not_overflow_beside_each_other():
    logits = np.random.default_rng(1).normal(size=(3, 4))
    exact = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    assert np.allclose(aggregate([np.add(logits, [[1e3], [-1e3], [0.0]])]), exact)

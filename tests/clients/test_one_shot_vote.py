"""What a party of one round of votes does with the final labels."""

import numpy as np
from federation import model, party, rows

from fedkd_flwr.algorithms.pate import PATEConfig
from fedkd_flwr.clients import PATEClient
from fedkd_flwr.clients.instruction import Instruction

Y = rows(60, seed=99)[1]


def _finished(labels, **settings):
    member = party("a", *rows(20, seed=1))
    config = PATEConfig(**settings)
    return member, PATEClient(member).finish(Instruction(server_round=1, config=config, labels=labels))


def test_its_model_learns_its_rows_and_the_public_rows_with_a_label():
    labels = np.where(np.arange(60) < 30, Y, -1).astype(np.int16)
    member, left = _finished(labels)
    X = np.concatenate([member.X, member.public.X[:30]])
    wanted = model(seed=Instruction(server_round=1, config=None).seed("model")).fit(X, np.append(member.y, Y[:30]))
    assert (left.model.predict(member.public.X) == wanted.predict(member.public.X)).all()
    assert left.learnt
    assert left.solo == member.metrics(left.alone)


def test_where_the_run_wants_no_party_models_it_keeps_the_one_trained_alone():
    member, left = _finished(Y, party_models=False)
    assert not left.learnt
    assert left.alone is None
    alone = model(seed=Instruction(server_round=1, config=None).seed("model")).fit(member.X, member.y)
    assert (left.model.predict(member.public.X) == alone.predict(member.public.X)).all()

"""What a party of one round of votes does with the final labels."""

import numpy as np
import pytest
from federation import model, party, rows

from fedkd_flwr.algorithms.pate import PATEConfig
from fedkd_flwr.clients import PATEClient, one_shot_vote
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


@pytest.mark.parametrize(("labelled", "rows_learnt"), [(30, 50), (0, 20), (None, 20)])
def test_the_model_trained_alone_learns_for_as_many_rows_as_the_one_with_labels(monkeypatch, labelled, rows_learnt):
    asked, fit = [], one_shot_vote.fit_as_long
    as_long = lambda *a, num_rows: asked.append(num_rows) or fit(*a, num_rows=num_rows)  # noqa: E731
    monkeypatch.setattr(one_shot_vote, "fit_as_long", as_long)
    _finished(None if labelled is None else np.where(np.arange(60) < labelled, Y, -1).astype(np.int16))
    assert asked == [rows_learnt]

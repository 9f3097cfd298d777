"""PATE: each party is one teacher, and the server's student learns their vote."""

import numpy as np
from federation import model, parties, public_set
from rounds import run

from fedkd_flwr.seeds import derive_seed


def test_each_party_has_one_vote_and_the_student_learns_what_most_say():
    members = parties(3, allow=frozenset({"pate"}))
    strategy, _ = run("pate", members)
    seeds = [derive_seed(derive_seed(1, one.name), "model") for one in members]
    said = [
        model(seed=seed).fit(one.X, one.y).predict(public_set().X) for one, seed in zip(members, seeds, strict=True)
    ]
    votes = strategy.exchange.votes
    assert (3 * votes == sum(np.eye(3)[labels] for labels in said) * votes.sum(axis=1, keepdims=True)).all()
    assert strategy.record.server_accuracy > 0.85
    assert strategy.claims == []

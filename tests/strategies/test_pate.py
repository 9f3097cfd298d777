"""PATE: each party is one teacher, and the server's student learns their vote."""

import numpy as np
from federation import handler, model, parties, public_set, rows
from grid import InProcessGrid

from fedkd_flwr.clients import PATEClient
from fedkd_flwr.seeds import derive_seed
from fedkd_flwr.strategies import PATE, PATEConfig


def test_each_party_has_one_vote_and_the_student_learns_what_most_say():
    members = parties(3, allow=frozenset({"pate"}))
    strategy = PATE(
        config=PATEConfig(seed=1, nodes_stable_s=1e-6), public=public_set(), final_model=model, test=rows(80, seed=5)
    )
    strategy.start(InProcessGrid(handler([PATEClient(one) for one in members]), [{}] * 3))
    seeds = [derive_seed(derive_seed(1, one.name), "model") for one in members]
    said = [
        model(seed=seed).fit(one.X, one.y).predict(public_set().X) for one, seed in zip(members, seeds, strict=True)
    ]
    votes = strategy.exchange.votes
    assert (3 * votes == sum(np.eye(3)[labels] for labels in said) * votes.sum(axis=1, keepdims=True)).all()
    assert strategy.record.server_accuracy > 0.85
    assert strategy.claims == []

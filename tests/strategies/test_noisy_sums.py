"""Noisy sums: what the server makes of noisy counts, and which it turns away."""

from __future__ import annotations

import math

import numpy as np
import pytest
from federation import handler, public_set
from grid import InProcessGrid
from sums_runs import members, run

from fedkd_flwr.clients import NoisySumsClient
from fedkd_flwr.data.public import make_public_set
from fedkd_flwr.data.schema import Column, Schema
from fedkd_flwr.errors import DataError
from fedkd_flwr.privacy.cost.accountant import Accountant
from fedkd_flwr.strategies import NoisySums, NoisySumsConfig


def test_with_little_noise_the_model_knows_the_classes_and_the_claim_says_who_is_trusted():
    strategy, _ = run(members(simulated=True), noise_strength=0.05)
    assert strategy.record.status == "completed"
    assert strategy.record.server["common"].accuracy > 0.85
    (claim,) = strategy.record.claims
    assert claim["unit"] == "record"
    assert claim["basis"] == "proven"
    assert claim["adversary"] == "server"
    mechanism = strategy.exchange.mechanism
    assert mechanism.sigma == 0.05 * math.sqrt(2 * 2)  # of two columns, a record moves two counts each
    assert claim["epsilon"] == Accountant().compose(mechanism.dp_event()).epsilon(1e-5)


def test_counts_of_another_shape_or_size_are_turned_away():
    def spoilt(change):
        class Client(NoisySumsClient):
            def release(self, answer, instruction):
                return {"sums": change(answer.values["sums"])}

        return Client

    for change, code in (
        (lambda sums: sums[:-1], "wrong-length"),
        (lambda sums: sums.astype(np.float64), "wrong-length"),
        (lambda sums: sums + 2**41, "not-a-number"),
    ):
        held = members(3)
        clients = [NoisySumsClient(held[0]), NoisySumsClient(held[1]), spoilt(change)(held[2])]
        config = NoisySumsConfig(nodes_stable_s=1e-6)
        strategy = NoisySums(min_train_nodes=2, config=config, public=public_set())
        strategy.start(InProcessGrid(handler(clients), [{}] * 3))
        assert [(one.party, one.code) for one in strategy.record.rounds[0].rejected] == [("party-002", code)]


def test_public_rows_of_texts_are_refused_before_anybody_is_asked():
    import pandas as pd

    schema = Schema(columns=(Column(name="note", kind="text"),), classes=("no", "yes"))
    public = make_public_set(pd.DataFrame({"note": ["one two", "two three", "one three"]}), schema)
    with pytest.raises(DataError, match="noisy sums must be of numbers and categories"):
        NoisySums(config=NoisySumsConfig(), public=public)

"""Noisy sums: what the server makes of noisy counts, and which it turns away."""

import math
from functools import partial

import numpy as np
import pandas as pd
import pytest
import rounds
from federation import handler, public_set
from grid import InProcessGrid
from rounds import replies

from fedkd_flwr.clients import NoisySumsClient
from fedkd_flwr.data.public import make_public_set
from fedkd_flwr.data.schema import Column, Schema
from fedkd_flwr.errors import ConfigError, DataError
from fedkd_flwr.privacy.cost.accountant import Accountant
from fedkd_flwr.strategies import NoisySums, NoisySumsConfig

run, members = partial(rounds.run, "noisy-sums"), partial(rounds.members, algorithm="noisy-sums")


def test_with_little_noise_the_model_knows_the_classes_and_the_claim_says_who_is_trusted():
    strategy, _ = run(members(simulated=True), noise_strength=0.05)
    assert strategy.record.status == "completed"
    assert strategy.record.server["common"].accuracy > 0.85
    (claim,) = strategy.record.claims
    assert (claim["unit"], claim["basis"], claim["adversary"]) == ("record", "proven", "server")
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
    schema = Schema(columns=(Column(name="note", kind="text"),), classes=("no", "yes"))
    public = make_public_set(pd.DataFrame({"note": ["one two", "two three", "one three"]}), schema)
    with pytest.raises(DataError, match="noisy sums must be of numbers and categories"):
        NoisySums(config=NoisySumsConfig(), public=public)


def test_two_rounds_cost_what_one_does_and_the_claim_names_both_releases():
    one, _ = run(members(), epsilon=1.0)
    two, grid = run(members(), epsilon=1.0, rounds=2)
    assert [len(round_.answered) for round_ in two.record.rounds] == [5, 5]
    assert 0.99 < two.record.claims[0]["epsilon"] <= 1.0
    assert two.exchange.mechanism.sigma == pytest.approx(math.sqrt(2) * one.exchange.mechanism.sigma, rel=0.05)
    assert "products of a record's vectors; 3 vectors; 2 releases" in two.record.claims[0]["mechanism"]
    assert [set(reply.arrays) for reply in replies(grid)] == [{"sums"}] * 5 + [{"products"}] * 5
    assert (two.model.estimator.sums == two.exchange.released["sums"]).all()  # rows can still be drawn


def test_with_little_noise_two_rounds_know_the_classes_too():
    assert run(members(simulated=True), noise_strength=0.05, rounds=2)[0].record.server["common"].accuracy > 0.85
    with pytest.raises(ConfigError, match="num-rounds must be at most 2 for noisy-sums, got 3"):
        run(members(), rounds=3)


def test_a_run_lost_in_the_second_round_goes_on_with_the_counts_it_had(tmp_path):
    def die(node, reply):
        if reply.metadata.group_id == "2":
            raise KeyboardInterrupt
        return reply

    with pytest.raises(KeyboardInterrupt):
        run(members(), rounds=2, checkpoint=tmp_path / "one", tamper=die)
    rest, grid = run(members(), rounds=2, run_id="2", checkpoint=tmp_path / "two", resume_from=tmp_path / "one")
    assert rest.record.status == "completed"
    assert [set(reply.arrays) for reply in replies(grid)] == [{"products"}] * 5
    again, _ = run(members(), rounds=2, run_id="3", resume_from=tmp_path / "two")
    assert (again.model.estimator.weights == rest.model.estimator.weights).all()

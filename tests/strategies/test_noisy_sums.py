"""Noisy sums: whole rounds in process, what crosses the wire, who must allow it, and what it costs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from federation import handler, parties, party, public_set, rows
from grid import InProcessGrid

from fedkd_flwr.clients import NoisySumsClient
from fedkd_flwr.clients.visit import Visit
from fedkd_flwr.data.public import make_public_set
from fedkd_flwr.data.schema import Column, Schema
from fedkd_flwr.errors import DataError, TooFewPartiesError
from fedkd_flwr.privacy.cost.accountant import Accountant
from fedkd_flwr.privacy.ledger.ledger import Budget
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.stores.ledger import LedgerStore
from fedkd_flwr.strategies import NoisySums, NoisySumsConfig
from fedkd_flwr.wire.records import open_instruction, open_reply

TEST = rows(200, seed=7)
ALLOW = frozenset({"noisy-sums"})


def members(count=5, **changes):
    return parties(count, **{"allow": ALLOW, **changes})


def run(held, *, minimum=2, run_id="1", **settings):
    config = NoisySumsConfig(seed=1, nodes_stable_s=1e-6, **settings)
    strategy = NoisySums(
        min_train_nodes=minimum,
        config=config,
        public=public_set(),
        test=TEST,
        record=RunRecord(run_id=run_id, algorithm="noisy-sums"),
    )
    grid = InProcessGrid(handler([NoisySumsClient(one) for one in held], 1000), [{}] * len(held))
    strategy.start(grid)
    return strategy, grid


def replies(grid):
    opened = [open_reply(reply, "fit") for reply in grid.replies]
    return [reply for reply in opened if reply.arrays]


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


def test_what_leaves_a_party_is_its_counts_with_noise_and_nothing_of_its_rows_besides():
    held = members(3)
    strategy, grid = run(held, epsilon=1.0)
    exact = [strategy.exchange.bins.counts(one.X, one.y, num_classes=3) for one in held]
    assert len(replies(grid)) == 3
    for counts, reply in zip(exact, replies(grid), strict=True):
        assert set(reply.arrays) == {"sums"}
        assert set(reply.metrics) <= {"party", "wire-version", "payload", "num-examples"}
        noise = reply.arrays["sums"] - counts
        assert 0.5 < noise.std() / strategy.exchange.mechanism.sigma < 1.6


def test_a_party_charges_before_its_counts_leave_and_a_budget_refuses_what_costs_more(tmp_path):
    def kept(i, epsilon):
        name = f"party-{i:03d}"
        ledger = LedgerStore(tmp_path / str(epsilon), party=name, data_digest=f"{i:02d}" * 32)
        budget = Budget(epsilon=epsilon)
        return party(name, *rows(20, seed=i), allow=ALLOW, ledger=ledger, run_id="1", budget=budget)

    held = [kept(i, 2.0) for i in range(3)]
    strategy, grid = run(held, epsilon=1.0)
    for one, reply in zip(held, replies(grid), strict=True):
        (entry,) = one.ledger.entries("1")
        assert entry.unit == "record"
        assert len(entry.events) == 1
        stored = one.ledger.answered("1", 1)
        assert (stored.arrays["sums"] == reply.arrays["sums"]).all()
    assert strategy.record.claims[0]["epsilon"] <= 1.0
    with pytest.raises(TooFewPartiesError, match="budget"):
        run([kept(i, 0.5) for i in range(3)], epsilon=1.0)


def test_a_repeated_request_gets_the_same_bytes_and_a_second_answer_is_another_release(tmp_path):
    ledger = LedgerStore(tmp_path, party="party-000", data_digest="00" * 32)
    one = party("party-000", *rows(20, seed=1), allow=ALLOW, ledger=ledger, run_id="1")
    _, grid = run([one], minimum=1, epsilon=1.0)
    client, message = NoisySumsClient(one), grid.sent[0]
    arrays, config = open_instruction(message.content)
    again, _, _ = client.fit(arrays, dict(config))
    assert (again[0] == replies(grid)[0].arrays["sums"]).all()
    assert len(ledger.entries("1")) == 1
    other, _, _ = client.fit(arrays, {**config, "server-round": 2})
    assert (other[0] != again[0]).any()
    assert len(ledger.entries("1")) == 2


def test_counting_that_fails_becomes_counts_of_nothing_with_the_same_noise(monkeypatch):
    monkeypatch.setattr("fedkd_flwr.data.bins.Bins.counts", lambda *_, **__: 1 / 0)
    strategy, grid = run(members(3), epsilon=1.0)
    assert strategy.record.status == "completed"
    assert not strategy.record.rounds[0].rejected
    assert all((reply.arrays["sums"] != 0).any() for reply in replies(grid))


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


def test_whoever_approves_a_reply_sees_the_noisy_counts_of_each_bin():
    one = members(1)[0]
    _, grid = run([one], minimum=1, epsilon=1.0)
    arrays, config = open_instruction(grid.sent[0].content)
    visit = Visit(NoisySumsClient(one))
    visit.open(arrays, config)
    visit.permit()
    reply = visit.release(visit.learn())
    header, *lines = list(visit._table(reply, ([], [])))
    assert header == ["column", "bin", "records of red", "records of green", "records of blue"]
    assert [line[2:] for line in lines] == reply.arrays["sums"].tolist()
    assert {line[0] for line in lines} == {"a", "b"}


def test_public_rows_of_texts_are_refused_before_anybody_is_asked():
    import pandas as pd

    schema = Schema(columns=(Column(name="note", kind="text"),), classes=("no", "yes"))
    public = make_public_set(pd.DataFrame({"note": ["one two", "two three", "one three"]}), schema)
    with pytest.raises(DataError, match="noisy sums must be of numbers and categories"):
        NoisySums(config=NoisySumsConfig(), public=public)

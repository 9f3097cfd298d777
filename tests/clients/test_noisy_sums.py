"""Noisy sums at a party: its counts with noise, what they cost, and who sees them."""

from functools import partial

import numpy as np
import pytest
import rounds
from federation import party, rows
from rounds import replies

from fedkd_flwr.clients import NoisySumsClient
from fedkd_flwr.clients.visit import Visit
from fedkd_flwr.errors import TooFewPartiesError
from fedkd_flwr.privacy.ledger.ledger import Budget
from fedkd_flwr.stores.ledger import LedgerStore
from fedkd_flwr.wire.records import open_instruction

run, members = partial(rounds.run, "noisy-sums"), partial(rounds.members, algorithm="noisy-sums")


def _kept(root, number=0, **changes):
    """Return a party with a ledger."""
    name, allow = f"party-{number:03d}", frozenset({"noisy-sums"})
    ledger = LedgerStore(root, party=name, data_digest=f"{number:02d}" * 32)
    return party(name, *rows(20, seed=number), allow=allow, ledger=ledger, run_id="1", **changes)


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
    held = [_kept(tmp_path / "2", i, budget=Budget(epsilon=2.0)) for i in range(3)]
    strategy, grid = run(held, epsilon=1.0)
    for one, reply in zip(held, replies(grid), strict=True):
        (entry,) = one.ledger.entries("1")
        assert entry.unit == "record"
        assert len(entry.events) == 1
        stored = one.ledger.answered("1", 1)
        assert (stored.arrays["sums"] == reply.arrays["sums"]).all()
    assert strategy.record.claims[0]["epsilon"] <= 1.0
    with pytest.raises(TooFewPartiesError, match="budget"):
        run([_kept(tmp_path / "0.5", i, budget=Budget(epsilon=0.5)) for i in range(3)], epsilon=1.0)


def test_a_repeated_request_gets_the_same_bytes_and_a_second_answer_is_another_release(tmp_path):
    one = _kept(tmp_path)
    _, grid = run([one], minimum=1, epsilon=1.0)
    client, message = NoisySumsClient(one), grid.sent[0]
    arrays, config = open_instruction(message.content)
    again, _, _ = client.fit(arrays, dict(config))
    assert (again[0] == replies(grid)[0].arrays["sums"]).all()
    assert len(one.ledger.entries("1")) == 1
    other, _, _ = client.fit(arrays, {**config, "server-round": 2})
    assert (other[0] != again[0]).any()
    assert len(one.ledger.entries("1")) == 2


def test_counting_that_fails_becomes_counts_of_nothing_with_the_same_noise(monkeypatch):
    monkeypatch.setattr("fedkd_flwr.data.bins.Bins.counts", lambda *_, **__: 1 / 0)
    strategy, grid = run(members(3), epsilon=1.0)
    assert strategy.record.status == "completed"
    assert not strategy.record.rounds[0].rejected
    assert all((reply.arrays["sums"] != 0).any() for reply in replies(grid))


def _shown(one, message):
    """Return a party's visit, its reply to a message, and the table of it."""
    visit = Visit(NoisySumsClient(one))
    visit.open(*open_instruction(message.content))
    visit.permit()
    reply = visit.release(visit.learn())
    return visit, reply, list(visit._table(reply, ([], [])))


def test_products_leave_with_noise_as_a_table_and_vectors_of_other_bins_are_refused():
    held = members(3)
    _, grid = run(held, rounds=2, noise_strength=0.01)
    visit, reply, (header, *lines) = _shown(held[0], grid.sent[-4])
    arrays, config = open_instruction(grid.sent[-4].content)
    assert config["payload"] == "vectors"
    assert header == ["column", "with", "products of longest records"]
    assert [line[:2] for line in lines] == [
        ["a", "a"], ["a", "b"], ["a", "(class)"], ["b", "b"], ["b", "(class)"], ["(class)", "(class)"],
    ]  # fmt: skip
    squares = [float(line[2]) for line in lines if line[0] == line[1]]
    assert 5 < sum(squares) < 20  # of 20 records, each 1 at most
    client = NoisySumsClient(held[1])
    for wrong in (arrays[0][:-1], arrays[0].astype(np.int64)):
        assert client.fit([wrong], {**config, "server-round": 3})[2]["code"] == "bad-instruction"
    fixed = client.fixed(visit.instruction).values["products"]
    assert fixed.shape == reply.arrays["products"].shape


def test_whoever_approves_a_reply_sees_the_noisy_counts_of_each_bin():
    one = members(1)[0]
    _, grid = run([one], minimum=1, epsilon=1.0)
    _, reply, (header, *lines) = _shown(one, grid.sent[0])
    assert header == ["column", "bin", "records of red", "records of green", "records of blue"]
    assert [line[2:] for line in lines] == reply.arrays["sums"].tolist()
    assert {line[0] for line in lines} == {"a", "b"}

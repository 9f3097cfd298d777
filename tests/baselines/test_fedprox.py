"""FedProx: whole rounds in process, Flower's own strategy, who lets weights out, and hostile weights."""

import copy
import math

import numpy as np
import pytest
from federation import party, rows
from flwr.app import Array, ArrayRecord, MetricRecord
from flwr.serverapp.strategy import FedProx as FlowerFedProx
from rounds import TEST, codes, grid_of, make, members, net, run, same

from fedkd_flwr.errors import DataError
from fedkd_flwr.privacy.ledger.ledger import Budget
from fedkd_flwr.stores.ledger import LedgerStore
from fedkd_flwr.strategies.exchange import accepted
from fedkd_flwr.strategies.roster import Reception
from fedkd_flwr.wire.records import open_reply

pytest.importorskip("torch")


def test_fedprox_learns_and_every_round_is_written_down():
    strategy, grid = run(rounds=8)
    record, (X, y) = strategy.record, TEST
    assert (record.status, record.algorithm) == ("completed", "fedprox")
    assert record.rounds[-1].server_accuracy == record.server_accuracy > 0.85
    assert (strategy.exchange.model.predict(X) == y).mean() == record.server_accuracy
    weights = sum(array.nbytes for array in strategy.exchange.model.arrays())
    for r in record.rounds:
        assert r.answered == [f"party-{i:03d}" for i in range(4)]
        assert r.bytes_down == r.bytes_up > 4 * weights
        assert r.seconds > 0
    assert set(record.mean_accuracies()) == {"solo-common", "federated-common"}
    assert all(p.federated["common"] == record.parties[0].federated["common"] for p in record.parties)
    assert [m.metadata.message_type for m in grid.sent] == ["train"] * 32 + ["evaluate"] * 4


def test_a_round_is_the_mean_by_rows_of_what_each_party_s_net_becomes():
    held = [party(f"party-{i:03d}", *rows(10 + 10 * i, seed=i), allow=frozenset({"fedprox"}), model=net)
            for i in range(3)]  # fmt: skip
    start = make().model.arrays()
    strategy, grid = run(rounds=1, held=held)
    sent = [m.content["arrays"] for m in grid.replies[:3]]
    for reply, one in zip(sent, held, strict=True):
        assert not same([a.numpy() for a in reply.values()], start)
        assert grid.replies[held.index(one)].content["metrics"]["num-examples"] == len(one.y)
    for i, array in enumerate(strategy.exchange.model.arrays()):
        mean = sum(len(p.y) * reply[f"model.{i}"].numpy() for p, reply in zip(held, sent, strict=True)) / 60
        assert array == pytest.approx(mean, rel=1e-5, abs=1e-7)


def test_a_large_mu_holds_the_weights_where_they_were():
    start = make().model.arrays()

    def moved(mu):
        strategy, _ = run(rounds=1, proximal_mu=mu, local_epochs=3)
        return math.sqrt(
            sum(((a - b) ** 2).sum() for a, b in zip(strategy.exchange.model.arrays(), start, strict=True))
        )

    assert moved(5.0) < 0.5 * moved(0.0)


def test_what_travels_is_weights_rows_and_names_and_the_record_says_so():
    strategy, grid = run(rounds=1, proximal_mu=0.25)
    assert type(strategy.exchange.flower) is FlowerFedProx
    first, reply = grid.sent[0].content, grid.replies[0].content
    assert list(first["arrays"]) == ["model.0", "model.1", "model.2", "model.3"]
    assert (first["config"]["proximal-mu"], first["config"]["server-round"]) == (0.25, 1)
    assert set(reply) == {"arrays", "metrics", "reply"}
    assert dict(reply["metrics"]) == {"num-examples": 20}
    assert set(reply["reply"]) == {"party", "wire-version"}
    assert "weights-left" in [note.code for note in strategy.record.notes]
    assert strategy.claims == strategy.record.claims == []


@pytest.mark.parametrize("algorithm", ["fedprox", "fedkt-prox"])
def test_a_party_that_demands_privacy_refuses(algorithm, tmp_path):
    ledger = LedgerStore(tmp_path, party="thrifty", data_digest="0" * 64)
    demands = {
        "careful": {"require_privacy": True},
        "thrifty": {"budget": Budget(epsilon=1.0), "ledger": ledger, "run_id": "1"},
    }
    own = {"allow": frozenset({algorithm, "fedkt"}), "model": net}
    careful = [party(name, *rows(20, seed=8), **own, **demand) for name, demand in demands.items()]
    strategy, _ = run(algorithm, rounds=1, held=[*members(2, algorithm=algorithm), *careful])
    for number in range(1, len(strategy.record.rounds) + 1):
        assert codes(strategy, number) == dict.fromkeys(demands, "privacy-required")


def weights_of(reply):
    return {name: array.numpy().copy() for name, array in reply.content["arrays"].items()}


def respond(reply, *, arrays=None, rows=20, metrics=None):
    made = {name: Array(a) for name, a in (weights_of(reply) if arrays is None else arrays).items()}
    reply.content["arrays"] = ArrayRecord(made)
    reply.content["metrics"] = MetricRecord({"num-examples": rows} if metrics is None else metrics)
    return reply


def changed(reply, name, array):
    return respond(reply, arrays={**weights_of(reply), name: array})


HOSTILE = {
    "another shape": (lambda r: changed(r, "model.0", np.zeros((3, 2), np.float32)), "wrong-weights"),
    "a shape that broadcasts": (lambda r: changed(r, "model.0", np.zeros((1, 1), np.float32)), "wrong-weights"),
    "no numbers": (lambda r: changed(r, "model.1", np.full(8, np.nan, np.float32)), "not-a-number"),
    "infinity": (lambda r: changed(r, "model.1", np.full(8, np.inf, np.float32)), "not-a-number"),
    "doubles": (lambda r: changed(r, "model.1", np.zeros(8)), "wrong-weights"),
    "a missing array": (lambda r: respond(r, arrays=dict(list(weights_of(r).items())[:-1])), "bad-payload"),
    "another array": (lambda r: respond(r, arrays={**weights_of(r), "more": np.zeros(1)}), "bad-payload"),
    "another order": (lambda r: respond(r, arrays=dict(reversed(weights_of(r).items()))), "bad-payload"),
    "no rows": (lambda r: respond(r, rows=0), "bad-payload"),
    "negative rows": (lambda r: respond(r, rows=-20), "bad-payload"),
    "rows without end": (lambda r: respond(r, rows=2**40), "bad-payload"),
    "rows that are no number": (lambda r: respond(r, rows=float("nan")), "bad-payload"),
    "a list of rows": (lambda r: respond(r, rows=[20, 20]), "bad-payload"),
    "no weight": (lambda r: respond(r, metrics={"more": 1}), "bad-payload"),
}  # fmt: skip


@pytest.fixture(scope="module")
def honest():
    return run(rounds=1)


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_reply_is_turned_away_by_a_code(case, honest):
    strategy, grid = honest
    spoil, code = HOSTILE[case]
    reply = open_reply(spoil(copy.deepcopy(grid.replies[1])), "fit", strategy.exchange.room)
    turned_away = accepted(Reception(), reply, strategy.exchange.read, server_round=1)
    assert (turned_away.party, turned_away.code) == ("party-001", code)


def test_weights_to_start_from_must_fit_the_net():
    start = ArrayRecord({"model.0": Array(np.zeros(3, np.float32))})
    with pytest.raises(DataError, match="arrays must be 4 arrays, as mlp has"):
        make().start(grid_of(members()), start, 1)


def test_a_party_with_another_net_leaves_the_round_out_and_says_so():
    held = [*members(3), *members(1, model=lambda *, seed: net(seed=seed, hidden=(5,)))]
    strategy, _ = run(rounds=1, held=[*held[:3], party("other", held[3].X, held[3].y, model=held[3].model,
                                                       allow=frozenset({"fedprox"}))])  # fmt: skip
    assert codes(strategy) == {"other": "bad-instruction"}

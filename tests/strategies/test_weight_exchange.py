"""What all strategies whose parties send weights have in common, over all of them."""

from __future__ import annotations

import numpy as np
import pytest
from federation import model, party, rows
from weights import grid_of, make, members, net, run, same

from fedkd_flwr.algorithms import cards
from fedkd_flwr.errors import ConfigError, TooFewPartiesError
from fedkd_flwr.wire.records import array_bytes

pytest.importorskip("torch")

SEND = sorted(name for name, card in cards().items() if card.sends == "weights" and name != "fedkt-prox")
NOISY = {"dp-fedavg"}


@pytest.mark.parametrize("algorithm", SEND)
def test_a_round_is_written_down_and_no_result_depends_on_the_order_of_replies(algorithm):
    settings = {"given": {"noise_rng": np.random.default_rng(3)}} if algorithm in NOISY else {}
    one, grid = run(algorithm, rounds=1, held=members(3, algorithm), **settings)
    if settings:
        settings["given"] = {"noise_rng": np.random.default_rng(3)}
    order = [2, 0, 1]
    other, _ = run(algorithm, rounds=1, held=members(3, algorithm), order=order, first_node_id=5000, **settings)
    assert same(one.model.arrays(), other.model.arrays())
    (only,) = one.record.rounds
    assert only.answered == ["party-000", "party-001", "party-002"]
    assert only.server_accuracy == one.record.server_accuracy == one.model.accuracy(*one.test)
    assert one.record.notes[0] == one.warning
    assert len({p.federated["common"].accuracy for p in one.record.parties}) == 1
    assert only.bytes_up > 0
    assert array_bytes(next(iter(grid.replies[0].content.array_records.values()))) * 3 == only.bytes_up


@pytest.mark.parametrize("algorithm", SEND)
def test_weights_leave_only_where_the_owner_names_the_algorithm(algorithm):
    others = frozenset(set(cards()) - {algorithm, "fedkt-prox"})
    held = [party(f"party-{i:03d}", *rows(20, seed=i), model=net, allow=others) for i in range(2)]
    strategy = make(algorithm)
    grid = grid_of(held, algorithm)
    with pytest.raises(TooFewPartiesError, match="party-000: not-allowed"):
        strategy.start(grid, num_rounds=1)


@pytest.mark.parametrize("algorithm", SEND)
def test_a_model_without_weights_is_refused_before_anybody_is_asked(algorithm):
    with pytest.raises(ConfigError, match="model must be a torch net"):
        make(algorithm, global_model=model)

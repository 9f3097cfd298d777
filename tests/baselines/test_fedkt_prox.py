"""FedKT-Prox: FedKT's round of labels, then FedProx's rounds of weights, in one run."""

import pytest
from federation import parties, party, rows
from flwr.app import ArrayRecord
from rounds import TEST, codes, grid_of, make, members, net, run, same

from fedkd_flwr.algorithms.fedkt import FedKTConfig
from fedkd_flwr.baselines.cards import FedKTProxConfig
from fedkd_flwr.errors import ConfigError, DataError
from fedkd_flwr.record.notes import Note, NoteCode

pytest.importorskip("torch")


def test_fedkt_prox_starts_from_the_model_that_fedkt_s_round_leaves():
    strategy, grid = run("fedkt-prox", rounds=2, proximal_mu=0.25)
    record = strategy.record
    assert (record.status, record.algorithm) == ("completed", "fedkt-prox")
    assert [r.server_round for r in record.rounds] == [1, 2, 3]
    first = strategy.exchange.fedkt.model.arrays()
    sent = grid.sent[4].content  # the first message of FedProx's first round
    assert sent["config"]["server-round"] == 2
    assert same([a.numpy() for a in sent["arrays"].values()], first)
    assert record.rounds[0].server_accuracy == (strategy.exchange.fedkt.model.predict(TEST[0]) == TEST[1]).mean()
    assert record.rounds[0].bytes_up < record.rounds[1].bytes_up  # labels, then weights
    kinds = [m.metadata.message_type for m in grid.sent]
    assert kinds == ["train"] * 12 + ["evaluate"] * 4  # parties finish once, at the end
    assert Note(NoteCode.FEDKT_FIRST, {"later": 2}) in record.notes
    assert record.seconds >= sum(r.seconds for r in record.rounds)
    # each round is told the settings of its own algorithm and of no other
    told, later = grid.sent[0].content["config"], sent["config"]
    assert (told["algorithm"], told["students-per-party"], told["teachers-per-student"]) == ("fedkt", 1, 2)
    assert "proximal-mu" not in told
    assert told["party-models"] is False  # parties finish once, on what comes out at the end
    assert (later["algorithm"], later["proximal-mu"]) == ("fedkt-prox", 0.25)


def test_state_kept_in_fedkt_s_round_is_not_taken_for_a_reply_of_fedprox(tmp_path):
    held = parties(4, state=tmp_path, allow=frozenset({"fedkt-prox"}), model=net)
    with_state, _ = run("fedkt-prox", rounds=1, held=held)
    without, _ = run("fedkt-prox", rounds=1)
    assert same(with_state.model.arrays(), without.model.arrays())


def test_a_model_that_saw_one_class_has_no_weights_to_start_from():
    one = [party(f"party-{i:03d}", *rows(9, seed=i, classes=(1,)), allow=frozenset({"fedkt-prox"}), model=net)
           for i in range(3)]  # fmt: skip
    strategy = make("fedkt-prox")
    with pytest.raises(DataError, match="labels FedKT's model learnt must show >= 2 classes"):
        strategy.start(grid_of(one, "fedkt-prox"), num_rounds=1)
    assert strategy.record.status == "failed"
    assert "start with fedprox" in strategy.record.reason


def test_a_party_that_allows_fedkt_shares_labels_and_then_no_weights():
    others = [party("labels-only", *rows(20, seed=8), model=net)]
    others += [party("weights-only", *rows(20, seed=9), model=net, allow=frozenset({"fedprox"}))]
    strategy, _ = run("fedkt-prox", rounds=1, held=[*members(3, algorithm="fedkt-prox"), *others])
    assert "labels-only" in strategy.record.rounds[0].answered
    assert codes(strategy) == {"weights-only": "not-allowed"}
    assert codes(strategy, 2) == {"labels-only": "not-allowed", "weights-only": "not-allowed"}


@pytest.mark.parametrize("rounds", [0, True, -1])
def test_fedkt_prox_needs_a_round_of_fedprox_before_it_asks_for_labels(rounds):
    strategy, grid = make("fedkt-prox"), grid_of(members(algorithm="fedkt-prox"), "fedkt-prox")
    with pytest.raises(ConfigError, match="num_rounds must be a whole number >= 1"):
        strategy.start(grid, num_rounds=rounds)
    assert not grid.sent


def test_fedkt_prox_takes_no_other_start():
    strategy = make("fedkt-prox")
    with pytest.raises(ConfigError, match="initial_arrays must be left out"):
        strategy.start(grid_of(members()), ArrayRecord(), 1)


def test_the_parts_are_told_apart():
    shared = {"seed": 3, "node_deadline_s": 9.0, "ties": "lowest", "students_per_party": 3}
    first = FedKTProxConfig(**shared, local_epochs=2, proximal_mu=0.5).first
    assert first == FedKTConfig(**shared, party_models=False)
    assert type(first) is FedKTConfig


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"level": "L1", "noise": "laplace", "noise_strength": 0.1},
            "fedkt.level must be L0: FedProx's weights carry no noise, got 'L1'. Drop it, or use fedkt.",
        ),
        (
            {"party_models": False},
            "paper.party-models must keep its default: parties get FedProx's net, got False. It would",
        ),
        (
            {"noise": "laplace", "noise_strength": 0.1},
            "noise must be none: FedProx's weights carry no noise, got 'laplace'",
        ),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(ConfigError) as caught:
        FedKTProxConfig(**settings)
    assert message in str(caught.value)

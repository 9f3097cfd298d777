from __future__ import annotations

import numpy as np
import pytest

from fedkd_flwr.algorithms import find_card
from fedkd_flwr.algorithms.density_vote import PartyRatios, choose
from fedkd_flwr.errors import ConfigError
from fedkd_flwr.strategies import FedCTConfig, FedKTConfig, PATEConfig

ROWS = 30
TRUTH = np.arange(ROWS) % 3


def party(c, *, level=5, rows=20):
    """A party of one class that knows its rows, and no others."""
    codes = np.zeros((ROWS, 3), dtype=np.uint8)
    codes[c == TRUTH, c] = level
    return PartyRatios(codes=codes, class_counts=np.eye(3, dtype=np.int64)[c] * rows)


ALL = {f"party-{c}": party(c) for c in range(3)}
EQUAL = np.full(3, 10)


def chosen(sent, *, parties=3, votes=EQUAL, may_estimate=True):
    return choose(sent, num_parties=parties, votes=votes, may_estimate=may_estimate)


def test_parties_of_one_class_each_label_every_row_rightly():
    found = chosen(ALL)
    assert found.rule == "density-ratio"
    assert (found.labels == TRUTH).all()
    assert set(found.public_fit) == set(found.trust) == set(ALL)
    assert "100% of the public rows look like private rows" in found.reason


def test_public_rows_from_elsewhere_fall_back_to_labels_and_the_reason_says_so():
    far = {name: PartyRatios(codes=0 * one.codes, class_counts=one.class_counts) for name, one in ALL.items()}
    assert chosen(far).rule == "dawid-skene"
    found = chosen(far, may_estimate=False)
    assert (found.rule, found.labels) == ("majority", None)
    assert "Only 0 % of the public rows look like private rows" in found.reason
    assert found.public_fit == dict.fromkeys(ALL, 0.0)


def test_one_party_far_off_does_not_take_the_others_down():
    stranger = PartyRatios(codes=np.zeros((ROWS, 3), np.uint8), class_counts=np.array([500, 0, 0]))
    found = chosen({**ALL, "stranger": stranger}, parties=4)
    assert found.rule == "density-ratio"
    assert found.public_fit["stranger"] == 0.0
    assert (found.labels == TRUTH).all()


def test_two_classes_held_alike_take_the_majority_unless_density_ratios_were_asked_for_by_name():
    truth = np.arange(ROWS) % 2
    codes = np.where(np.eye(2, dtype=bool)[truth], 2, 0).astype(np.uint8)
    alike = {f"party-{i}": PartyRatios(codes=codes, class_counts=np.array([10, 10])) for i in range(3)}
    found = [choose(alike, num_parties=3, votes=EQUAL[:2], may_estimate=True, demanded=d) for d in (False, True)]
    assert [one.rule for one in found] == ["majority", "density-ratio"]
    assert (found[1].labels == truth).all()


def test_parties_that_keep_their_ratios_are_counted_in_the_reason():
    two = {name: ALL[name] for name in ("party-0", "party-1")}
    assert "1 of 3 parties sent no density ratios" in chosen(two).reason
    one = chosen({"party-0": ALL["party-0"]}).reason
    assert one.startswith("Too few parties sent density ratios")
    assert "2 of 3 parties sent no density ratios" in one
    assert chosen({}).reason.startswith("The parties sent labels alone")
    assert chosen({"party-0": ALL["party-0"]}).rule != "density-ratio"  # one of three is not enough
    assert chosen({}).rule == "dawid-skene"
    assert chosen({}, votes=np.array([28, 1, 1])).rule == "majority"


NOISY = [
    (FedCTConfig, "fedct.consensus", {"label_mechanism": "xor", "label_epsilon": 1.0}),
    (FedKTConfig, "consensus", {"level": "L1", "noise": "laplace", "gamma": 0.1}),
    (FedKTConfig, "consensus", {"level": "L2", "noise": "laplace", "gamma": 0.1}),
    (PATEConfig, "consensus", {"noise": "gaussian", "sigma": 1.0}),
]


@pytest.mark.parametrize(("config", "key", "noise"), NOISY)
def test_beside_noise_ratios_are_refused_by_name_and_never_asked_for(config, key, noise):
    with pytest.raises(ConfigError, match=f"{key} must be another than density-ratio beside noise"):
        config(consensus="density-ratio", **noise)
    assert not config(**noise).asks_ratios
    assert config().consensus == "auto"
    assert config().asks_ratios
    assert not config(consensus="majority").asks_ratios


@pytest.mark.parametrize("name", ["fedct", "fedkt", "pate"])
def test_no_party_is_told_a_rule_beside_noise(name):
    """What a party is told of the consensus is whether ratios are asked for, and nothing else."""
    assert "consensus" not in find_card(name).config().told()

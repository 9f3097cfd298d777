from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedkd_flwr.errors import ConfigError, DataError
from fedkd_flwr.labels import ABSTAIN, agreement, dawid_skene, majority, qualified_majority

ORACLE = Path(__file__).parents[1] / "oracles" / "dawid_skene.json"
votes_arrays = arrays(np.int32, (7, 3), elements=st.integers(0, 5))


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)


@given(votes_arrays)
def test_majority_label_has_the_most_votes(votes):
    labels = majority(votes, rng=_rng())
    voted = votes.sum(axis=1) > 0
    assert (votes[voted, labels[voted]] == votes[voted].max(axis=1)).all()
    assert (labels[~voted] == ABSTAIN).all()


@given(votes_arrays)
def test_quorum_zero_is_plain_majority(votes):
    plain = majority(votes, rng=_rng())
    assert (qualified_majority(votes, quorum=0.0, num_voters=15, rng=_rng()) == plain).all()


@given(votes_arrays, st.floats(0, 1), st.integers(1, 15))
def test_quorum_keeps_exactly_the_rows_that_reach_it(votes, quorum, voters):
    labels = qualified_majority(votes, quorum=quorum, num_voters=voters, rng=_rng())
    top = votes.max(axis=1)
    needed = np.ceil(quorum * voters - 1e-9)
    assert ((labels != ABSTAIN) == ((top >= needed) & (top > 0))).all()


def test_nine_of_ten_parties_meet_a_quorum_of_nine_tenths_despite_floats():
    assert qualified_majority(np.array([[9, 1]]), quorum=0.9, num_voters=10, rng=_rng()).tolist() == [0]
    assert qualified_majority(np.array([[3, 7]]), quorum=0.7, num_voters=10, rng=_rng()).tolist() == [1]


def test_one_party_alone_gets_its_own_labels_back():
    own = np.array([2, 0, 1])
    assert majority(np.eye(3, dtype=int)[own], rng=_rng()).tolist() == own.tolist()


def test_random_ties_are_fair_and_seeded():
    votes = np.tile([1, 1, 0], (3000, 1))
    labels = majority(votes, rng=_rng())
    assert abs((labels == 0).mean() - 0.5) < 0.05
    assert (labels != 2).all()
    assert (labels == majority(votes, rng=_rng())).all()


def test_lowest_ties_reproduce_argmax():
    assert majority(np.array([[1, 1], [0, 0]]), ties="lowest").tolist() == [0, ABSTAIN]


def test_random_ties_without_a_generator_are_refused():
    with pytest.raises(ConfigError, match="rng must be a numpy Generator for random ties, got None"):
        majority(np.array([[1, 1]]))


def test_unknown_tie_policy_is_refused():
    with pytest.raises(ConfigError, match='ties must be "random" or "lowest", got \'coin\''):
        majority(np.array([[1, 1]]), ties="coin")


@pytest.mark.parametrize("quorum", [-0.1, 1.1, float("nan")])
def test_a_quorum_outside_zero_to_one_is_refused(quorum):
    with pytest.raises(ConfigError, match=r"quorum must be within \[0, 1\]"):
        qualified_majority(np.array([[1, 0]]), quorum=quorum, num_voters=1, rng=_rng())


def test_agreement_looks_at_labelled_rows_only():
    assert agreement(np.array([0, 1, 0]), np.array([0, 0, ABSTAIN])) == 0.5
    assert np.isnan(agreement(np.array([0]), np.array([ABSTAIN])))


def test_dawid_skene_equals_the_published_implementation():
    """Reference posteriors by crowd-kit; the file tells its version and the call."""
    oracle = json.loads(ORACLE.read_text())
    for case in oracle["cases"]:
        labels = [np.array(row, dtype=np.int16) for row in case["labels"]]
        consensus, probs = dawid_skene(
            labels, num_classes=case["num_classes"], max_iterations=case["iterations"], tolerance=-np.inf
        )
        np.testing.assert_allclose(probs, case["probs"], atol=1e-6, err_msg=case["id"])
        sure = np.sort(probs, axis=1)[:, -1] - np.sort(probs, axis=1)[:, -2] > 1e-6
        assert (consensus[sure] == np.argmax(case["probs"], axis=1)[sure]).all()


def test_dawid_skene_learns_who_swaps_classes():
    truth = np.random.default_rng(1).integers(0, 3, 400)
    swap = np.array([1, 2, 0])
    rng = np.random.default_rng(2)
    good = [np.where(rng.random(400) < 0.9, truth, rng.integers(0, 3, 400)).astype(np.int16) for _ in range(3)]
    liars = [swap[truth].astype(np.int16) for _ in range(2)]
    consensus, _ = dawid_skene([*good, *liars], num_classes=3)
    assert (consensus == truth).mean() > 0.98


def test_dawid_skene_of_one_party_is_that_party():
    own = np.array([2, 0, 1, 1, 0], dtype=np.int16)
    assert dawid_skene([own], num_classes=3)[0].tolist() == own.tolist()


def test_dawid_skene_leaves_rows_without_votes_unlabelled_and_probabilities_sum_to_one():
    labels = [np.array([0, 1, ABSTAIN], np.int16), np.array([0, ABSTAIN, ABSTAIN], np.int16)]
    consensus, probs = dawid_skene(labels, num_classes=2)
    assert consensus.tolist() == [0, 1, ABSTAIN]
    np.testing.assert_allclose(probs.sum(axis=1), 1.0)


def test_dawid_skene_without_parties_is_refused():
    with pytest.raises(DataError, match="labels must hold at least one party's array"):
        dawid_skene([], num_classes=2)

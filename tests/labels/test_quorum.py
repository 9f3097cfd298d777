from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedkd_flwr.errors import ConfigError
from fedkd_flwr.labels import ABSTAIN, majority, qualified_majority

ORACLE = Path(__file__).parents[1] / "oracles" / "dawid_skene.json"
votes_arrays = arrays(np.int32, (7, 3), elements=st.integers(0, 5))


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)


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
    assert 0.55 * 100 > 55  # a float's work
    assert qualified_majority(np.array([[55, 45]]), quorum=0.55, num_voters=100, rng=_rng()).tolist() == [0]


def test_the_quorum_counts_votes_without_noise_and_the_label_is_that_of_the_votes_as_they_came():
    noisy, true = np.array([[6, 2], [6, 2]]), np.array([[-3.0, -4.0], [5.0, 1.0]])
    found = qualified_majority(noisy, quorum=0.5, num_voters=8, true_votes=true, ties="lowest")
    assert found.tolist() == [ABSTAIN, 0]


def test_a_quorum_breaks_ties_as_told():
    tied = np.array([[1, 1], [0, 1]])
    assert qualified_majority(tied, quorum=0.5, num_voters=2, ties="lowest").tolist() == [0, 1]
    with pytest.raises(ConfigError, match="rng must be a numpy Generator for random ties"):
        qualified_majority(tied, quorum=0.5, num_voters=2)


@pytest.mark.parametrize("quorum", [-0.1, 1.1, float("nan")])
def test_a_quorum_outside_zero_to_one_is_refused(quorum):
    with pytest.raises(ConfigError, match=r"quorum must be within \[0, 1\]"):
        qualified_majority(np.array([[1, 0]]), quorum=quorum, num_voters=1, rng=_rng())

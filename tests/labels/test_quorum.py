from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedkd_flwr.errors import ConfigError
from fedkd_flwr.labels import ABSTAIN, majority
from fedkd_flwr.labels.quorum import qualified_majority

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


def test_the_quorum_counts_votes_without_noise_and_the_label_is_that_of_the_votes_as_they_came():
    noisy, true = np.array([[6, 2], [6, 2]]), np.array([[-3.0, -4.0], [5.0, 1.0]])
    found = qualified_majority(noisy, quorum=0.5, num_voters=8, true_votes=true, ties="lowest")
    assert found.tolist() == [ABSTAIN, 0]


@pytest.mark.parametrize("quorum", [-0.1, 1.1, float("nan")])
def test_a_quorum_outside_zero_to_one_is_refused(quorum):
    with pytest.raises(ConfigError, match=r"quorum must be within \[0, 1\]"):
        qualified_majority(np.array([[1, 0]]), quorum=quorum, num_voters=1, rng=_rng())


@pytest.mark.parametrize(("votes", "quorum"), [([9, 1], 0.9), ([7, 3], 0.7), ([55, 45], 0.55)])
def test_so_many_tenths_of_the_parties_meet_their_quorum_despite_floats(votes, quorum):
    assert 0.55 * 100 > 55  # a float's work
    found = qualified_majority(np.array([votes]), quorum=quorum, num_voters=sum(votes), ties="lowest")
    assert found.tolist() == [0]

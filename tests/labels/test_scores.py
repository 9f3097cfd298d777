"""The probabilities nearest to estimates that are none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkd_flwr.errors import DataError
from fedkd_flwr.labels.scores import onto_simplex


@given(row=st.lists(st.floats(-5, 5), min_size=2, max_size=6))
def test_the_projection_is_a_probability_and_no_other_one_is_nearer(row):
    estimate = np.array([row])
    nearest = onto_simplex(estimate)
    assert (nearest >= 0).all()
    assert nearest.sum() == pytest.approx(1.0)
    others = np.random.default_rng(1).dirichlet(np.full(len(row), 0.5), 200)
    distances = ((others - estimate) ** 2).sum(axis=1)
    assert ((nearest - estimate) ** 2).sum() <= distances.min() + 1e-9


@pytest.mark.parametrize("huge", [1e16, 3e38, -3e38, 1e300])
def test_one_huge_estimate_makes_no_nan(huge):
    """A party's noisy scores are finite numbers of any size, and one of them may not spoil all averages."""
    nearest = onto_simplex(np.array([[huge, 0.2, 0.7], [0.0, huge, huge]]))
    wanted = [[1, 0, 0], [0, 0.5, 0.5]] if huge > 0 else [[0, 0.25, 0.75], [1, 0, 0]]
    assert nearest == pytest.approx(np.array(wanted, dtype=float))


def test_probabilities_are_their_own_projection():
    probs = np.array([[1.0, 0.0, 0.0], [0.8, 0.1, 0.1], [1 / 3, 1 / 3, 1 / 3]])
    assert onto_simplex(probs).tolist() == probs.tolist()  # to the bit


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_an_estimate_that_is_no_number_is_refused(wrong):
    with pytest.raises(DataError, match="estimates must be finite, got NaN or infinity"):
        onto_simplex(np.array([[wrong, 1.0]]))

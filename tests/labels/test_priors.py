"""Posteriors under other class shares: Bayes' rule, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedkd_flwr.errors import DataError
from fedkd_flwr.labels.priors import PSEUDO_COUNT, class_shares, posteriors

_WEIGHTS = st.floats(0.01, 1.0)


@st.composite
def _cases(draw):
    num_classes = draw(st.integers(2, 5))
    probs = draw(arrays(np.float64, (draw(st.integers(1, 6)), num_classes), elements=_WEIGHTS))
    one, other = (draw(arrays(np.float64, num_classes, elements=_WEIGHTS)) for _ in range(2))
    return probs / probs.sum(axis=1, keepdims=True), one / one.sum(), other / other.sum()


@given(_cases())
def test_the_shares_that_were_taught_change_nothing(case):
    probs, taught, _ = case
    np.testing.assert_allclose(posteriors(probs, taught=taught, shares=taught), probs, atol=1e-12)


@given(_cases())
def test_the_way_back_is_the_inverse_and_rows_sum_to_one(case):
    probs, taught, shares = case
    moved = posteriors(probs, taught=taught, shares=shares)
    np.testing.assert_allclose(moved.sum(axis=1), 1.0)
    np.testing.assert_allclose(posteriors(moved, taught=shares, shares=taught), probs, atol=1e-9)


@given(_cases())
def test_a_known_mixture_gives_what_bayes_rule_says(case):
    densities, taught, shares = case  # of each class at each row
    under_taught, under_shares = densities * taught, densities * shares
    probs = under_taught / under_taught.sum(axis=1, keepdims=True)
    wanted = under_shares / under_shares.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(posteriors(probs, taught=taught, shares=shares), wanted, atol=1e-12)


def test_a_class_that_a_party_lacks_is_rare_and_not_excluded():
    own = class_shares(np.array([98, 0]))
    assert own.tolist() == [0.99, 0.01]
    assert PSEUDO_COUNT == 1.0
    sure = posteriors(np.array([[0.001, 0.999]]), taught=np.array([0.5, 0.5]), shares=own)
    assert sure.argmax() == 1  # evidence of 999 to 1 is stronger than 98 rows without the class


def test_a_row_on_which_nothing_but_excluded_classes_is_possible_gets_the_shares():
    only = np.array([1.0, 0.0])
    assert posteriors(np.array([[0.0, 1.0]]), taught=np.array([0.5, 0.5]), shares=only).tolist() == [[1.0, 0.0]]


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: class_shares(np.array([1, -2])), "be finite, 0 or more"),
        (lambda: class_shares(np.array([np.nan, 1])), "be finite, 0 or more"),
        (lambda: class_shares(np.array([np.inf, 1])), "be finite, 0 or more"),
        (lambda: class_shares(np.zeros(3), pseudo_count=0), "not all 0"),
        (lambda: posteriors(np.eye(2), taught=np.ones(2) / 2, shares=np.ones(3) / 3), "be of 2 classes"),
        (lambda: posteriors(np.eye(2), taught=np.eye(2)[0], shares=np.ones(2) / 2), "> 0 for every class with a share"),
    ],
)
def test_shares_that_are_none_are_refused(call, match):
    with pytest.raises(DataError, match=match):
        call()

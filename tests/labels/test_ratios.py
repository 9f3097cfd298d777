"""Density ratios: what a party says, as numbers and as codes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedkd_flwr.errors import DataError
from fedkd_flwr.labels.ratios import (
    RATIO_BITS,
    density_ratios,
    public_fit,
    ratio_codes,
    ratios_of,
    steady_codes,
    with_classes_of,
)

ratio_arrays = arrays(np.float64, (6, 3), elements=st.floats(0, 6))


def test_ratios_are_odds_against_other_over_the_class_share():
    """0.3 / 0.5 / (3/4) = 0.8 and 0.2 / 0.5 / (1/4) = 1.6; 0.9 / 0.02 / (3/4) = 60 is more than 2 C = 4."""
    probs = np.array([[0.3, 0.2, 0.5], [0.9, 0.1, 0.0]])
    np.testing.assert_allclose(density_ratios(probs, np.array([3, 1])), [[0.8, 1.6], [4.0, 4.0]])


@given(
    probs=arrays(np.float64, (5, 4), elements=st.floats(0, 1)), counts=arrays(np.int64, 3, elements=st.integers(1, 9))
)
def test_ratios_lie_between_0_and_twice_the_classes_and_grow_with_the_probability(probs, counts):
    ratios = density_ratios(probs, counts)
    assert ((ratios >= 0) & (ratios <= 6)).all()
    surer = probs.copy()
    surer[:, 0] = np.minimum(surer[:, 0] + 0.1, 1)
    assert (density_ratios(surer, counts)[:, 0] >= ratios[:, 0]).all()


@pytest.mark.parametrize(
    ("probs", "counts", "message"),
    [
        (np.zeros((2, 2)), [1, 1], r"probs must have 2 \+ 1 columns"),
        (np.full((2, 3), np.nan), [1, 1], r"probs must lie within \[0, 1\]"),
        (np.full((2, 3), 1.5), [1, 1], r"probs must lie within \[0, 1\]"),
        (np.zeros((2, 3)), [0, 0], "class_counts must add up to 1 row or more"),
        (np.zeros((2, 3)), [1, -1], "class_counts must be 2 whole numbers >= 0"),
        (np.zeros((2, 3)), [0.5, 1.0], "class_counts must be 2 whole numbers >= 0"),
    ],
)
def test_wrong_probabilities_and_counts_are_refused(probs, counts, message):
    with pytest.raises(DataError, match=message):
        density_ratios(probs, np.array(counts))


# codes


@pytest.mark.parametrize("classes", [2, 3])
def test_every_code_stands_for_the_value_that_gets_it(classes):
    codes = np.arange(2**RATIO_BITS, dtype=np.uint8)[:, None] * np.eye(classes, dtype=np.uint8)[:1]
    assert (ratio_codes(ratios_of(codes)) == codes).all()


@given(ratio_arrays, st.sampled_from([2, 3]))
def test_codes_keep_the_order_of_a_rows_ratios_and_its_largest_to_half_a_step(ratios, classes):
    ratios = np.minimum(ratios[:, :classes], 2.0 * classes)
    codes = ratio_codes(ratios)
    assert codes.max() < 2**RATIO_BITS
    order = np.argsort(ratios, axis=1)
    assert (np.diff(np.take_along_axis(codes, order, axis=1).astype(int), axis=1) >= 0).all()
    largest, back = ratios.max(axis=1), ratios_of(codes).max(axis=1)
    half_step = 2**0.5
    told = back > 0
    assert (np.abs(np.log2(back[told] / largest[told])) <= np.log2(half_step) + 1e-9).all()
    least = ratios_of(np.ones((1, classes), np.uint8))[0, 0]
    assert (largest[~told] <= least / half_step + 1e-9).all()


def test_codes_stay_where_the_class_is_the_same_and_nothing_moved_by_two_steps():
    base = np.array([[5, 0], [5, 0], [5, 0], [0, 0]], np.uint8)
    new = np.array([[6, 0], [3, 0], [0, 5], [1, 0]], np.uint8)
    assert steady_codes(new, base).tolist() == [[5, 0], [3, 0], [0, 5], [0, 0]]


# the vote


def _posterior(densities: np.ndarray, shares: np.ndarray) -> np.ndarray:
    joint = densities * shares
    return joint / joint.sum(axis=1, keepdims=True)


@given(
    densities=arrays(np.float64, (8, 4), elements=st.floats(0.01, 1)),
    counts=arrays(np.int64, 4, elements=st.integers(0, 50)).filter(np.any),
    taught=arrays(np.int16, 30, elements=st.integers(-1, 3)),
)
def test_the_classes_of_an_exact_model_of_own_and_taught_rows_become_those_of_the_own_rows(densities, counts, taught):
    """Bayes' rule: the same densities under the shares of the mixture, then under the own ones."""
    shares = counts / counts.sum()
    known = taught[taught >= 0]
    learnt = (shares + np.bincount(known, minlength=4) / len(known)) / 2 if len(known) else shares
    other = np.linspace(0, 1, 8)[:, None]
    probs = np.hstack((np.full((8, 4), 0.25) * (1 - other), other))
    found = with_classes_of(probs, _posterior(densities, learnt), counts, taught)
    np.testing.assert_allclose(found, np.hstack((_posterior(densities, shares) * (1 - other), other)), atol=1e-12)


def test_a_row_that_looks_only_like_a_class_that_the_party_does_not_hold_gets_no_ratio():
    found = with_classes_of(np.array([[0.5, 0.4, 0.1]]), np.array([[0.0, 1.0]]), np.array([7, 0]))
    assert density_ratios(found, np.array([7, 0])).tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize(("codes", "match"), [([[8, 0, 0]], "0..7, got 8"), ([[-1, 0]], "0..7, got -1")])
def test_codes_out_of_range_are_refused(codes, match):
    with pytest.raises(DataError, match=f"codes must lie within {match}"):
        ratios_of(np.array(codes))


def test_public_fit_is_near_1_for_the_same_rows_and_0_for_others_and_never_above():
    counts = np.array([30, 10])
    found = [public_fit(np.full((50, 2), ratio), counts) for ratio in (1.0, 0.0, 4.0)]
    assert found == pytest.approx([1.0, 0.0, 1.0])

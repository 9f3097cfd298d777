"""What classes with an order stand for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

from fedkd_flwr.errors import DataError
from fedkd_flwr.labels.target import Target, bins_at, bins_of

NUMBERS = arrays(np.float64, st.integers(2, 60), elements=st.floats(-1e6, 1e6, width=32)).filter(
    lambda numbers: len(np.unique(numbers)) > 1
)


@given(NUMBERS, st.integers(2, 12))
def test_every_number_lies_in_its_bin_and_every_bin_stands_for_the_mean_of_its_own(numbers, count):
    if np.ptp(numbers) < 1e-9 * np.abs(numbers).max():
        return
    target = bins_of(numbers, count)
    bins = target.encode(numbers)
    edges = np.array(target.edges)
    assert (edges[bins] <= numbers).all()
    assert (numbers <= edges[bins + 1]).all()
    assert 2 <= len(target.values) <= count
    assert np.allclose([numbers[bins == k].mean() for k in range(len(target.values))], target.values)


def test_bins_hold_about_equally_many_numbers():
    counts = np.bincount(bins_of(np.random.default_rng(1).lognormal(size=2000), 10).encode(
        np.random.default_rng(1).lognormal(size=2000)))  # fmt: skip
    assert len(counts) == 10
    assert counts.min() > 180


def test_few_different_numbers_make_fewer_bins():
    target = bins_of(np.array([3.0, 3.0, 4.0, 4.0, 4.0, 4.0, 9.0]), 10)
    assert target.encode(np.array([3.0, 4.0, 9.0])).tolist() == [0, 1, 2]


def test_numbers_are_expected_values_and_grades_are_in_the_middle():
    probs = np.array([[0.4, 0.0, 0.6], [0.5, 0.5, 0.0], [0.2, 0.2, 0.6]])
    assert bins_at([0, 2, 4, 6]).numbers(probs).tolist() == pytest.approx([3.4, 2.0, 3.8])
    assert Target(values=(1.0, 2.0, 3.0)).grades(probs).tolist() == [2, 0, 2]
    assert Target(values=(1.0, 2.0, 3.0)).numbers(probs).tolist() == [3.0, 1.0, 3.0]


def test_errors_are_scikit_learn_s():
    rng = np.random.default_rng(2)
    truth, answers = rng.normal(50, 10, 300), rng.normal(50, 10, 300)
    found = bins_of(truth, 8).figures(truth, answers)
    assert found["rmse"] == pytest.approx(root_mean_squared_error(truth, answers))
    assert found["mae"] == pytest.approx(mean_absolute_error(truth, answers))
    assert found["r2"] == pytest.approx(r2_score(truth, answers))
    assert sum(rows for *_, rows in found["pairs"]) == 300
    assert bins_at([0, 1, 2]).figures(np.ones(3), np.ones(3))["r2"] is None  # nothing to explain


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: bins_at((0.0, 2.0, 1.0)), "target must"),
        (lambda: bins_at((0.0, float("inf"), float("nan"))), "target must"),
        (lambda: bins_at((0.0, 1.0)), "target must"),
        (lambda: Target(values=(0.5, 0.7), edges=(0.0, 1.0, 2.0)), "values of the target must lie in their bins"),
    ],
)
def test_bounds_that_make_no_two_bins_and_values_outside_them_are_refused(call, match):
    with pytest.raises(DataError, match=match):
        call()

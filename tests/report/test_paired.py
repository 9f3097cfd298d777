"""Paired differences: Student's t by hand, one pair knows no noise, more comparisons make wider intervals."""

import math

import pytest

from fedkd_flwr.report.paired import paired


def test_the_interval_is_student_s_by_hand():
    found = paired([0.6, 0.7, 0.8], [0.5, 0.5, 0.5])
    assert found.mean == pytest.approx(0.2)
    assert found.error == pytest.approx(0.1 / math.sqrt(3))
    assert found.half == pytest.approx(4.30265 * 0.1 / math.sqrt(3), rel=1e-4)  # t of 2 degrees of freedom
    assert not found.clear


@pytest.mark.parametrize(("comparisons", "t"), [(1, 4.30265), (2, 6.20535), (5, 9.92484)])
def test_for_several_comparisons_the_level_of_each_is_divided_by_their_number(comparisons, t):
    """Student's t of two degrees of freedom: p = 1 - .05 / 2 / comparisons, t = (2 p - 1) / sqrt(2 p (1 - p))."""
    found = paired([0.6, 0.7, 0.8], [0.5, 0.5, 0.5], comparisons=comparisons)
    assert found.half == pytest.approx(t * found.error, rel=1e-5)


def test_a_clear_loss_is_more_than_noise_too():
    assert paired([0.1, 0.1, 0.1], [0.9, 0.9001, 0.9]).verdict() == "more than noise"
    assert paired([0.9, 0.9001, 0.9], [0.1, 0.1, 0.1]).verdict() == "more than noise"


def test_equal_gaps_are_not_clear_because_accuracies_are_whole_rows_and_no_spread_is_no_certainty():
    found = paired([0.81, 0.82, 0.91, 0.7], [0.80, 0.81, 0.90, 0.69])  # equal but for rounding
    assert not found.clear
    assert found.half == found.error == math.inf
    assert found.verdict("seed") == "equal in each seed, so its noise is not known"


def test_the_same_in_each_pair_is_a_difference_of_zero_and_not_clear():
    found = paired([0.1 + 0.2, 0.5], [0.3, 0.5])
    assert (found.mean, found.half, found.clear, found.same, found.known) == (0.0, 0.0, False, True, False)
    assert found.verdict() == "the same in each pair"


def test_two_pairs_are_never_clear_however_wide_the_gap():
    found = paired([0.9, 0.9001], [0.1, 0.1])
    assert found.mean > found.half
    assert not found.clear
    assert found.verdict() == "2 pairs are too few to tell it from noise"
    assert paired([0.9, 0.9001, 0.9], [0.1, 0.1, 0.1]).clear

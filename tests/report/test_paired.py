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
    assert paired([0.6, 0.7, 0.8], [0.5, 0.5, 0.5], comparisons=2).half > found.half


def test_one_pair_is_never_clear():
    assert not paired([0.9], [0.1]).clear

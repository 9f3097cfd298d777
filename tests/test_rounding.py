"""A printed bound is on the safe side of the number it stands for: upper bounds above it, lower bounds below it."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkd_flwr.rounding import bound_text, least_text

NUMBERS = st.floats(min_value=0.0, max_value=1e300, allow_subnormal=False)


@given(NUMBERS, st.sampled_from([3, 4, 6]))
def test_what_holds_at_most_is_never_printed_below_and_what_holds_at_least_never_above(value, digits):
    below, above = float(least_text(value, digits)), float(bound_text(value, digits))
    assert below <= value <= above
    assert above - below <= value * 1.01 * 10.0 ** (1 - digits)


@pytest.mark.parametrize("value", [0.1, 0.3, 1.0, 8.0, 24.32, 1e-5, 1234.0, 0.00044])
def test_a_number_of_four_figures_is_printed_as_it_is(value):
    assert float(bound_text(value)) == float(least_text(value)) == value


def test_nearest_would_be_on_the_wrong_side():
    assert f"{1.0000049:.6g}" == "1"
    assert bound_text(1.0000049, 6) == "1.00001"
    assert f"{0.99996:.4g}" == "1"
    assert least_text(0.99996) == "0.9999"


@pytest.mark.parametrize("value", [None, math.inf, math.nan, True])
def test_what_is_no_finite_number_has_no_bound(value):
    assert bound_text(value) == least_text(value) == "no bound"


def test_text_stays_text():
    assert bound_text("withheld") == least_text("withheld") == "withheld"

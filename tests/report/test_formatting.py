import math

import pytest

from fedkd_flwr.report import formatting


@pytest.mark.parametrize("value", [None, math.nan, math.inf, True, "0.5"])
def test_what_is_not_a_finite_number_is_a_dash(value):
    assert not formatting.is_number(value)
    assert formatting.share(value) == formatting.size(value) == "–"


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (999, "999 B"), (1_000, "1.0 KB"), (99_960, "100 KB"), (2e9, "2.0 GB")]
)
def test_sizes_change_their_unit_at_a_thousand(size, text):
    assert formatting.size(size) == text


@pytest.mark.parametrize(("seconds", "text"), [(59.97, "1 min 0 s"), (3600, "1 h 0 min"), (-1, "–"), (math.nan, "–")])
def test_long_durations_have_minutes_and_hours(seconds, text):
    assert formatting.time_span(seconds) == text

"""A printed bound is on the safe side of the number it stands for: upper bounds above it, lower bounds below it."""

import json
import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkd_flwr.privacy.rounding import bound_text, least_text

ROOT = Path(__file__).parents[2]
NUMBERS = st.floats(min_value=0.0, max_value=1e300, allow_subnormal=False)


@given(NUMBERS, st.sampled_from([3, 4, 6]))
def test_what_holds_at_most_is_never_printed_below_and_what_holds_at_least_never_above(value, digits):
    below, above = float(least_text(value, digits)), float(bound_text(value, digits))
    assert below <= value <= above
    assert above - below <= value * 1.01 * 10.0 ** (1 - digits)


@pytest.mark.parametrize("value", [None, math.inf, math.nan, True])
def test_what_is_no_finite_number_has_no_bound(value):
    assert bound_text(value) == least_text(value) == "no bound"


def test_the_page_prints_what_the_audit_proves_rounded_down_and_its_claims_rounded_up():
    levels = json.loads((ROOT / "benchmarks" / "results" / "audit-claims.json").read_text())["levels"]
    page = (ROOT / "docs" / "evidence" / "attacks.md").read_text(encoding="utf-8")
    rows = {cells[0]: cells for line in page.splitlines() if len(cells := line.strip("| ").split(" | ")) == 7}
    assert levels
    for level in levels:
        *_, claimed, delta, proven, most = rows[level["level"]]
        assert float(delta) == level["delta"]
        for printed, value, way in (
            (claimed, level["claimed"], ROUND_CEILING),
            (proven, level["proven, all runs together"], ROUND_FLOOR),
            (most, max(level["proven, by run"]), ROUND_FLOOR),
        ):
            assert Decimal(printed) == Decimal(str(value)).quantize(Decimal(printed), way), level["level"]
    above, runs = (sum(level[key] for level in levels) for key in ("runs above the claim", "runs"))
    assert f"Runs above the claim: {above} of {runs}." in page

"""What is kept for runs that have begun: for a while, whatever the clock does."""

import pytest

from fedkd_flwr.stores import plans
from fedkd_flwr.stores.plans import HOLD_S, Plans

EVENTS = (({"kind": "pure", "epsilon": 0.1}, 1),)


@pytest.mark.parametrize(
    ("later", "kept"), [(0.0, True), (-2.0, True), (HOLD_S - 1, True), (HOLD_S + 1, False), (-1e8, False)]
)
def test_a_clock_that_is_set_back_a_little_frees_no_rounds_of_a_run_and_one_that_leapt_keeps_none(
    monkeypatch, later, kept
):
    monkeypatch.setattr(plans.time, "time", lambda: 1e9)
    plan = Plans(b"")
    plan.hold("7", EVENTS, 3)
    monkeypatch.setattr(plans.time, "time", lambda: 1e9 + later)
    assert bool(Plans(plan.to_bytes()).others("8")) == kept

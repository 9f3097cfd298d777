"""What runs that have begun are still going to ask of a party, so that no later run spends it first.

Two runs of three rounds would else each pay two rounds of a budget for four, and both would fail. A plan is no charge.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from typing import Any

from fedkd_flwr.privacy.ledger.entry import Events, canonical, plain_events

__all__ = ["HOLD_S", "Plan", "Plans"]

HOLD_S = 900.0
"""Seconds after a run's last visit for which the rest of its plan is kept for it: a run that died frees it then."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What one run is still going to ask."""

    events: tuple[tuple[dict[str, Any], int], ...]  # what one round releases, as plain JSON
    rounds: int  # rounds that it has not paid yet
    seen: float  # when it last asked or paid: seconds since 1970


class Plans:
    """The plans of one party's runs, as its ledger keeps them.

    ``data``: what `to_bytes` made; b"" for none.
    """

    def __init__(self, data: bytes) -> None:
        self._runs: dict[str, Plan] = {}
        for run_id, raw in json.loads(data or b"{}").items():
            plan = Plan(events=plain_events(raw["events"]), rounds=raw["rounds"], seen=raw["seen"])
            # a clock that was set back a little frees nothing
            if abs(time.time() - plan.seen) < HOLD_S:
                self._runs[run_id] = plan

    def of(self, run_id: str) -> Plan | None:
        """Return the plan of a run, None where there is none."""
        return self._runs.get(run_id)

    def others(self, *run_ids: str) -> dict[str, Plan]:
        """Return the plans of all other runs than these."""
        return {other: plan for other, plan in self._runs.items() if other not in run_ids}

    def hold(self, run_id: str, events: Events, rounds: int) -> None:
        """Keep so many rounds for a run; none: its plan ends."""
        self._runs.pop(run_id, None)
        if rounds > 0:
            self._runs[run_id] = Plan(events=plain_events(events), rounds=rounds, seen=time.time())

    def to_bytes(self) -> bytes:
        """Return them as bytes."""
        return canonical({run_id: asdict(plan) for run_id, plan in self._runs.items()})

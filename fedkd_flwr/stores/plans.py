"""What runs that have begun are still going to ask of a party, so that no later run spends it first.

Two runs of three rounds would else each pay two rounds of a budget for four, and both would fail. A plan is no charge:
where its file is lost, a run may fail half paid, and nothing is spent uncounted.
"""

from __future__ import annotations

import json
import logging
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedkd_flwr.files import write_atomic
from fedkd_flwr.privacy.ledger.entry import Events, plain_events

__all__ = ["HOLD_S", "Plan", "Plans"]

logger = logging.getLogger("flwr.party")

HOLD_S = 900.0
"""Seconds after a run's last visit for which the rest of its plan is kept for it: a run that died frees it then."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What one run is still going to ask.

    Parameters
    ----------
    events : sequence of (event, int)
        What one round releases, as plain JSON.
    rounds : int
        Rounds that it has not paid yet.
    seen : float
        When it last asked or paid: seconds since 1970.
    """

    events: tuple[tuple[dict[str, Any], int], ...]
    rounds: int
    seen: float


class Plans:
    """The plans of one party's runs, in one file beside its ledger; the ledger's lock must be held.

    Parameters
    ----------
    path : Path
        The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._runs: dict[str, Plan] = {}
        try:
            kept = json.loads(path.read_bytes()) if path.exists() else {}
            for run_id, raw in kept.items():
                plan = Plan(events=plain_events(raw["events"]), rounds=int(raw["rounds"]), seen=float(raw["seen"]))
                # a clock that was set back a little frees nothing
                if abs(time.time() - plan.seen) < HOLD_S and plan.rounds > 0:
                    self._runs[run_id] = plan
        except Exception as error:  # a damaged file may raise anything
            logger.warning("%s cannot be read, so nothing is kept for runs that have begun: %s", path, error)

    def of(self, run_id: str) -> Plan | None:
        """Return the plan of a run, None where there is none."""
        return self._runs.get(run_id)

    def others(self, *run_ids: str) -> dict[str, Plan]:
        """Return the plans of all other runs than these."""
        return {other: plan for other, plan in self._runs.items() if other not in run_ids}

    def hold(self, run_id: str, events: Events, rounds: int) -> None:
        """Keep so many rounds for a run; none: its plan ends."""
        if rounds > 0:
            self._runs[run_id] = Plan(events=plain_events(events), rounds=rounds, seen=time.time())
        elif self._runs.pop(run_id, None) is None:
            return
        write_atomic(self.path, json.dumps({name: asdict(plan) for name, plan in self._runs.items()}).encode())

"""Runs on this disk and at a SuperLink: listing them, their logs, stopping them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedkd_flwr.apps.find_run import OUTPUT, all_runs
from fedkd_flwr.errors import DataError
from fedkd_flwr.report.runs import run_line
from fedkd_flwr.run_record import RunRecord

__all__ = ["list_runs"]


def list_runs(output_dir: str | Path = OUTPUT, *, limit: int = 0) -> tuple[list[dict[str, Any]], int]:
    """Return a line about each run, the newest first, and how many runs there are.

    A run whose record cannot be read has the status ``unreadable``, and ``problem`` says why.

    Parameters
    ----------
    output_dir : path
        The folder for results.
    limit : int
        The most lines returned; 0: all.
    """
    found = all_runs(output_dir)
    lines = []
    for run in found[: limit or None]:
        try:
            line = run_line(RunRecord.load(run.record))
        except DataError as error:
            started = run.started.isoformat(timespec="seconds")
            line = {"run_id": run.run_id, "name": run.name, "started": started}
            line |= {"status": "unreadable", "problem": str(error)}
        lines.append({**line, "record": str(run.record)})
    return lines, len(found)

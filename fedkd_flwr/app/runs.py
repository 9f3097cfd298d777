"""Runs on this disk: listing them, reading their logs, stopping them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedkd_flwr.app.find_run import LOG, OUTPUT, all_runs, find_run, way_to_continue
from fedkd_flwr.errors import ConfigError, DataError, explain
from fedkd_flwr.processes.alive import still_runs
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.report.runs import run_line
from fedkd_flwr.report.status import run_status

__all__ = ["list_runs", "log_of", "stop_run"]

_POLL_S = 0.2


def list_runs(output_dir: str | Path = OUTPUT, *, limit: int = 0) -> tuple[list[dict[str, Any]], int]:
    """Return a line about each run, the newest first, and how many runs there are; ``limit`` lines, 0: all.

    A run whose record cannot be read has the status ``unreadable``, and ``problem`` says why. ``resume`` is the command
    that continues a run; "" where it cannot be continued.
    """
    found = all_runs(output_dir)
    lines = []
    for run in found[: limit or None]:
        try:
            record = RunRecord.load(run.record)
            line = {**run_line(record), "resume": way_to_continue(record, run.record)}
        except DataError as error:
            started = run.started.isoformat(timespec="seconds")
            line = {"run_id": run.run_id, "name": run.name, "started": started}
            line |= {"status": "unreadable", "problem": str(error)}
        lines.append({**line, "record": str(run.record)})
    return lines, len(found)


def log_of(run: str | Path, output_dir: str | Path = OUTPUT, *, follow: bool = False) -> Iterator[str]:
    """Yield what a run of `fedkd simulate` logged, piece by piece; with ``follow`` until it has ended.

    Raises `DataError` if no run is meant, or several. Raises `ConfigError` if the run is one of a SuperLink; the
    message names Flower's command.
    """
    path = find_run(run, output_dir)
    _require_simulated(path, "log")
    with path.with_name(LOG).open(encoding="utf-8", errors="replace") as file:
        while True:
            ended = not follow or run_status(RunRecord.load(path)).word != "running"  # before the last read
            while piece := file.read(1 << 16):
                yield piece
            if ended:
                return
            time.sleep(_POLL_S)


def stop_run(run: str | Path, output_dir: str | Path = OUTPUT, *, wait_s: float = 40.0) -> dict[str, str]:
    """Interrupt a run of `fedkd simulate`, and say how it then stands: ``run_id``, ``status`` and a ``sentence``.

    ``wait_s`` are the seconds that it may take to write how it ended.

    Raises `DataError` if no run is meant, or several. Raises `ConfigError` if the run has ended, or is one of another
    machine or of a SuperLink.
    """
    path = find_run(run, output_dir)
    record = RunRecord.load(path)
    stands = run_status(record)
    if stands.word not in ("running", "not known"):
        raise ConfigError(explain(f"run {record.run_id}", "be going on", stands.word, stands.sentence))
    _require_simulated(path, "stop")
    if record.process is None or stands.word != "running":
        rule, way_out = "run on this machine", "Stop it on the machine that `fedkd simulate` was called on."
        raise ConfigError(explain(f"run {record.run_id}", rule, stands.sentence, way_out))
    os.kill(record.process.pid, signal.SIGINT)
    until = time.monotonic() + wait_s
    while time.monotonic() < until:
        record = RunRecord.load(path)
        if record.status != "running" or still_runs(record.process) is False:
            break
        time.sleep(_POLL_S)
    stands = run_status(record)
    return {"run_id": record.run_id, "status": stands.word, "sentence": stands.sentence}


def _require_simulated(path: Path, verb: str) -> None:
    if not path.with_name(LOG).exists():
        run = path.parent.name
        way_out = f"Flower's own command: flwr {verb} {run} [SUPERLINK]"
        raise ConfigError(explain(f"run {run}", "be one of fedkd simulate", "a run at a SuperLink", way_out))

"""Runs on this disk and at a SuperLink: listing them, reading their logs, stopping them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedkd_flwr.app.find_run import LOG, OUTPUT, all_runs, way_to_continue
from fedkd_flwr.errors import ConfigError, DataError, explain
from fedkd_flwr.processes.alive import still_runs
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.report.runs import run_line
from fedkd_flwr.report.status import run_status

__all__ = ["list_runs", "log_text", "stop_at_superlink", "stop_run", "superlink_log"]

_POLL_S = 0.2


def list_runs(output_dir: str | Path = OUTPUT, *, limit: int = 0) -> tuple[list[dict[str, Any]], int]:
    """Return a line about each run, the newest first, and how many runs there are.

    A run whose record cannot be read has the status ``unreadable``, and ``problem`` says why. ``resume`` is the command
    that continues a run; "" where it cannot be continued.

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
            record = RunRecord.load(run.record)
            line = {**run_line(record), "resume": way_to_continue(record, run.record)}
        except DataError as error:
            started = run.started.isoformat(timespec="seconds")
            line = {"run_id": run.run_id, "name": run.name, "started": started}
            line |= {"status": "unreadable", "problem": str(error)}
        lines.append({**line, "record": str(run.record)})
    return lines, len(found)


def log_text(record: Path, *, follow: bool = False) -> Iterator[str]:
    """Yield the log that lies beside a record, piece by piece; with ``follow`` until the run has ended.

    Raises
    ------
    FileNotFoundError
        If there is none.
    """
    with record.with_name(LOG).open(encoding="utf-8", errors="replace") as file:
        while True:
            ended = not follow or run_status(RunRecord.load(record)).word != "running"  # before the last read
            while piece := file.read(1 << 16):
                yield piece
            if ended:
                return
            time.sleep(_POLL_S)


def stop_run(path: Path, *, superlink: str = "", wait_s: float = 40.0) -> RunRecord:
    """Stop a run, and return its record as it then is.

    A run of `fedkd simulate` is interrupted; any other is stopped by its SuperLink.

    Parameters
    ----------
    path : Path
        Its record.
    superlink : str
        The SuperLink's name in Flower's configuration; Flower's default where it is empty.
    wait_s : float
        Seconds to wait for the run to write how it ended.

    Raises
    ------
    ConfigError
        If the run has ended.
    FlowerError
        If the SuperLink did not stop it.
    """
    record = RunRecord.load(path)
    stands = run_status(record)
    if stands.word not in ("running", "not known"):
        raise ConfigError(explain(f"run {record.run_id}", "be going on", stands.word, stands.sentence))
    if path.with_name(LOG).exists():
        if record.process is None or stands.word != "running":
            rule, way_out = "run on this machine", "Stop it on the machine that `fedkd simulate` was called on."
            raise ConfigError(explain(f"run {record.run_id}", rule, stands.sentence, way_out))
        os.kill(record.process.pid, signal.SIGINT)
    else:
        stop_at_superlink(record.run_id, superlink=superlink)
    until = time.monotonic() + wait_s
    while time.monotonic() < until:
        record = RunRecord.load(path)
        if record.status != "running" or still_runs(record.process) is False:
            break
        time.sleep(_POLL_S)
    return record


def superlink_log(run_id: str, *, superlink: str = "", follow: bool = False) -> Iterator[str]:
    """Yield the lines that a run at a SuperLink has logged; with ``follow`` until it has ended.

    Raises
    ------
    FlowerError
        If no SuperLink that runs knows the run.
    """
    from fedkd_flwr.app.submit import follow as lines
    from fedkd_flwr.app.submit import status

    _check_running(run_id, superlink)
    status(run_id, superlink)
    return lines(run_id, superlink, stream=follow)


def stop_at_superlink(run_id: str, *, superlink: str = "") -> None:
    """Let a SuperLink stop a run.

    Raises
    ------
    FlowerError
        If it does not.
    """
    from fedkd_flwr.app.submit import flower

    _check_running(run_id, superlink)
    flower("stop", run_id, *([superlink] if superlink else []))


def _check_running(run_id: str, superlink: str) -> None:
    """Refuse to ask a local SuperLink that does not run: Flower would start one, which knows of no run."""
    import socket

    from flwr.cli.constant import LOCAL_SUPERLINK_HTTP_API_PORT

    from fedkd_flwr.app.submit import LOCAL, FlowerError, address

    if address(superlink).startswith(LOCAL):
        try:
            socket.create_connection(("127.0.0.1", int(LOCAL_SUPERLINK_HTTP_API_PORT)), timeout=5).close()
        except OSError as error:
            rule, way_out = "be known to a SuperLink that runs", "Name another one: --superlink NAME."
            seen = "no local SuperLink is running"
            raise FlowerError(explain(f"run {run_id}, which left no log here,", rule, seen, way_out)) from error

"""Runs on this disk: listing them, reading their logs, stopping them, deleting what they kept to go on."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedkd_flwr.app.find_run import LOG, OUTPUT, all_runs, find_run, find_runs, way_to_continue
from fedkd_flwr.errors import ConfigError, DataError, explain
from fedkd_flwr.processes.alive import still_runs
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.report.runs import run_line
from fedkd_flwr.report.status import run_status
from fedkd_flwr.stores.checkpoints import Lineage
from fedkd_flwr.stores.files import file_name
from fedkd_flwr.stores.party_state import runs_gone_on_from

__all__ = ["forget_run", "list_runs", "log_of", "stop_run"]

_POLL_S = 0.2


def list_runs(output_dir: str | Path = OUTPUT, *, limit: int = 0) -> tuple[list[dict[str, Any]], int]:
    """Return a line about each run, the newest first, and how many runs there are; ``limit`` lines, 0: all.

    An unreadable record is a line too. ``resume`` is the command that continues a run; "" where it cannot be continued.
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
    """Yield what a run of `fedkd simulate` logged, piece by piece; with ``follow`` until it has ended."""
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
    """Interrupt a run of `fedkd simulate`; say how it stands after at most ``wait_s`` seconds."""
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


_OF_MODELS = (".model", ".card.md", ".html", ".continues.json")


def forget_run(run: str, root: str | Path = OUTPUT, *, party: str = "", models: bool = False) -> list[Path]:
    """Delete the state of a run and of those that it continues, and return what was deleted.

    That is the server's checkpoint, and what each party kept between rounds; with ``models`` the parties' final models
    too. Ledgers, with the replies that were charged, and records stay for ever. ``root``: a silo's ``state-dir`` or a
    server's ``output-dir``. ``party``: delete this party's alone; "" for all.
    """
    folder = _folder(run, Path(root or OUTPUT).expanduser().absolute())
    record = folder / "record.json"
    if record.is_file() and run_status(RunRecord.load(record)).word == "running":
        way_out = f"Stop it first: fedkd runs stop {folder.name}"
        raise ConfigError(explain(f"run {folder.name}", "have ended before it is forgotten", "running", way_out))
    kinds = (".npz", *(_OF_MODELS if models else ()))
    folders = [folder, *_continued(folder, party)]
    found = [
        path
        for one in folders
        for path in sorted((one / "parties").glob(f"{file_name(party) if party else '*'}.*"))  # no name holds a dot
        if path.name.endswith(kinds)
    ]
    for path in found:
        path.unlink()
    for checkpoint in (one / "checkpoint" for one in folders if not party):
        if checkpoint.is_dir():
            shutil.rmtree(checkpoint)
            found.append(checkpoint)
    return found


def _continued(folder: Path, party: str) -> list[Path]:
    """Return the folders of the runs that a run continues: parties keep their state and models in the first one's."""
    try:
        known = Lineage.load(folder / "checkpoint").earlier
    except DataError:  # a silo has no lineage; what it went on from is written down there
        known = ()
    runs = dict.fromkeys([*known, *runs_gone_on_from(folder, party)])
    return [path for run in runs if (path := folder.parent / file_name(run)) != folder]


def _folder(run: str, root: Path) -> Path:
    """Return the folder of the run that is meant: of one name the newest, where it continues all the others."""
    first, *others = (record.parent for record in find_runs(run, root))
    if any(one not in _continued(first, "") for one in others):
        find_run(run, root)  # which says that several are meant
    return first

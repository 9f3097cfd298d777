"""Runs on this disk: listing them, and deleting what they kept to go on."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from fedkd_flwr.app.find_run import OUTPUT, all_runs, find_run, find_runs, way_to_continue
from fedkd_flwr.errors import ConfigError, DataError, explain
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.report.status import run_line, run_status
from fedkd_flwr.stores.checkpoints import Lineage
from fedkd_flwr.stores.files import file_name
from fedkd_flwr.stores.party_state import runs_gone_on_from

__all__ = ["forget_run", "list_runs"]


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
        way_out = "Stop it first: press Ctrl-C where it runs."
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

"""Finding runs on this disk by what a person calls them: id, start of an id, name, ``last``, or a path."""

from __future__ import annotations

import json
import secrets
import shlex
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fedkd_flwr.errors import Code, DataError, explain
from fedkd_flwr.files import HOME

if TYPE_CHECKING:
    from fedkd_flwr.record.run_record import RunRecord

__all__ = ["LOG", "OUTPUT", "Found"]
__all__ += ["all_runs", "find_checkpoint", "find_run", "find_runs", "new_run_id", "way_to_continue"]

OUTPUT = HOME
"""Where runs are kept unless ``output-dir`` says otherwise."""

LOG = "log.txt"
"""The log that `fedkd simulate` keeps in a run's folder; Flower's SuperLink keeps those of other runs."""

_SHOWN = 8  # candidates that an error names


class Found(NamedTuple):
    """A run's folder on this disk, and what is needed to find it. Its record may be missing or broken."""

    record: Path
    started: datetime
    name: str

    @property
    def run_id(self) -> str:
        """The name of its folder."""
        return self.record.parent.name


def new_run_id() -> str:
    """Return the id of a run that is to begin: 19 digits, as Flower's."""
    return str(secrets.randbits(63) | 1 << 62)


def all_runs(output_dir: str | Path = OUTPUT) -> list[Found]:
    """Return the runs in a folder for results, the newest first; [] if there is none."""
    root = Path(output_dir or OUTPUT).expanduser().absolute() / "runs"
    folders = [path for path in root.iterdir() if path.is_dir()] if root.is_dir() else []
    found = (_found(folder / "record.json") for folder in folders)
    return sorted(found, key=lambda run: (run.started, run.run_id), reverse=True)


def find_run(text: str | Path, output_dir: str | Path = OUTPUT) -> Path:
    """Return the path of one run's ``record.json``; refuse where no run is meant, or several.

    ``text``: a run's id or the start of it, its name (the setting ``name``), ``last``, or a path to its folder or
    record.
    """
    found = find_runs(text, output_dir)
    if len(found) > 1:
        seen = f"{len(found)}: {_some([path.parent.name for path in found])}"
        raise DataError(explain(f"run {str(text)!r}", "mean one run", seen, "Give one of these ids."))
    return found[0]


def find_checkpoint(text: str, output_dir: str | Path = OUTPUT) -> Path:
    """Return the folder with the checkpoint of a run to continue; of several runs with one name that of the newest."""
    from fedkd_flwr.stores.checkpoints import CHECKPOINT

    for folder in (Path(text).expanduser(), Path(output_dir or OUTPUT).expanduser() / "runs" / text / "checkpoint"):
        if folder.is_absolute() and (folder / CHECKPOINT).is_file():
            return folder
    found = [record.parent / "checkpoint" for record in find_runs(text, output_dir)]
    if not (there := [folder for folder in found if (folder / CHECKPOINT).is_file()]):
        way_out = "`fedkd runs list` says which can be continued. Ended before round 1, or forgotten: start it afresh."
        raise DataError(explain(f"run {text}", "have a checkpoint", "none", way_out), code=Code.MISSING_FILE)
    return there[0]


def way_to_continue(record: RunRecord, path: Path) -> str:
    """Return the command that continues a run which left a checkpoint and no result; "" where there is none."""
    from fedkd_flwr.models.given import PREFIX
    from fedkd_flwr.report.status import run_status
    from fedkd_flwr.stores.checkpoints import CHECKPOINT, Lineage

    folder = path.parent / "checkpoint"
    lost = run_status(record).word in ("failed", "stopped", "killed", "not known")
    objects = any(str(one).startswith("DataFrame-") or PREFIX in str(one) for one in record.config.values())
    with suppress(DataError):
        if lost and not objects and (folder / CHECKPOINT).is_file() and not Lineage.load(folder).finished:
            root = path.parents[2] if len(path.parents) > 2 else path.parent
            run = record.run_id if root == OUTPUT.expanduser() else shlex.quote(str(path.parent))
            return f"fedkd {'simulate' if record.simulation else 'server run'} --resume {run}"
    return ""


def find_runs(text: str | Path, output_dir: str | Path = OUTPUT) -> list[Path]:
    """Return the records of all runs that ``text`` means, the newest first: several may have one name, or one start."""
    text = str(text)
    path = Path(text).expanduser()
    if path.is_file():
        return [path.absolute()]
    if (path / "record.json").is_file():
        return [path.absolute() / "record.json"]
    runs = all_runs(output_dir)
    matches = (
        [run for run in runs if text == run.run_id],
        [run for run in runs if text == run.name != ""],
        runs[:1] if text == "last" else [],
        [run for run in runs if text and run.run_id.startswith(text)],
    )
    for match in matches:
        if match:
            return [run.record for run in match]
    where = Path(output_dir or OUTPUT).expanduser()
    if not runs:
        way_out = "Name the folder of results with --output-dir, or the path of a run's record.json."
        raise DataError(explain(f"run {text!r}", f"be in {where}/runs", "no run at all there", way_out))
    known = _some([run.name or run.run_id for run in runs])
    rule = f"be the id, the start of an id, the name or the path of a run in {where}/runs"
    raise DataError(explain("run", rule, text, f"The newest there: {known}. `fedkd runs list` lists all."))


def _some(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")


def _found(record: Path) -> Found:
    """Read when a run started and what it is called; a record that cannot be read has no name."""
    from fedkd_flwr.record.run_record import record_digest

    try:
        data = json.loads(record.read_bytes())
        if data["digest"] != record_digest(data):
            raise ValueError("changed or damaged")
        config = data.get("config", {})
        return Found(record, datetime.fromisoformat(data["started"]).astimezone(UTC), str(config.get("name", "")))
    except (OSError, ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return Found(record, datetime.fromtimestamp(record.parent.stat().st_mtime, UTC), "")

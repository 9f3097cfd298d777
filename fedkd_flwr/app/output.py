"""Where a run keeps its results, and which earlier run it continues."""

from __future__ import annotations

import errno
import os
import tempfile
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from fedkd_flwr.app.find_run import OUTPUT, find_checkpoint
from fedkd_flwr.errors import Code, ConfigError, DataError, explain
from fedkd_flwr.files import make_folder
from fedkd_flwr.processes.alive import still_runs
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.settings.config import RunConfig
from fedkd_flwr.stores.checkpoints import Lineage

__all__ = ["continued", "first_run", "output_root", "require_writable"]


def output_root(text: str, key: str = "output-dir") -> Path:
    """Return the folder for results that ``key`` names: absolute, for a SuperLink's directory is not the user's."""
    root = Path(text or OUTPUT).expanduser()
    if not root.is_absolute():
        raise ConfigError(explain(key, "be an absolute path", text, f"Write {root.absolute()} if you mean that."))
    return root


def require_writable(root: Path) -> None:
    """Refuse a state folder in which this process may not write; a full disk is another matter, and passes."""
    folder = root
    try:
        make_folder(root)
        for folder in (root, *(one for one in root.iterdir() if one.is_dir())):
            with tempfile.TemporaryFile(dir=folder):
                pass
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            return
        way_out = "Give the node's user the right to write there, or mount the disk so that it can be written."
        message = explain(f"state-dir {folder}", "be writable", error.strerror or str(error), way_out)
        raise DataError(message, code=Code.STATE_READ_ONLY) from error


def continued(config: RunConfig) -> Path | None:
    """Return the folder with the checkpoint of the run that this one continues; None where it continues none."""
    return _checkpoint(config.resume_from, config.output_dir, not config.public_path) if config.resume_from else None


@lru_cache(maxsize=4)
def _checkpoint(text: str, output_dir: str, simulated: bool) -> Path:
    folder, root = find_checkpoint(text, output_root(output_dir)), output_root(output_dir)
    if simulated and folder.parents[2] != root:
        way_out = f"The parties' state lies there: give output-dir={folder.parents[2]}"
        raise ConfigError(explain("output-dir", "be that of the run to continue", str(root), way_out))
    with suppress(DataError):  # a checkpoint may lie without a record
        record = RunRecord.load(folder.with_name("record.json"))
        process = record.process
        if record.status == "running" and process and process.pid != os.getpid() and still_runs(process):
            seen = f"{record.run_id}, which still goes on"
            way_out = f"Stop it first (process {process.pid}), or let it end."
            raise ConfigError(explain("resume-from", "name a run that has ended", seen, way_out))
    return folder


@lru_cache(maxsize=4)
def first_run(config: RunConfig, run_id: str) -> str:
    """Return the id of the first of the runs that this one continues: a simulation's ledgers are in its folder."""
    folder = continued(config)
    return run_id if folder is None else Lineage.load(folder).runs[0]

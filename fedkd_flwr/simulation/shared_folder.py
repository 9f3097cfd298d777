"""One folder for all processes of a simulation: machines of a cluster have to share it, with its file locks.

The server holds a lock in the run's folder while the parties start. A process that does not find the file works on
another machine's folder; one that gets the lock would charge a ledger while another one does.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fedkd_flwr.app.output import output_root
from fedkd_flwr.errors import ConfigError, DataError, explain
from fedkd_flwr.stores.files import locked

__all__ = ["held_by_server", "look", "require_shared"]

_LOCK = "parties.lock"


@contextmanager
def held_by_server(folder: Path) -> Iterator[None]:
    """Hold the lock by which parties know the run's folder ``folder``.

    Raises `DataError` if its file system has no locks.
    """
    try:
        with locked(folder / _LOCK, timeout_s=0.0):
            yield
    finally:
        with suppress(OSError):
            (folder / _LOCK).unlink()


def look(output_dir: str, run_id: str) -> dict[str, str]:
    """Return what a process of a simulated party sees of the run's folder: nothing, or ``fault`` and ``host``."""
    path = output_root(output_dir) / "runs" / run_id / _LOCK
    fault = "not there"
    if path.exists():
        if os.name == "nt":  # where nothing is locked
            return {}
        try:
            with locked(path, timeout_s=0.0):
                fault = "locked by nobody, though the server holds its lock"
        except DataError:
            return {}
    return {"fault": fault, "host": platform.node()}


def require_shared(folder: Path, seen: Mapping[int, Mapping[str, Any]]) -> None:
    """Refuse a run whose parties do not all see its folder as the server does.

    ``seen``: what each node's `look` returned.

    Raises `ConfigError`: the text names the machines.
    """
    wrong = [one for one in seen.values() if one.get("fault")]
    if not wrong:
        return
    hosts = ", ".join(sorted({str(one.get("host")) for one in wrong})[:5])
    text = f"{folder}, which is {wrong[0]['fault']} for {len(wrong)} of {len(seen)} parties (on {hosts})"
    way_out = (
        "Parties keep their state and ledgers there. Mount one folder under the same path on every machine, and name "
        "it: output-dir=/mnt/shared/fedkd. docs/howto/many-parties.md says more."
    )
    raise ConfigError(explain("output-dir", "be one folder with file locks for all machines", text, way_out))

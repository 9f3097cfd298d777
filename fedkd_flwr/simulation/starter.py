"""Where the processes of a simulation's parties come from; it imports nothing that takes time.

They are forked from one process that imports what parties need, and loads the run's rows, while the command does so.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.context import BaseContext
from typing import Any

__all__ = ["SETTINGS", "party_starter"]

SETTINGS = "FEDKD_SIMULATED"
"""The environment variable that tells the process which run's rows to load."""

_PRELOAD = ["fedkd_flwr.simulation.preload"]
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def party_starter(values: Mapping[str, Any] | None = None) -> BaseContext:
    """Begin to import what parties need, and return what starts a process that has it.

    Each computes on one core, as under Ray, and takes no file of the present folder for a library of its name.
    ``values``: a run's unchecked settings, whose rows it has then, too, in memory that all processes share.
    """
    forks = "forkserver" in get_all_start_methods()  # not on Windows
    new = {name: "1" for name in (*_THREADS, *["PYTHONSAFEPATH"] * forks) if name not in os.environ}
    new |= {SETTINGS: json.dumps(values)} if forks else {}
    os.environ.update(new)
    if not forks:
        return get_context("spawn")
    from multiprocessing import forkserver

    forkserver.set_forkserver_preload(_PRELOAD)
    forkserver.ensure_running()
    for name in new:
        del os.environ[name]
    return get_context("forkserver")

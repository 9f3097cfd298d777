"""Where the processes of a simulation's parties come from; it imports nothing that takes time.

They are forked from one process that imports what parties need while the command reads its settings.
"""

from __future__ import annotations

import os
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.context import BaseContext

__all__ = ["party_starter"]

_PRELOAD = ["fedkd_flwr.simulation.parties", "fedkd_flwr.app.client_app", "fedkd_flwr.app.assembly"]
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def party_starter() -> BaseContext:
    """Begin to import what parties need, and return what starts a process that has it.

    Each computes on one core, as under Ray, and takes no file of the present folder for a library of its name.
    """
    forks = "forkserver" in get_all_start_methods()  # not on Windows
    new = {name: "1" for name in (*_THREADS, *["PYTHONSAFEPATH"] * forks) if name not in os.environ}
    os.environ.update(new)
    if not forks:
        return get_context("spawn")
    from multiprocessing import forkserver

    forkserver.set_forkserver_preload(_PRELOAD)
    forkserver.ensure_running()
    for name in new:
        del os.environ[name]
    return get_context("forkserver")

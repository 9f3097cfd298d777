"""A ServerApp whose SuperLink is gone ends, whatever its main thread waits for."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Sequence

from fedkd_flwr.processes.alive import exists

__all__ = ["end_with_parent"]

_GRACE_S = 60.0


def end_with_parent(
    arguments: Sequence[str] | None = None, *, grace_s: float = _GRACE_S, end: Callable[[int], object] = os._exit
) -> threading.Thread | None:
    """End this process if it still runs so long after the process that Flower has it watch is gone.

    Flower gives the process of an app ``--parent-pid`` and interrupts it when that process is gone. An interrupt that
    comes at the wrong moment was seen to wait for ever, in locks of Flower's exit. What a run keeps is written whole or
    not at all, so that nothing is lost.

    Returns the thread that watches; None where there is nobody to watch, or the system cannot say (Windows).
    ``arguments`` are the command line, ``grace_s`` the seconds that an orderly end may take; ``end`` ends the process
    with its exit code.
    """
    words = list(sys.argv if arguments is None else arguments)
    given = words[words.index("--parent-pid") + 1 :] if "--parent-pid" in words else []
    if not given or not given[0].isdecimal() or os.name != "posix":
        return None
    parent = int(given[0])

    def watch() -> None:
        while exists(parent):
            time.sleep(min(grace_s, 1.0))
        time.sleep(grace_s)
        end(1)

    thread = threading.Thread(target=watch, name="end-with-parent", daemon=True)
    thread.start()
    return thread

"""Ends a process that hangs, with all its stacks in the log: Flower never would, and ask its node no more.

The time runs from the last sign of work, not from the start: a visit may have several pieces, each with a limit of its
own, and a person may be asked in between.
"""

from __future__ import annotations

import faulthandler
import os
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["paused", "still_at_work", "watched"]

_seconds = 0.0  # 0: nothing is watched
_process = 0  # a forked copy of it has no timer, and touching its parent's makes it hang


@contextmanager
def watched(seconds: float) -> Iterator[None]:
    """End this process once so many seconds pass without a sign of work; its stacks go to stderr."""
    global _seconds, _process
    _seconds, _process = seconds, os.getpid()
    still_at_work()
    try:
        yield
    finally:
        _seconds = 0.0
        faulthandler.cancel_dump_traceback_later()


def still_at_work() -> None:
    """Begin the time anew, if this process is watched."""
    if _seconds and os.getpid() == _process:
        faulthandler.dump_traceback_later(_seconds, exit=True, file=2)  # stderr; also where C code hangs


@contextmanager
def paused() -> Iterator[None]:
    """Let any time pass, as while a person decides."""
    if _seconds and os.getpid() == _process:
        faulthandler.cancel_dump_traceback_later()
    try:
        yield
    finally:
        still_at_work()

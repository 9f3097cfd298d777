"""Whether a process still runs, for one that is killed cannot say that it ended; and the end of one that hangs.

Flower would never end a process that hangs, and ask its node no more. Here all its stacks are in the log. The time runs
from the last sign of work, not from the start: a visit may have several pieces, each with a limit of its own, and a
person may be asked in between.
"""

from __future__ import annotations

import faulthandler
import hashlib
import os
import socket
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ProcessRecord", "exists", "paused", "still_at_work", "still_runs", "this_process", "watched"]

_PROC = Path("/proc")


@dataclass(kw_only=True)
class ProcessRecord:
    """One process of one machine, by names that no other process gets."""

    pid: int  # its number on that machine
    started: str  # when it started, as the system counts it: process numbers are used again
    machine: str  # digest of the machine, its last start and its container


def this_process() -> ProcessRecord:
    """Return the process that calls this."""
    return ProcessRecord(pid=os.getpid(), started=_started(os.getpid()), machine=_machine())


def still_runs(process: ProcessRecord | None) -> bool | None:
    """Tell whether a process still runs; None where it cannot be known, as on another machine."""
    if process is None or not process.started or process.machine != _machine():
        return None
    return _started(process.pid) == process.started


def exists(pid: int) -> bool:
    """Tell whether a process has this number (POSIX alone), also one that ended and is not yet collected."""
    try:
        os.kill(pid, 0)  # asks, and sends nothing
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's
        return True
    return True


def _started(pid: int) -> str:
    """Return when a process started, "" if it has ended or the system does not say."""
    if (_PROC / "self" / "stat").exists():
        try:
            # the name in parentheses may hold anything, spaces too
            fields = (_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            return ""
        return "" if fields[0] in "ZX" else fields[19]  # ended, but not yet collected by its parent
    try:
        told = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    except OSError:  # Windows
        return ""
    return told.stdout.strip()


def _machine() -> str:
    names = [socket.gethostname(), str(uuid.getnode())]
    for path in (_PROC / "sys/kernel/random/boot_id", _PROC / "self/ns/pid"):
        try:
            names.append(os.readlink(path) if path.name == "pid" else path.read_text().strip())
        except OSError:
            continue
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]


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

"""Which process writes something, and whether it still runs: a process that is killed cannot say that it ended."""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import uuid
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ProcessRecord", "exists", "still_runs", "this_process"]

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

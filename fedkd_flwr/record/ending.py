"""How a run ended, in words: why it failed, or who stopped it."""

from __future__ import annotations

import errno

from fedkd_flwr.errors import FedkdError, WaitingError, cause

__all__ = ["how_ended"]

# what ends a run and is no `Exception`; Flower raises the second one where it learns that a run was stopped
_STOPS = {
    "KeyboardInterrupt": "Ctrl-C",
    "RunNotRunningException": "flwr stop",
}


def how_ended(error: BaseException) -> tuple[str, str]:
    """Return the status of a run that ``error`` ended, failed, stopped or waiting, and the reason."""
    kind = type(error).__name__
    if isinstance(error, Exception):
        return "failed", _why_failed(error)
    if isinstance(error, WaitingError):
        return "waiting", ""
    return "stopped", _STOPS.get(kind, f"its process was told to end ({kind})")


def _why_failed(error: Exception) -> str:
    """Return why a run failed; what its machine lacked, in a sentence."""
    if isinstance(error, FedkdError):
        return str(error)
    kept = "What the rounds before found is in this record."
    if isinstance(error, MemoryError):
        return f"The server ran out of memory ({cause(error)}). {kept} Give it more, or run fewer parties or rows."
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"The server's disk is full ({cause(error)}). {kept} Make room there, or name another output-dir."
    return cause(error)

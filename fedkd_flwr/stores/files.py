"""Safe file names, locks between the processes of one party, and the secret of a node."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable, Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from fedkd_flwr.errors import Code, DataError, explain
from fedkd_flwr.files import make_folder, read_sealed, write_sealed

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["file_name", "locked", "make_folder", "node_secret", "read_state", "state_lost"]

T = TypeVar("T")
_SECRET, _SECRET_BYTES = "node.secret", 32
_NEW_SECRET = "Restore it, or remove it: the server then takes this node for a new one."

logger = logging.getLogger("flwr.party")


@contextlib.contextmanager
def locked(path: Path, *, timeout_s: float) -> Iterator[None]:
    """Hold a lock file: meanwhile no other thread and no other process can hold it. A crash frees it.

    Raises `DataError` if another still holds it after ``timeout_s`` seconds, or where the file system has no locks.
    Without ``fcntl`` (Windows) nothing is locked, and a warning is logged.
    """
    if fcntl is None:
        _warn_unlocked()
        yield
        return
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + timeout_s
    try:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not time.monotonic() < deadline:
                    way_out = "Another process holds it: run one process per party, or let this one wait longer."
                    message = explain(f"lock {path}", f"be free within {timeout_s:g} s", "held by another", way_out)
                    raise DataError(message, code=Code.INTERNAL) from None
                time.sleep(0.02)
            except OSError as error:
                way_out = "Set state-dir or output-dir to a folder on a disk whose locks work: local, or NFS 4."
                seen = error.strerror or str(error)
                message = explain(f"the file system of {path.parent}", "lock files", seen, way_out)
                raise DataError(message, code=Code.INTERNAL) from error
        yield
    finally:
        os.close(handle)  # this unlocks the file


@cache
def _warn_unlocked() -> None:
    logger.warning("This system locks no files: run one process per party, or a charge may be lost.")


def node_secret(root: Path) -> bytes:
    """Return the secret of the node whose state directory this is, 32 bytes; drawn where there is none yet.

    A silo without a registered key that is started again is a new node to Flower; by this the server knows it again.
    """
    path = root / _SECRET
    make_folder(root)
    with locked(root / f"{_SECRET}.lock", timeout_s=60.0):
        if not os.path.lexists(path):
            write_sealed(path, {"secret": os.urandom(_SECRET_BYTES).hex()})
        return read_state(path, "node secret", _NEW_SECRET, lambda data: bytes.fromhex(data["secret"]))


def read_state(path: Path, what: str, way_out: str, make: Callable[[dict[str, Any]], T]) -> T:
    """Return what is made of a sealed file; `DataError` (``state-lost``), in these words, if that cannot be."""
    try:
        return make(read_sealed(path))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise state_lost(path, what, error, way_out) from error


def state_lost(path: Path, what: str, error: Exception, way_out: str) -> DataError:
    """Return the error of a file of state that cannot be believed."""
    seen = error.strerror or type(error).__name__ if isinstance(error, OSError) else str(error) or type(error).__name__
    return DataError(explain(f"{what} {path}", "be whole", seen, way_out), code=Code.STATE_LOST)


def file_name(party: str) -> str:
    """Return a safe file name for a party: its own name if all its characters are safe, otherwise with a digest.

    >>> file_name("party-007"), file_name("St. Mary/West")
    ('party-007', 'St--Mary-West-8671560d')
    """
    safe = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "-" for c in party)[:60]
    return safe if safe and safe == party else f"{safe}-{sha256(party.encode()).hexdigest()[:8]}"

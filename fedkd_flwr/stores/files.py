"""Files that must survive: written atomically, for their owner alone, behind locks."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path

from fedkd_flwr.errors import Code, DataError, explain

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["file_name", "locked", "make_folder", "write_atomic"]

logger = logging.getLogger("flwr.party")


def write_atomic(path: str | Path, data: bytes) -> Path:
    """Write ``data`` to ``path`` so that a reader sees the old file or the whole new one; mode 0600.

    After it returns, a power cut loses neither the bytes nor the name (on systems that can sync a folder).
    """
    path = Path(path)
    make_folder(path.parent)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mkstemp makes it 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    _sync_folder(path.parent)
    return path


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, each lasting: a file is lost with the folder that holds it."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    """Make the names in a folder last; nothing on systems that cannot (Windows, some network disks)."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except PermissionError:  # Windows opens no folder; elsewhere one may be written to and not read
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(handle)


@contextlib.contextmanager
def locked(path: Path, *, timeout_s: float) -> Iterator[None]:
    """Hold a lock file: nobody else enters meanwhile, no other thread and no other process; a crash frees it.

    Without ``fcntl`` (Windows) nothing is locked, and a warning says so.

    Raises
    ------
    DataError
        If it is still held by another after ``timeout_s`` seconds.
    """
    if fcntl is None:
        _warn_unlocked()
        yield
        return
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + timeout_s
        while not _lock(handle):
            if not time.monotonic() < deadline:
                way_out = "Another process holds it: run one process per party, or let this one wait longer."
                message = explain(f"lock {path}", f"be free within {timeout_s:g} s", "held by another", way_out)
                raise DataError(message, code=Code.INTERNAL)
            time.sleep(0.02)
        yield
    finally:
        os.close(handle)  # which unlocks


def _lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@cache
def _warn_unlocked() -> None:
    logger.warning("This system locks no files: run one process per party, or a charge may be lost.")


def file_name(party: str) -> str:
    """Return a file name for a party: its own name where that is harmless, else made so by a digest.

    >>> file_name("party-007"), file_name("St. Mary/West")
    ('party-007', 'St--Mary-West-8671560d')
    """
    safe = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "-" for c in party)[:60]
    return safe if safe and safe == party else f"{safe}-{sha256(party.encode()).hexdigest()[:8]}"

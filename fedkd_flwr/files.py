"""Writing files so that they survive a crash: whole or not at all, readable by their owner alone."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from pathlib import Path

__all__ = ["make_folder", "write_atomic"]


def write_atomic(path: str | os.PathLike[str], data: bytes) -> Path:
    """Replace a file in one step: a reader sees the old file or the whole new one. Mode 0600.

    When it returns, bytes and name are on the disk and survive a power cut (on systems that can sync a folder).

    Parameters
    ----------
    path : path
        Missing folders are made.
    data : bytes
        The new content.

    Raises
    ------
    OSError
        If the file cannot be written; the old one is then still there.
    """
    path = Path(path)
    make_folder(path.parent)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # with mode 0600
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
    """Make a folder and its parents and sync each of them, because a file is lost with the folder that holds it."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    """Sync the names in a folder to disk; do nothing on systems that cannot (Windows, some network disks)."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except PermissionError:  # Windows cannot open a folder, and elsewhere a folder may be writable but not readable
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(handle)

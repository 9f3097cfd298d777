"""Files that must survive: written atomically, for their owner alone, in formats that execute nothing."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.errors import Code, ConfigError, DataError, explain

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = [
    "PartyState",
    "Saved",
    "StoredReply",
    "file_name",
    "load_checkpoint",
    "locked",
    "make_folder",
    "save_checkpoint",
    "write_atomic",
]

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


@dataclass(frozen=True, kw_only=True)
class Saved:
    """What one party kept after a round.

    Parameters
    ----------
    server_round : int
        The last round it answered.
    arrays : mapping of str to ndarray
        For instance ``labels``: the array it sent.
    model : bytes
        Its model, as `fedkd_flwr.models.serialize` writes it; empty where the model is refitted each round.
    meta : mapping
        Plain JSON values.
    """

    server_round: int
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    model: bytes = b""
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class StoredReply:
    """One reply, exactly as it leaves.

    Parameters
    ----------
    arrays : mapping of str to ndarray
        By payload name, in their order.
    metrics : mapping
        Plain values beside them: bool, int, float, str or bytes.
    """

    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    metrics: Mapping[str, bool | int | float | str | bytes] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """Return it as an archive that holds no code.

        Raises
        ------
        ConfigError
            If a metric is no plain value.
        ValueError
            If an array holds Python objects.
        """
        metrics: dict[str, Any] = {}
        for name, value in self.metrics.items():
            if not isinstance(value, bool | int | float | str | bytes):
                raise ConfigError(explain(f"metric {name}", "be a plain number, text or bytes", value))
            metrics[name] = {"hex": value.hex()} if isinstance(value, bytes) else value
        meta = json.dumps({"arrays": list(self.arrays), "metrics": metrics}).encode()
        arrays: dict[str, NDArray[Any]] = {f"array.{i}": array for i, array in enumerate(self.arrays.values())}
        buffer = BytesIO()
        np.savez(buffer, allow_pickle=False, meta=np.frombuffer(meta, dtype=np.uint8), **arrays)
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> StoredReply:
        """Read `to_bytes`; whoever calls has compared the bytes with their digest."""
        with np.load(BytesIO(data), allow_pickle=False) as file:
            meta = json.loads(file["meta"].tobytes())
            arrays = {name: file[f"array.{i}"] for i, name in enumerate(meta["arrays"])}
        metrics = {k: bytes.fromhex(v["hex"]) if isinstance(v, dict) else v for k, v in meta["metrics"].items()}
        return cls(arrays=arrays, metrics=metrics)


class PartyState:
    """One party's memory within one run: a single file, replaced as a whole after each round.

    Parameters
    ----------
    root : str or Path
        The party's state directory.
    run_id : str
        The run; another run starts from nothing.
    party : str
        The party's name.
    """

    def __init__(self, root: str | Path, *, run_id: str, party: str) -> None:
        self.party = party
        self.directory = Path(root).expanduser() / "runs" / file_name(run_id) / "parties"
        self.path = self.directory / f"{file_name(party)}.npz"

    def save(self, saved: Saved) -> None:
        """Replace the state."""
        # names are listed apart: an archive's own directory carries no checksum
        names = sorted(saved.arrays)
        meta = {"server_round": saved.server_round, "party": self.party, "arrays": names, "meta": dict(saved.meta)}
        arrays: dict[str, NDArray[Any]] = {f"array.{name}": array for name, array in saved.arrays.items()}
        arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
        arrays["model"] = np.frombuffer(saved.model, dtype=np.uint8)
        buffer = BytesIO()
        np.savez(buffer, allow_pickle=False, **arrays)
        write_atomic(self.path, buffer.getvalue())

    def remove(self) -> None:
        """Forget this run."""
        self.path.unlink(missing_ok=True)

    def load(self) -> Saved | None:
        """Return the state, or None where there is none yet.

        Raises
        ------
        DataError
            If the file is damaged or belongs to another party (code ``state-lost``).
        """
        if not self.path.exists():
            return None
        try:
            # opened here: NumPy leaves the file open when it is no archive
            with self.path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
                meta = json.loads(file["meta"].tobytes())
                arrays = {name: file[f"array.{name}"] for name in meta["arrays"]}
                model = file["model"].tobytes()
            if meta["party"] != self.party:
                raise ValueError(f"state of {meta['party']}")
            return Saved(server_round=int(meta["server_round"]), arrays=arrays, model=model, meta=meta["meta"])
        except Exception as error:  # a damaged archive may break any part of any parser
            way_out = "Remove the file to start this run afresh at this party."
            message = explain(f"state file {self.path}", f"be the whole state of {self.party}", str(error), way_out)
            raise DataError(message, code=Code.STATE_LOST) from error


_CHECKPOINT = "checkpoint.npz"


def save_checkpoint(folder: str | Path, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> Path:
    """Replace the checkpoint in ``folder``: a reader, and a crash, find the old one or the whole new one.

    Parameters
    ----------
    folder : path
        Made where it is missing.
    arrays : mapping of str to ndarray
        No Python objects.
    meta : mapping
        Plain JSON values.
    """
    text = json.dumps({"arrays": list(arrays), "meta": dict(meta)}, allow_nan=False).encode()
    named: dict[str, NDArray[Any]] = {f"array.{i}": array for i, array in enumerate(arrays.values())}
    buffer = BytesIO()
    np.savez(buffer, allow_pickle=False, meta=np.frombuffer(text, dtype=np.uint8), **named)
    return write_atomic(Path(folder) / _CHECKPOINT, buffer.getvalue())


def load_checkpoint(folder: str | Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Return the arrays and values of `save_checkpoint`.

    Raises
    ------
    DataError
        If there is none (code ``missing-file``), or it is damaged (``state-lost``).
    """
    path = Path(folder) / _CHECKPOINT
    if not path.is_file():
        way_out = "Name the folder runs/<run-id>/checkpoint of the run to continue."
        raise DataError(explain(f"checkpoint {path}", "be there", "no such file", way_out), code=Code.MISSING_FILE)
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            text = json.loads(file["meta"].tobytes())
            arrays = {name: file[f"array.{i}"] for i, name in enumerate(text["arrays"])}
        return arrays, dict(text["meta"])
    except Exception as error:  # a damaged archive may break any part of any parser
        way_out = "Start the run afresh."
        message = explain(f"checkpoint {path}", "be whole", str(error) or type(error).__name__, way_out)
        raise DataError(message, code=Code.STATE_LOST) from error

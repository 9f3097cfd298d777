"""Files that must survive: written atomically, for their owner alone, in formats that execute nothing."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.errors import Code, DataError, explain

__all__ = ["PartyState", "Saved", "file_name", "write_atomic"]


def write_atomic(path: str | Path, data: bytes) -> Path:
    """Write ``data`` to ``path`` so that a reader sees the old file or the whole new one; mode 0600."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
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
    return path


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

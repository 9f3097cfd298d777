"""What a party keeps between the rounds of one run, and a reply exactly as it was sent. Reading them runs no code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.errors import Code, ConfigError, DataError, explain
from fedkd_flwr.files import write_atomic, write_sealed
from fedkd_flwr.stores.files import file_name, read_state

__all__ = ["PartyState", "Saved", "StoredReply", "runs_gone_on_from"]

_WENT_ON = ".continues.json"


@dataclass(frozen=True, kw_only=True)
class Saved:
    """What one party kept after a round.

    Parameters
    ----------
    server_round : int
        The last round the party answered.
    arrays : mapping of str to ndarray
        For instance ``labels``, the array it sent.
    model : bytes
        Its model, as `fedkd_flwr.models.serialize` writes it; empty if the model is refitted each round.
    meta : mapping
        Plain JSON values.
    """

    server_round: int
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    model: bytes = b""
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class StoredReply:
    """One reply, exactly as it is sent.

    Parameters
    ----------
    arrays : mapping of str to ndarray
        The arrays by payload name, in the order of the payload.
    metrics : mapping
        Plain values: bool, int, float, str or bytes.
    """

    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    metrics: Mapping[str, bool | int | float | str | bytes] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """Return the reply as an archive that can be read without running code.

        Raises `ConfigError` if a metric is not a plain value, `ValueError` if an array holds Python objects.
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
        """Return the reply that `to_bytes` wrote. The caller has compared the bytes with their digest."""
        with np.load(BytesIO(data), allow_pickle=False) as file:
            meta = json.loads(file["meta"].tobytes())
            arrays = {name: file[f"array.{i}"] for i, name in enumerate(meta["arrays"])}
        metrics = {k: bytes.fromhex(v["hex"]) if isinstance(v, dict) else v for k, v in meta["metrics"].items()}
        return cls(arrays=arrays, metrics=metrics)


class PartyState:
    """One party's state within one run: a single file, replaced as a whole after each round.

    Parameters
    ----------
    root : str or Path
        The party's state directory.
    run_id : str
        The run. Each run has a state of its own.
    party : str
        The party's name.
    """

    def __init__(self, root: str | Path, *, run_id: str, party: str) -> None:
        self.party, self.root = party, Path(root).expanduser()
        self.directory = self.root / "runs" / file_name(run_id) / "parties"
        self.path = self.directory / f"{file_name(party)}.npz"

    def of_run(self, run_id: str) -> PartyState:
        """Return this party's state within another run."""
        return PartyState(self.root, run_id=run_id, party=self.party)

    def note_continued(self, run_id: str) -> None:
        """Write down that this run goes on in the state of another, whose folder holds all that it keeps here."""
        if not (path := self.directory / f"{file_name(self.party)}{_WENT_ON}").exists():
            write_sealed(path, {"run": run_id})

    def save(self, saved: Saved) -> None:
        """Replace the state."""
        # the names are repeated in `meta`, because the list of an archive's members has no checksum
        names = sorted(saved.arrays)
        meta = {"server_round": saved.server_round, "party": self.party, "arrays": names, "meta": dict(saved.meta)}
        arrays: dict[str, NDArray[Any]] = {f"array.{name}": array for name, array in saved.arrays.items()}
        arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
        arrays["model"] = np.frombuffer(saved.model, dtype=np.uint8)
        buffer = BytesIO()
        np.savez(buffer, allow_pickle=False, **arrays)
        write_atomic(self.path, buffer.getvalue())

    def remove(self) -> None:
        """Delete the state of this run."""
        self.path.unlink(missing_ok=True)

    def load(self) -> Saved | None:
        """Return the state, or None if there is none yet.

        Raises `DataError` (code ``state-lost``) if the file is damaged or belongs to another party.
        """
        if not self.path.exists():
            return None
        try:
            # opened here, because NumPy leaves the file open if it is not an archive
            with self.path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
                meta = json.loads(file["meta"].tobytes())
                arrays = {name: file[f"array.{name}"] for name in meta["arrays"]}
                model = file["model"].tobytes()
            if meta["party"] != self.party:
                raise ValueError(f"state of {meta['party']}")
            return Saved(server_round=int(meta["server_round"]), arrays=arrays, model=model, meta=meta["meta"])
        except Exception as error:  # a damaged archive may raise anything
            way_out = "Remove the file to start this run afresh at this party."
            message = explain(f"state file {self.path}", f"be the whole state of {self.party}", str(error), way_out)
            raise DataError(message, code=Code.STATE_LOST) from error


def runs_gone_on_from(folder: Path, party: str = "") -> list[str]:
    """Return the ids of the runs that parties of a run went on from (`PartyState.note_continued`).

    Parameters
    ----------
    folder : Path
        The run's folder in a state directory.
    party : str
        Of this party alone; "" for all.

    Raises
    ------
    DataError
        If a note of it was changed (code ``state-lost``).
    """
    paths = sorted((folder / "parties").glob(f"{file_name(party) if party else '*'}{_WENT_ON}"))
    way_out = "Remove the file; what the party keeps of the run that it went on in then stays."
    return [str(read_state(path, "note", way_out)["run"]) for path in paths]

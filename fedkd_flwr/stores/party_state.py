"""What a party keeps between the rounds of one run, and a reply exactly as it was sent. Reading them runs no code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.errors import Code, ConfigError, DataError, explain
from fedkd_flwr.files import packed, unpacked, write_atomic, write_sealed
from fedkd_flwr.stores.files import file_name, read_state

__all__ = ["PartyState", "Saved", "StoredReply", "runs_gone_on_from"]

_WENT_ON = ".continues.json"
_SIGNATURE = {"party", "wire-version", "payload"}  # metrics that every reply carries
_MODEL = ""  # the name of the model among the arrays, which have longer ones


@dataclass(frozen=True, kw_only=True)
class Saved:
    """What one party kept after a round."""

    server_round: int  # the last round the party answered
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)  # for instance ``labels``, the array it sent
    # its model, as `fedkd_flwr.models.serialize` writes it; empty if the model is refitted each round
    model: bytes = b""
    meta: Mapping[str, Any] = field(default_factory=dict)  # plain JSON values


@dataclass(frozen=True, kw_only=True)
class StoredReply:
    """One reply, exactly as it is sent."""

    # the arrays by payload name, in the order of the payload
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    # plain values: bool, int, float, str or bytes
    metrics: Mapping[str, bool | int | float | str | bytes] = field(default_factory=dict)

    @property
    def discloses(self) -> bool:
        """Whether it holds more than a party's name and the version of what it speaks."""
        return bool(self.arrays or set(self.metrics) - _SIGNATURE)

    def to_bytes(self) -> bytes:
        """Return the reply as an archive that can be read without running code.

        Raises `ConfigError` if a metric is not a plain value, `ValueError` if an array holds Python objects.
        """
        return packed(self.arrays, self._plain())

    @cached_property
    def digest(self) -> str:
        """What ledger, egress log and approvals call it, 64 hexadecimal digits: SHA-256 of all that it says.

        It is made of names, types, shapes and SHA-256 of the arrays, and of the plain values, so that whoever only
        writes down what left need not pack the reply for that.
        """
        said = [[n, str(a.dtype), a.shape, sha256(a.tobytes()).hexdigest()] for n, a in self.arrays.items()]
        return sha256(json.dumps([said, self._plain()]).encode()).hexdigest()

    def _plain(self) -> dict[str, Any]:
        for name, value in self.metrics.items():
            if not isinstance(value, bool | int | float | str | bytes):
                raise ConfigError(explain(f"metric {name}", "be a plain number, text or bytes", value))
        return {n: {"hex": v.hex()} if isinstance(v, bytes) else v for n, v in self.metrics.items()}

    @classmethod
    def from_bytes(cls, data: bytes, digest: str = "") -> StoredReply:
        """Return the reply that `to_bytes` wrote; raises `ValueError` if it is not the one of this ``digest``."""
        arrays, metrics = unpacked(data)
        try:
            plain = {name: bytes.fromhex(v["hex"]) if isinstance(v, dict) else v for name, v in metrics.items()}
            made = cls(arrays=arrays, metrics=plain)
            if digest in ("", made.digest):
                return made
        except (KeyError, TypeError, ConfigError) as error:
            raise ValueError(str(error)) from error
        raise ValueError(f"another reply than that of digest {digest[:16]}")


class PartyState:
    """One party's state within one run: a single file, replaced as a whole after each round.

    ``root``: the party's state directory. ``run_id``: the run. Each run has a state of its own.
    """

    keeps = True  # what `fedkd_flwr.stores.nothing.NoState` does not

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
        values = {"server_round": saved.server_round, "party": self.party, "meta": dict(saved.meta)}
        model = np.frombuffer(saved.model, dtype=np.uint8)
        write_atomic(self.path, packed({_MODEL: model, **saved.arrays}, values))

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
            arrays, values = unpacked(self.path.read_bytes())
            if values["party"] != self.party:
                raise ValueError(f"state of {values['party']}")
            model = arrays.pop(_MODEL).tobytes()
            return Saved(server_round=int(values["server_round"]), arrays=arrays, model=model, meta=values["meta"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            way_out = "Remove the file to start this run afresh at this party."
            message = explain(f"state file {self.path}", f"be the whole state of {self.party}", str(error), way_out)
            raise DataError(message, code=Code.STATE_LOST) from error


def runs_gone_on_from(folder: Path, party: str = "") -> list[str]:
    """Return the ids of the runs that parties of a run went on from (`PartyState.note_continued`).

    ``folder``: the run's folder in a state directory. ``party``: of this party alone; "" for all.

    Raises `DataError` if a note of it was changed (code ``state-lost``).
    """
    paths = sorted((folder / "parties").glob(f"{file_name(party) if party else '*'}{_WENT_ON}"))
    way_out = "Remove the file; what the party keeps of the run that it went on in then stays."
    return [str(read_state(path, "note", way_out)["run"]) for path in paths]

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
from fedkd_flwr.privacy.ledger.entry import Entry
from fedkd_flwr.privacy.ledger.ledger import Budget, Events
from fedkd_flwr.stores.files import file_name, read_state

__all__ = ["NO_LEDGER", "NO_STATE", "NoLedger", "NoState", "PartyState", "Saved", "StoredReply", "runs_gone_on_from"]

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
        """Return the reply as an archive that is read without running code; `ConfigError` for other metrics."""
        return packed(self.arrays, self._plain())

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all that it says, 64 hexadecimal digits: what ledger, egress log and approvals call it.

        Whoever only writes down what left need not pack the reply for it.
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
    """One party's state within one run, in its state directory: a file, replaced as a whole after each round."""

    keeps = True  # what `NoState` does not

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
        """Return the state, None before there is one; `DataError` (``state-lost``) if damaged or another party's."""
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
    """Return the ids of the runs that parties of a run, or this one, went on from (`PartyState.note_continued`)."""
    paths = sorted((folder / "parties").glob(f"{file_name(party) if party else '*'}{_WENT_ON}"))
    way_out = "Remove the file; what the party keeps of the run that it went on in then stays."
    return [read_state(path, "note", way_out, lambda data: str(data["run"])) for path in paths]


class NoLedger:
    """A `LedgerStore` that writes nothing down; a party with a finite budget, which it could not uphold, refuses it."""

    keeps = False

    def entries(self, run_id: str, server_round: int | None = None) -> list[Entry]:
        """Return no entry."""
        return []

    def answered(self, run_id: str, server_round: int) -> StoredReply | None:
        """Return None: no reply was charged."""
        return None

    def ask(self, events: Events, budget: Budget, *, run_id: str = "", rounds: int = 1) -> None:
        """Refuse nothing."""

    def charge(
        self, *, run_id: str, server_round: int, events: Events, reply: StoredReply, budget: Budget, **words: str
    ) -> StoredReply:
        """Charge nothing, and return the reply."""
        return reply

    def note_no_noise(self, *, run_id: str, algorithm: str) -> None:
        """Note nothing."""


class NoState:
    """Keeps nothing between rounds. The methods are those of `PartyState`."""

    keeps = False

    def save(self, saved: Saved) -> None:
        """Keep nothing."""

    def remove(self) -> None:
        """Remove nothing."""

    def load(self) -> Saved | None:
        """Return None: nothing was kept."""
        return None


NO_LEDGER, NO_STATE = NoLedger(), NoState()

"""Replies that a party holds back until a person has decided: beside its egress log, in ``held/``.

| file | holds |
|---|---|
| ``<run>-<round>.npz`` | the exact reply, as `StoredReply.to_bytes` writes it |
| ``<run>-<round>.csv`` | the same as a table: a public row, its columns, the label or score |
| ``<run>-<round>.json`` | what it is, until when somebody waits for a decision; and the decision, about which bytes |

A final visit has ``final`` in the place of its round. A decision is written once and stays; the reply and its table are
removed with it. Where nobody decided in time they stay until the party holds the next reply after that time.
"""

from __future__ import annotations

import contextlib
import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from fedkd_flwr.errors import Code, ConfigError, DataError, explain
from fedkd_flwr.files import for_spreadsheets, make_folder, read_sealed, write_atomic, write_sealed
from fedkd_flwr.stores.files import file_name, locked
from fedkd_flwr.stores.party_state import StoredReply

__all__ = ["Decision", "Held", "HeldReplies", "held_in"]

Verdict = Literal["approved", "rejected", "expired"]
_LOCK_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What was decided about one reply."""

    verdict: Verdict  # ``expired``: nobody decided in time
    sha256: str  # the digest of the reply that it is about, in hexadecimal: an approval is of these bytes and no others
    # by, reason: Who decided, as the command was told, and why
    by: str = ""
    reason: str = ""
    when: str = ""  # ISO 8601, UTC


@dataclass(frozen=True)
class Held:
    """One reply that waits, or that nobody decided about in time."""

    path: Path  # its files, without their endings
    facts: Mapping[str, Any]  # what it is: plain JSON, with ``run``, ``round``, ``party``, ``output``, ``until``

    def file(self, ending: str) -> Path:
        """Return one of its files."""
        return Path(f"{self.path}.{ending}")

    @property
    def table(self) -> list[list[str]]:
        """The reply as a table, with its header; [] where nobody could read it as one."""
        if not self.file("csv").exists():
            return []
        csv.field_size_limit(2**31 - 1)  # by default 131,072 characters, and a public row may hold a longer text
        with self.file("csv").open(encoding="utf-8", newline="") as file:
            return list(csv.reader(file))

    @property
    def reply(self) -> StoredReply:
        """The exact reply."""
        return StoredReply.from_bytes(self.file("npz").read_bytes())

    @property
    def waits(self) -> bool:
        """Whether a node may still wait for a decision."""
        return self.decision is None and datetime.now(UTC).isoformat() < str(self.facts["until"])

    @property
    def decision(self) -> Decision | None:
        """What was decided."""
        return _read(self.file("json"))[1]

    def decide(self, verdict: Verdict, *, by: str = "", reason: str = "") -> Decision:
        """Write down a decision, unless there is one, and return the one that holds; `DataError` for changed bytes."""
        with locked(self.path.parent / "lock", timeout_s=_LOCK_S):
            if (known := self.decision) is not None:
                return known
            digest = str(self.facts["output"]["sha256"])
            try:
                if verdict == "approved":
                    StoredReply.from_bytes(self.file("npz").read_bytes(), digest)
            except ValueError as error:
                way_out = "Somebody changed it. Reject it, and look at who may write there."
                rule = f"be the bytes of digest {digest[:16]}"
                raise DataError(explain(f"held reply {self.file('npz')}", rule, "others", way_out)) from error
            now = datetime.now(UTC).isoformat(timespec="seconds")
            decision = Decision(verdict=verdict, sha256=digest, by=by, reason=reason, when=now)
            write_sealed(self.file("json"), {"facts": dict(self.facts), "decision": asdict(decision)})
            return decision

    def remove(self) -> None:
        """Remove what was decided about; the decision stays."""
        for ending in ("csv", "npz"):
            self.file(ending).unlink(missing_ok=True)


class HeldReplies:
    """The replies that one party holds back, in the ``folder`` named ``held`` beside its egress log."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, reply: StoredReply, facts: Mapping[str, Any], table: Iterable[Sequence[object]] | None) -> Held:
        """Hold a reply back; earlier ones that no node waits for are removed, their decisions stay.

        ``facts``: as in `Held`. ``table``: the reply as a table, its header first.
        """
        held = Held(self.folder / _name(str(facts["run"]), facts["round"]), facts)
        make_folder(self.folder)
        with contextlib.suppress(DataError):  # a damaged file of an older reply is no matter of this one
            for old in held_in(self.folder):
                if not old.waits:  # nobody decided in time, or the node was killed while it waited
                    old.remove()
        write_atomic(held.file("npz"), reply.to_bytes())
        if table is not None:
            text = io.StringIO(newline="")
            csv.writer(text, lineterminator="\n").writerows(for_spreadsheets(table))
            write_atomic(held.file("csv"), text.getvalue().encode())
        with locked(self.folder / "lock", timeout_s=_LOCK_S):
            known = held.decision if held.file("json").exists() else None
            if known is not None and known.verdict != "rejected":
                known = None  # nobody decided in time, or about other bytes: somebody may decide about these
            write_sealed(held.file("json"), {"facts": dict(facts), "decision": known and asdict(known)})
        return held

    def decision(self, run: str, server_round: int | str) -> Decision | None:
        """Return what was decided about one reply; None for one that nobody decided about, in time or yet."""
        path = self.folder / f"{_name(run, server_round)}.json"
        decision = _read(path)[1] if path.exists() else None
        return None if decision is None or decision.verdict == "expired" else decision


def held_in(path: Path) -> list[Held]:
    """Return the replies held in a ``held`` folder, or anywhere in a state directory, the oldest first."""
    if not path.is_dir():
        raise ConfigError(explain("state-dir", "be a folder", str(path), "Give the party's state-dir."))
    files = {one for pattern in ("*.json", "egress/*/held/*.json") for one in path.glob(pattern)}
    waiting = [file for file in files if file.parent.name == "held" and file.with_suffix(".npz").exists()]
    found = [Held(file.with_suffix(""), _read(file)[0]) for file in waiting]
    return sorted(found, key=lambda held: str(held.facts["since"]))


def _read(file: Path) -> tuple[dict[str, Any], Decision | None]:
    """Return what is held, and what was decided about it; raises `DataError` where the file was changed."""
    try:
        read = read_sealed(file)
        return read["facts"], Decision(**read["decision"]) if read["decision"] else None
    except (OSError, ValueError, KeyError, TypeError) as error:
        way_out = "Remove it: nobody can approve that reply then, and nothing of it leaves."
        raise DataError(
            explain(f"held reply {file}", "be whole", str(error), way_out), code=Code.WRONG_CONFIG
        ) from error


def _name(run: str, server_round: int | str) -> str:
    return f"{file_name(run)}-{server_round}"

"""Replies that a party holds back until a person has decided: beside its egress log, in ``held/``.

| file | holds |
|---|---|
| ``<run>-<round>.npz`` | the exact reply, as `StoredReply.to_bytes` writes it |
| ``<run>-<round>.csv`` | the same as a table: a public row, its columns, the label or score |
| ``<run>-<round>.json`` | what it is, and until when somebody waits for a decision |
| ``<run>-<round>.decision.json`` | what was decided, by whom, why, and for which bytes |

A final visit has ``final`` in the place of its round. A decision is written once and stays; what it is about is removed
with it, but where nobody decided in time, or the node was killed meanwhile: that stays until the party holds the next
reply after that time.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from fedkd_flwr.errors import Code, ConfigError, DataError, explain
from fedkd_flwr.files import for_spreadsheets, make_folder, write_atomic
from fedkd_flwr.stores.files import file_name, locked
from fedkd_flwr.stores.party_state import StoredReply

__all__ = ["Decision", "Held", "HeldReplies", "held_in"]

Verdict = Literal["approved", "rejected", "expired"]
_DECISION = ".decision.json"
_LOCK_S = 60.0
_NEEDED = {"run", "round", "since", "until"}


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What was decided about one reply."""

    verdict: Verdict  # one of "approved", "rejected", "expired": ``expired``: nobody decided in time
    sha256: str  # the digest of the reply that it is about, in hexadecimal: an approval is of these bytes and no others
    # by, reason: Who decided, as the command was told, and why
    by: str = ""
    reason: str = ""
    when: str = ""  # ISO 8601, UTC

    @classmethod
    def read(cls, path: Path) -> Decision | None:
        """Return the decision in a file, None if there is none; raises `DataError` if it is damaged."""
        try:
            found = cls(**json.loads(path.read_bytes()))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError) as error:
            way_out = "Remove it: the reply then waits for another decision."
            message = explain(f"decision {path}", "be whole", f"this: {error}", way_out)
            raise DataError(message, code=Code.WRONG_CONFIG) from error
        if found.verdict not in ("approved", "rejected", "expired"):
            message = explain(f"decision {path}", "be approved, rejected or expired", found.verdict)
            raise DataError(message, code=Code.WRONG_CONFIG)
        return found

    def write(self, path: Path) -> None:
        """Write the decision to a file."""
        write_atomic(path, json.dumps(asdict(self), indent=1).encode())


@dataclass(frozen=True)
class Held:
    """One reply that waits, or that nobody decided about in time."""

    path: Path  # its files, without their endings
    facts: Mapping[str, Any]  # what it is: plain JSON, with ``run``, ``round``, ``party``, ``output``, ``until``

    @property
    def table(self) -> list[list[str]]:
        """The reply as a table, with its header; [] where nobody could read it as one."""
        path = Path(f"{self.path}.csv")
        if not path.exists():
            return []
        csv.field_size_limit(2**31 - 1)  # by default 131,072 characters, and a public row may hold a longer text
        with path.open(encoding="utf-8", newline="") as file:
            return list(csv.reader(file))

    @property
    def reply(self) -> StoredReply:
        """The exact reply."""
        return StoredReply.from_bytes(Path(f"{self.path}.npz").read_bytes())

    @property
    def waits(self) -> bool:
        """Whether a node may still wait for a decision."""
        return self.decision is None and datetime.now(UTC).isoformat() < str(self.facts["until"])

    @property
    def decision(self) -> Decision | None:
        """What was decided."""
        return Decision.read(Path(f"{self.path}{_DECISION}"))

    def decide(self, verdict: Verdict, *, by: str = "", reason: str = "") -> Decision:
        """Write down a decision, unless there is one, and return the one that holds; `DataError` for changed bytes."""
        where = Path(f"{self.path}{_DECISION}")
        with locked(self.path.parent / "lock", timeout_s=_LOCK_S):
            known = Decision.read(where)
            if known is not None:
                return known
            digest = str(self.facts["output"]["sha256"])
            reply = Path(f"{self.path}.npz")
            try:
                if verdict == "approved":
                    StoredReply.from_bytes(reply.read_bytes(), digest)
            except ValueError as error:
                way_out = "Somebody changed it. Reject it, and look at who may write there."
                rule = f"be the bytes of digest {digest[:16]}"
                raise DataError(explain(f"held reply {reply}", rule, "others", way_out)) from error
            decision = Decision(
                verdict=verdict,
                sha256=digest,
                by=by,
                reason=reason,
                when=datetime.now(UTC).isoformat(timespec="seconds"),
            )
            decision.write(where)
            return decision

    def remove(self) -> None:
        """Remove what was decided about; the decision stays."""
        for ending in (".json", ".csv", ".npz"):
            Path(f"{self.path}{ending}").unlink(missing_ok=True)


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
        where = Path(f"{held.path}{_DECISION}")
        with locked(self.folder / "lock", timeout_s=_LOCK_S):
            if (known := Decision.read(where)) is not None and known.verdict != "rejected":
                where.unlink()  # nobody decided in time, or about other bytes: somebody may decide about these
        write_atomic(Path(f"{held.path}.npz"), reply.to_bytes())
        if table is not None:
            text = io.StringIO(newline="")
            csv.writer(text, lineterminator="\n").writerows(for_spreadsheets(table))
            write_atomic(Path(f"{held.path}.csv"), text.getvalue().encode())
        write_atomic(Path(f"{held.path}.json"), json.dumps(dict(facts), indent=1).encode())  # last: now it is listed
        return held

    def decision(self, run: str, server_round: int | str) -> Decision | None:
        """Return what was decided about one reply; None for one that nobody decided about, in time or yet."""
        decision = Decision.read(self.folder / f"{_name(run, server_round)}{_DECISION}")
        return None if decision is None or decision.verdict == "expired" else decision


def held_in(path: Path) -> list[Held]:
    """Return the replies held in a ``held`` folder, or anywhere in a state directory, the oldest first."""
    if not path.is_dir():
        raise ConfigError(explain("state-dir", "be a folder", str(path), "Give the party's state-dir."))
    files = {one for pattern in ("*.json", "egress/*/held/*.json") for one in path.glob(pattern)}
    found = []
    for file in files:
        if file.name.endswith(_DECISION) or file.parent.name != "held":
            continue
        try:
            facts = json.loads(file.read_bytes())
            if not (isinstance(facts, dict) and facts.keys() >= _NEEDED):
                raise ValueError("it does not say what is held")
        except FileNotFoundError:  # decided meanwhile
            continue
        except (ValueError, RecursionError) as error:
            way_out = "Remove it: nobody can approve that reply then, and nothing of it leaves."
            message = explain(f"held reply {file}", "be described in JSON", str(error), way_out)
            raise DataError(message, code=Code.WRONG_CONFIG) from error
        found.append(Held(file.with_suffix(""), facts))
    return sorted(found, key=lambda held: str(held.facts["since"]))


def _name(run: str, server_round: int | str) -> str:
    return f"{file_name(run)}-{server_round}"

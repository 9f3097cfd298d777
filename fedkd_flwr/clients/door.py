"""The door through which a party's replies leave. By default it is open; a silo puts its own in front of its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from fedkd_flwr.stores.party_state import StoredReply

__all__ = ["OPEN", "Ask", "Door", "Leaving", "OpenDoor", "Shown", "Table"]

Shown = tuple[Sequence[str], Sequence[Sequence[object]]]
"""Names of public columns, and the public rows' values in them as people know them."""

Table = Iterable[Sequence[object]] | None
"""A reply as a table, its header first; None for one that no table shows."""


@dataclass(frozen=True, kw_only=True)
class Ask:
    """What one visit asks of a party, as far as it is known before a private row is read."""

    server_round: int | str  # the round; "final" for the final visit, in which metrics may leave
    algorithm: str  # the algorithm
    # the settings that came with the instruction, by key: they decide, whatever the run config says
    told: Mapping[str, Any]
    claim: Mapping[str, str] | None = None  # what the reply claims, in words; None without noise at this party
    events: Sequence[tuple[Any, int]] | None = None  # what it releases, for one record
    public: str = ""  # the fingerprint of the public set that it is about
    rounds_left: int = 1  # rounds that the server plans from this one on
    # settings, by key, that are no less than so much, because the instruction asks for that
    least: Mapping[str, int] = field(default_factory=dict)
    notes: Sequence[str] = ()  # what whoever reads the party's own log should know of this visit


@dataclass(frozen=True, kw_only=True)
class Leaving:
    """One reply that is to leave."""

    reply: StoredReply  # the exact reply, charged already where it has a claim
    num_examples: int  # the number that is told beside it
    # returns it as a table for whoever approves, beside the public columns that it is given
    table: Callable[[Shown], Table] = lambda shown: None
    # what is told of this node beside it, which nothing learnt decides
    sender: Mapping[str, object] = field(default_factory=dict)
    # called once the reply may leave, before the door writes that it left; what it raises holds the reply back
    note: Callable[[], None] = lambda: None


class Door(Protocol):
    """Decides whether a party's replies leave in one run."""

    def check_run(self) -> None:
        """Refuse a run by what its config says, before a file is read; raises `RefusalError`."""

    def before_rows(self, ask: Ask) -> None:
        """Refuse a visit by what it asks, before a private row is read; raises `RefusalError`. None if it is final."""

    def enough_rows(self, counts: Sequence[int]) -> bool:
        """Tell whether the party holds as many rows of each of its classes as its site asks."""

    def let_out(self, leaving: Leaving) -> None:
        """Return when a reply may leave; raises `RefusalError` where it may not."""

    def refused(self, code: str) -> int:
        """Hear that only a code leaves; return how often it has in this run, 0 where the log need not tell it again."""


class OpenDoor:
    """Lets everything out, and writes nothing down."""

    def check_run(self) -> None:
        """Refuse nothing."""

    def before_rows(self, ask: Ask) -> None:
        """Refuse nothing."""

    def enough_rows(self, counts: Sequence[int]) -> bool:
        """Any number is enough."""
        return True

    def let_out(self, leaving: Leaving) -> None:
        """Let it out."""
        leaving.note()

    def refused(self, code: str) -> int:
        """Count nothing: each refusal is told."""
        return 1


OPEN = OpenDoor()

"""What stands in place of a ledger, or of a state, where nothing is kept: nobody need ask whether there is one."""

from __future__ import annotations

from collections.abc import Collection

from fedkd_flwr.privacy.ledger.entry import Entry
from fedkd_flwr.privacy.ledger.ledger import Budget, Events
from fedkd_flwr.stores.party_state import Saved, StoredReply

__all__ = ["NO_LEDGER", "NO_STATE", "NoLedger", "NoState"]


class NoLedger:
    """Writes nothing down, so it knows no entry and no reply. The methods are those of `LedgerStore`.

    It upholds no budget: a party with a finite one refuses to have this.
    """

    keeps = False

    def entries(self, run_id: str, server_round: int | None = None) -> list[Entry]:
        """Return no entry."""
        return []

    def answered(self, run_id: str, server_round: int) -> StoredReply | None:
        """Return None: no reply was charged."""
        return None

    def ask(
        self, events: Events, budget: Budget, *, run_id: str = "", rounds: int = 1, continues: Collection[str] = ()
    ) -> None:
        """Refuse nothing."""

    def end_plan(self, run_id: str) -> None:
        """Do nothing: no round was planned."""

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

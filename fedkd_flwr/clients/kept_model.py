"""How a party's model continues from the round before: read back from the party's own state, losses said."""

from __future__ import annotations

import logging

from fedkd_flwr.clients.instruction import Instruction
from fedkd_flwr.clients.party import Party
from fedkd_flwr.errors import ModelBytesError, PartyNote
from fedkd_flwr.models.classifier import Classifier

__all__ = ["restore"]

logger = logging.getLogger("flwr.party")


def restore(party: Party, instruction: Instruction) -> tuple[Classifier | None, list[str]]:
    """Return the model this party kept, None where there is none, and what the server should know of it.

    ``instruction``: says the last round the server heard of this party in.
    """
    last_round, saved = instruction.last_round, instruction.saved
    kept = saved.server_round if saved is not None and saved.model else 0
    notes: list[str] = []
    if kept < last_round:
        logger.warning(
            "%s: kept state must be of round >= %d, got %s. Its model continues from there; keep state-dir on "
            "a disk that survives this node's restarts.",
            party.name,
            last_round,
            kept or "none",
        )
        notes.append(PartyNote.STATE_OLDER if kept else PartyNote.STATE_LOST)
    if kept > instruction.server_round:  # a reply of this very round would have been sent again
        words = "%s: its state is of round %d, newer than what the server asks for; its model continues from there"
        logger.warning(words, party.name, kept)
        notes.append(PartyNote.STATE_NEWER)
    if saved is None or not kept:
        return None, notes
    from fedkd_flwr.models.serialize import loads

    try:  # the file is this party's own
        return loads(saved.model, trust=True), notes
    except ModelBytesError as error:
        logger.warning("%s: the model it kept cannot be read, so it starts afresh: %s", party.name, error)
        return None, [*notes, PartyNote.STATE_LOST]

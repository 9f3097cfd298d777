"""What a party keeps of a visit: its model, the exact reply, and what later replies may refer to."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.clients.answer import Answer, dump
from fedkd_flwr.clients.exchange import PartyExchange
from fedkd_flwr.clients.instruction import Charge, Instruction
from fedkd_flwr.clients.party import Party
from fedkd_flwr.errors import ModelBytesError, PartyNote
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.privacy.ledger.entry import canonical, plain_events
from fedkd_flwr.stores.party_state import Saved, StoredReply
from fedkd_flwr.wire.envelope import digests

__all__ = ["claimed", "held_by_server", "hold_back", "keep", "kept_model", "kept_reply"]

logger = logging.getLogger("flwr.party")


def kept_reply(party: Party, instruction: Instruction, charge: Charge | None) -> StoredReply | None:
    """Return the reply that was kept for this request: a repeated one, or one the process ended before charging."""
    saved = instruction.saved
    if saved is None or saved.server_round != instruction.server_round:
        return None
    if saved.meta.get("data") != party.rows_digest:
        return None  # made from rows that are not held any more
    if saved.meta.get("charge", "") != _named(charge):
        return None  # made under another claim: it is not this instruction's answer, nor covered by its charge
    arrays = {name: saved.arrays[f"payload.{name}"] for name in saved.meta["payload"]}
    return StoredReply(arrays=arrays, metrics=dict(saved.meta["reply"]))


def keep(
    exchange: PartyExchange,
    instruction: Instruction,
    answer: Answer,
    values: Mapping[str, NDArray[Any]],
    reply: StoredReply,
    charge: Charge | None,
) -> None:
    """Make what was learnt and the exact reply durable: a repeated request gets the same bytes."""
    party = exchange.party
    if not party.state.keeps:
        return  # nor is a model made bytes for nothing
    kept = {f"kept.{name}": array for name, array in answer.kept.items()}
    kept |= {f"value.{name}": array for name, array in values.items()}
    kept |= {f"payload.{name}": array for name, array in reply.arrays.items()}
    party.state.save(
        Saved(
            server_round=instruction.server_round,
            arrays=kept,
            model=dump(answer.model) if answer.model is not None else b"",
            meta={
                **answer.meta,
                "algorithm": exchange.card.name,
                "data": party.rows_digest,
                "reply": reply.metrics,
                "values": list(values),
                "payload": list(reply.arrays),
                "charge": _named(charge),
                "run": instruction.mark,
            },
        )
    )


def held_by_server(exchange: PartyExchange, instruction: Instruction) -> Mapping[str, NDArray[Any]]:
    """Return what this party kept for replies of changes, if it is what the server says it holds."""
    saved, named = instruction.saved, instruction.base
    if saved is None or not named or saved.meta.get("held-back"):
        return {}
    if saved.meta.get("charge") and not _left(exchange.party, saved):
        return {}  # whether a guess at what never left is right must not show
    values = exchange.referable(saved, instruction)
    return values if digests(values.values()) == named else {}


def _left(party: Party, saved: Saved) -> bool:
    """Tell whether this very answer was charged: not where that was refused, or another process was faster."""
    if not party.ledger.keeps:
        return True
    sent = party.ledger.answered(party.run_id, saved.server_round)
    return sent is not None and all(
        np.array_equal(array, saved.arrays[f"payload.{name}"]) for name, array in sent.arrays.items()
    )


def hold_back(party: Party) -> None:
    """Keep later replies from being changes to this one: whether a guess at it is right must not show."""
    if (saved := party.state.load()) is None:
        return
    try:
        party.state.save(replace(saved, meta={**saved.meta, "held-back": True}))
    except OSError as error:
        logger.warning("%s starts afresh: its state of this run cannot be kept (%s)", party.name, error)
        party.state.remove()  # needs no room on the disk


def claimed(party: Party, saved: Saved | None) -> bool:
    """Tell whether an earlier reply of this run came with a claim."""
    if saved is not None and saved.meta.get("charge"):
        return True
    of_run = party.ledger.entries(party.run_id)
    return any(event["kind"] != "non-private" for entry in of_run for event, _ in entry.events)


def _named(charge: Charge | None) -> str:
    """Return a digest that tells one charge from another, "" for none."""
    if charge is None:
        return ""
    return sha256(canonical([charge.mechanism, charge.unit, plain_events(charge.events)])).hexdigest()


def kept_model(party: Party, instruction: Instruction) -> tuple[Classifier | None, list[str]]:
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

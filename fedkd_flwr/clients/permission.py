"""What a party's owner and its site refuse in a visit, before a private row is read."""

from __future__ import annotations

import logging
import math

import numpy as np

from fedkd_flwr.algorithms.card import kebab
from fedkd_flwr.clients.door import Ask
from fedkd_flwr.clients.exchange import PartyExchange
from fedkd_flwr.clients.instruction import Charge, Instruction, other_rows
from fedkd_flwr.clients.party import Party
from fedkd_flwr.errors import Code, DataError, RefusalError, explain
from fedkd_flwr.stores.nothing import NoLedger

__all__ = ["note_no_noise", "obey", "permitted", "require_charges", "require_claim", "require_rows", "rows_enough"]

logger = logging.getLogger("flwr.party")


def permitted(exchange: PartyExchange, instruction: Instruction, *, final: bool) -> Charge | None:
    """Return what the reply costs, after the party's own rules have let it pass."""
    party, charge = exchange.party, exchange.charge(instruction)
    require_claim(party, charge is not None)
    obey(exchange, instruction, charge, final=final)
    if charge is not None and party.require_privacy and party.budget.epsilon == math.inf:
        logger.warning(
            "%s: require-privacy should come with a finite epsilon-budget, got none: this run's noise is %s, "
            "and any other would pass too.",
            party.name,
            charge.mechanism,
        )
    return charge


def require_claim(party: Party, private: bool) -> None:
    """Refuse a run without a mechanism at this party, where its owner demands one."""
    if party.demands_privacy and not private:
        way_out = "Choose a run with noise at the party, or lift require-privacy and epsilon-budget here."
        message = explain("privacy", f"be claimed at {party.name}", "none", way_out)
        raise RefusalError(message, code=Code.PRIVACY_REQUIRED)


def require_rows(party: Party, private: bool) -> None:
    """Raise why rows of the file cannot be used; nothing beside a claim, where the server must not be told."""
    if party.fault is None:
        return
    if not private:
        raise party.fault
    logger.error(
        "%s: %d of its %d rows can be used: %s The server is not told: it gets the usual answer, made from those rows.",
        party.name,
        len(party.y),
        party.num_rows,
        party.fault,
    )


def obey(exchange: PartyExchange, instruction: Instruction, charge: Charge | None, *, final: bool) -> None:
    """Let the site's rules refuse before anything is learnt; in the final visit nothing is left to refuse."""
    party, name, config = exchange.party, exchange.card.name, instruction.config
    told = config.told()
    known = {key: told[kebab(field)] for field, key in config.keys().items() if kebab(field) in told}
    if final:
        party.door.before_rows(Ask(server_round="final", algorithm=name, told=known))
        return
    words = ("mechanism", "unit", "adversary", "neighbouring_relation")
    party.door.before_rows(
        Ask(
            server_round=instruction.server_round,
            algorithm=name,
            told=known,
            claim=None if charge is None else {word: getattr(charge, word) for word in words},
            events=None if charge is None else charge.events,
            public=party.public.fingerprint,
            rounds_left=instruction.rounds_left,
            least=exchange.asks(instruction),
            notes=other_rows(instruction.saved, exchange.card),
        )
    )


def require_charges(party: Party, instruction: Instruction) -> None:
    """Refuse to go on where the ledger has lost the charge of the last reply that the server has."""
    ledger, last_round = party.ledger, instruction.last_round
    runs = (party.run_id, *instruction.earlier)
    if isinstance(ledger, NoLedger) or not last_round or any(ledger.entries(run, last_round) for run in runs):
        return
    way_out = "Mount the state-dir this party had then; an empty one has forgotten what was spent."
    rule = f"hold the charge of round {last_round}, which the server has the labels of"
    message = explain(f"ledger {ledger.path}", rule, "no such entry", way_out)
    raise DataError(message, code=Code.LEDGER_LOST)


def rows_enough(party: Party) -> bool:
    """Tell whether the party holds as many rows of each of its classes as its site asks."""
    return party.door.enough_rows(np.bincount(party.y, minlength=party.public.num_classes).tolist())


def note_no_noise(party: Party, algorithm: str) -> None:
    """Note, before it leaves, that a reply of this run has no noise: a budget set later will know of it."""
    if not party.simulated:  # a simulation's ledgers are its own
        party.ledger.note_no_noise(run_id=party.run_id, algorithm=algorithm)

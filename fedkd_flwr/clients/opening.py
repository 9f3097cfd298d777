"""What an instruction says to a party, checked before anything else, and what the party kept for it.

Nothing here looks at a private row. Whether codes that private rows may decide stay here is settled by the same words
of an instruction, so that one which cannot be opened is answered by the same rule.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import Any

from numpy.typing import NDArray

from fedkd_flwr.algorithms.card import Card
from fedkd_flwr.checks import check_whole
from fedkd_flwr.clients.continuing import earlier_runs, mark_of, taken_up
from fedkd_flwr.clients.instruction import Instruction
from fedkd_flwr.clients.party import Party
from fedkd_flwr.errors import Code, DataError, PayloadError, RefusalError, explain
from fedkd_flwr.labels.rules import RULES
from fedkd_flwr.seeds import derive_seed
from fedkd_flwr.stores.party_state import Saved
from fedkd_flwr.wire.label_codec import decode_labels
from fedkd_flwr.wire.records import Scalar, named_arrays

__all__ = ["kept_state", "opened", "other_rows", "withholds"]

logger = logging.getLogger("flwr.party")


def opened(
    party: Party,
    card: Card,
    parameters: list[NDArray[Any]],
    config: Mapping[str, Scalar],
    *,
    heard: Collection[str] = (),
) -> tuple[Party, Instruction]:
    """Return what an instruction says, and the party that is to answer it.

    ``party``: returned as it is, unless the instruction continues an earlier run: then with that run's id and state.
    ``heard``: as of `kept_state`.

    Raises `PayloadError` if it is no instruction of this algorithm, or its settings contradict what it says of privacy.
    Raises `RefusalError` if this party does not allow the algorithm. Raises `DataError` if it is about another public
    set, or what this party kept is damaged.
    """
    arrays = named_arrays(parameters, config)
    _require_agreed(party, card, config)
    server_round = check_whole("server-round", config.get("server-round"), 1, error=PayloadError)
    told = card.config.from_told(config)
    if told.privacy != "party" and config.get("privacy") == "party":
        raise PayloadError(explain("privacy", f"be what the settings amount to, {told.privacy}", "party"))
    rule = _rule(card, config)
    mark = mark_of(config, told, algorithm=card.name, fingerprint=party.public.fingerprint)
    party = taken_up(party, config, mark)
    labels = None
    if "labels" in arrays:
        labels = decode_labels(arrays["labels"], public=party.spec, server_round=server_round, num_arrays=1)[0]
    return party, Instruction(
        server_round=server_round,
        config=told,
        last_round=check_whole("last-round", config.get("last-round", 0), 0, error=PayloadError),
        rounds_left=check_whole("rounds-left", config.get("rounds-left", 1), 1, _MOST_ROUNDS, error=PayloadError),
        base=str(config.get("base", "")),
        mark=mark,
        earlier=tuple(earlier_runs(config)),
        rule=rule,
        arrays=arrays,
        labels=labels,
        saved=kept_state(party, card, heard=heard),
        party_seed=derive_seed(told.seed, party.name),
    )


def _require_agreed(party: Party, card: Card, config: Mapping[str, Scalar]) -> None:
    """Refuse an instruction of another algorithm, of one that is not allowed here, and about another public set."""
    asked, name, public = config.get("algorithm"), card.name, party.public
    if asked != name:
        raise PayloadError(explain("algorithm", f"be {name} at this client", asked))
    if name not in party.allow:
        way_out = f'Add "{name}" to this node\'s allow-algorithms to take part.'
        raise RefusalError(explain("algorithm", f"be one of {sorted(party.allow)}", asked, way_out))
    if config.get("fingerprint") != public.fingerprint:
        way_out = "Give this node the same public file and schema as the server."
        message = explain("public set", f"have fingerprint {public.fingerprint}", config.get("fingerprint"), way_out)
        raise DataError(message, code=Code.PUBLIC_SET_MISMATCH)


def _rule(card: Card, config: Mapping[str, Scalar]) -> str:
    """Return the vote rule that asks for more than labels, "" for none."""
    rule = str(config.get("rule", ""))
    if rule and not (rule in RULES and RULES[rule].needs):
        raise PayloadError(explain("rule", "be a vote rule that needs more than labels", rule))
    if rule and (config.get("privacy") != "none" or _noisy(card, config)):  # no claim covers what it needs
        raise PayloadError(explain("rule", "not ask for more than labels in a run with noise", rule))
    return rule


def kept_state(party: Party, card: Card, *, heard: Collection[str] = ()) -> Saved | None:
    """Return what a party kept in earlier rounds of the run, as far as this algorithm made it from these rows.

    A model that learnt from a file which has been replaced since would carry its rows into an answer that the rows
    held now pay for; one of another algorithm may know rows that this one's claim leaves out. What the server knows
    too stays where the file alone is another: else the form of the next reply would tell that it is.

    ``party``: whose state it is. ``heard``: which of the kept arrays hold nothing but what the server said, or has
    heard.
    """
    saved = party.state.load()
    if saved is None or (saved.meta.get("algorithm"), saved.meta.get("data")) == (card.name, party.rows_digest):
        return saved
    if saved.meta.get("algorithm") == card.name:
        logger.warning("%s: its data file is another than in round %d of this run", party.name, saved.server_round)
        known = {
            name: array
            for name, array in saved.arrays.items()
            if name.startswith(("value.", "payload.")) or name.removeprefix("kept.") in heard
        }
        meta = {name: saved.meta[name] for name in _OF_REPLY if name in saved.meta}
        return Saved(server_round=saved.server_round, arrays=known, meta=meta)
    logger.warning(
        "%s: what was kept in round %d of this run is of another algorithm: nothing continues from it.",
        party.name,
        saved.server_round,
    )
    return Saved(server_round=0, meta={"values": [], "charge": saved.meta.get("charge", "")})


def other_rows(saved: Saved | None, card: Card) -> list[str]:
    """Return a note where what `kept_state` returned was made from another data file than the one held now."""
    if saved is None or saved.meta.get("algorithm") != card.name or "data" in saved.meta:
        return []
    return [f"the data file is another than in round {saved.server_round} of this run"]


def withholds(party: Party, card: Card, config: Mapping[str, Scalar]) -> bool:
    """Tell whether codes that private rows may decide stay at a party: beside a claim even a code would tell."""
    always = card.config().privacy == "party"  # whatever the settings are
    return always or party.demands_privacy or config.get("privacy") == "party" or _noisy(card, config)


def _noisy(card: Card, config: Mapping[str, Scalar]) -> bool:
    """Tell whether a reply to these settings comes with a claim, whatever the server says of privacy."""
    try:
        return card.config.from_told(config).privacy == "party"
    except PayloadError:
        return False  # such an instruction is refused before a private row is read


_OF_REPLY = ("algorithm", "reply", "values", "payload", "charge", "held-back")  # of `Saved.meta`: about what was sent
_MOST_ROUNDS = 10**6  # of a run: beyond them a count of releases may be larger than an accountant takes

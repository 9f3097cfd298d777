"""The one subset of its rows that a party learns from for ever, where a run asks for that (NFDP)."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.algorithms.score_exchange import ScoreExchangeConfig
from fedkd_flwr.clients.instruction import Charge, Instruction
from fedkd_flwr.clients.party import Party
from fedkd_flwr.errors import Code, DataError, PayloadError, RefusalError, explain
from fedkd_flwr.privacy import dp
from fedkd_flwr.privacy.claims.claim import subsampling
from fedkd_flwr.privacy.noise.subset import Subsampling
from fedkd_flwr.privacy.rounding import bound_text
from fedkd_flwr.stores.nothing import NoLedger
from fedkd_flwr.stores.subset import SubsetStore

__all__ = ["charge_of_subset", "claimed_subset", "learnt_from", "may_continue", "own_rows"]

logger = logging.getLogger("flwr.party")

_ALL = "all rows"


def claimed_subset(party: Party, config: ScoreExchangeConfig) -> Subsampling | None:
    """Return NFDP's draw as it is claimed: from as many rows as anybody may know that this party holds.

    Its true number of rows is private: with it a budget's refusal, or the refusal to draw more rows than there are,
    would tell two neighbouring data sets apart. None without NFDP.
    """
    if not config.subset_rows:
        return None
    if not party.whole:
        # held-out rows reorder the rest in each run, so stored row numbers would select other rows
        rule = "come with the same key in the run config, for parties to hold nothing out"
        raise PayloadError(explain("subset-rows", rule, config.subset_rows))
    claimed = Subsampling.claimed(
        rows_at_least=party.rows_at_least,
        subset_rows=config.subset_rows,
        replacement=config.subset_replacement,
    )
    return _store(party).claimed(claimed)


def learnt_from(party: Party, config: ScoreExchangeConfig) -> str:
    """Return which rows of its own a party learns from, in words."""
    subset = claimed_subset(party, config)
    return _ALL if subset is None else subset.words


def may_continue(party: Party, instruction: Instruction) -> bool:
    """Tell whether the kept model knows no row that this instruction's claim leaves out.

    A round under noise learns from all rows; a net kept from it would carry them into answers that a subset's claim
    lets out without noise.
    """
    saved, rows = instruction.saved, learnt_from(party, instruction.config)
    if rows == _ALL or saved is None or saved.meta.get("learnt-from") == rows:
        return True
    logger.warning("%s: the kept model learnt from other rows than %s: it starts afresh", party.name, rows)
    return False


def charge_of_subset(party: Party, subset: Subsampling) -> Charge:
    """Return what learning from the subset costs: nothing more where it was charged before."""
    if not subset.delta < 1 and party.demands_privacy:
        way_out = "Ask for fewer rows, or let this party say rows-at-least in its node config."
        known = f"all of the {subset.num_rows} that it is known to hold"
        message = explain("subset-rows", f"protect anybody at {party.name}", known, way_out)
        raise RefusalError(message, code=Code.PRIVACY_REQUIRED)
    paid = _store(party).charged(subset)
    # all replies of all runs are computed from the one subset: only the first tells anything new
    event = dp.NoOpDpEvent() if paid else subset.dp_event()
    relation = "add, remove or replace one record"
    words = f"{subset.words}: charged before" if paid else subset.words
    return Charge(events=[(event, 1)], mechanism=words, neighbouring_relation=relation, once=True)


def own_rows(
    party: Party, instruction: Instruction, *, rng: np.random.Generator | None
) -> tuple[Party, NDArray[Any], NDArray[Any]]:
    """Return the rows to learn from, all or the party's one subset, and the party with the other rows to measure on.

    The subset is drawn if this is the first time: from all rows of its file, or from as many as are claimed where it
    holds fewer. Slots beyond its rows are empty, and what is learnt from then is less.
    """
    subset = claimed_subset(party, instruction.config)
    if subset is None:
        return party, party.X, party.y
    slots = _store(party).rows(subset, num_rows=party.num_rows, rng=rng)
    if instruction.server_round == 1:
        claim = subsampling(subset)
        notes = " ".join(claim.notes)
        numbers = (
            f"epsilon {bound_text(claim.epsilon)}, delta {bound_text(claim.delta)} ({claim.neighbouring_relation})"
        )
        logger.info("%s learns from a %s: %s. %s", party.name, subset.words, numbers, notes)
    rows = party.rows_in(slots)
    if len(rows) < len(slots):
        words = "%s learns from %d rows only: %d of the %d drawn slots are empty, beyond its %d rows or unusable"
        logger.warning(words, party.name, len(rows), len(slots) - len(rows), len(slots), party.num_rows)
    others = np.setdiff1d(np.arange(len(party.y)), rows)
    # what it measures on them stays with it: beside a claim a visit lets no metric out
    tests = {**party.tests, "own": (party.X[others], party.y[others])}
    return replace(party, tests=tests), party.X[rows], party.y[rows]


def _store(party: Party) -> SubsetStore:
    if isinstance(party.ledger, NoLedger):
        way_out = "Give this party a ledger (a state-dir): a subset that nobody remembers would be drawn again."
        message = explain("ledger", "be given to learn from one subset for ever", None, way_out)
        raise DataError(message, code=Code.WRONG_CONFIG)
    return SubsetStore(party.ledger)

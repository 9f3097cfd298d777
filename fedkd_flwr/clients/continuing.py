"""How a party knows a run again that goes on under another id, and shows who it is.

A server that was lost goes on in a new run (`fedkd_flwr.strategies.resuming`). A party takes up what it kept in an
earlier run, its answers and its charges, only where the new one shows that it is the same exchange: each instruction
carries the digest of a secret, and a run that continues others carries the secret too. What is kept is marked with that
digest, the algorithm, the public set and all settings that the party was told. So a run of other settings, or of
somebody who has not the secret, finds nothing here: to it this party is new, and every answer is charged anew. A party
that no run of the exchange has reached takes the first one's id: what it answers now, it has answered once.
"""

from __future__ import annotations

import hmac
import logging
import re
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256

from fedkd_flwr.algorithms.card import ExchangeConfig
from fedkd_flwr.clients.party import Party
from fedkd_flwr.privacy.ledger.entry import canonical
from fedkd_flwr.stores.checkpoints import sealed
from fedkd_flwr.stores.party_state import PartyState
from fedkd_flwr.wire.records import Scalar

__all__ = ["earlier_runs", "mark_of", "node_proof", "note_where_it_is_kept", "taken_up"]

logger = logging.getLogger("flwr.party")

_FREE = ("solo_epochs", "delta")  # of a model trained alone, and of a claim's wording: they change no answer
_MOST_RUNS = 100
_RUN = re.compile("[0-9A-Za-z_-]{1,64}")  # it becomes a run's name in the ledger, and is printed


def mark_of(config: Mapping[str, Scalar], told: ExchangeConfig, *, algorithm: str, fingerprint: str) -> str:
    """Return what marks the state of this exchange, 64 hexadecimal digits; "" where the server cannot continue it."""
    if not (seal := config.get("run-seal")):
        return ""
    settings = {name: value for name, value in told.model_dump(mode="json").items() if name not in _FREE}
    return sha256(canonical([str(seal), algorithm, fingerprint, settings])).hexdigest()


def earlier_runs(config: Mapping[str, Scalar]) -> list[str]:
    """Return the ids of the runs that this one says it continues, the first one first; what is no id is left out."""
    return [run for run in str(config.get("continues", "")).split(",") if _RUN.fullmatch(run)][-_MOST_RUNS:]


def taken_up(party: Party, config: Mapping[str, Scalar], mark: str) -> Party:
    """Return the party with the run id and the state of the exchange that an instruction continues; else as it is.

    Raises `DataError` (code ``state-lost``) if that state is damaged.
    """
    if party.state is None or not mark or sealed(str(config.get("run-proof", ""))) != config.get("run-seal"):
        return party
    for run_id in reversed(earlier_runs(config)):
        state = party.state.of_run(run_id)
        saved = state.load()
        if saved is not None and saved.meta.get("run") == mark:
            if run_id != party.run_id:
                logger.info(
                    "%s: this run continues run %s: it goes on from round %d", party.name, run_id, saved.server_round
                )
            return replace(party, run_id=run_id, state=state)
    first = next(iter(earlier_runs(config)), party.run_id)
    if any(party.state.of_run(run).path.exists() or _charged(party, run) for run in earlier_runs(config)):
        logger.warning(
            "%s: the run says it continues run %s, but it has other settings than those that this party was told "
            "then, or what the party kept of it was deleted: it is a new run here, and what is sent is charged anew",
            party.name,
            first,
        )
        return party
    return replace(party, run_id=first, state=party.state.of_run(first))


def note_where_it_is_kept(party: Party, own: PartyState | None) -> None:
    """Write into a silo's folder of this run, ``own``, which run's state it goes on in: its owner may forget it."""
    if own is not None and party.state is not None and own.path != party.state.path and not party.simulated:
        own.note_continued(party.run_id)  # a simulation's server knows


def _charged(party: Party, run_id: str) -> bool:
    return party.ledger is not None and any(entry.run_id == run_id for entry in party.ledger.load().entries)


def node_proof(party: Party) -> str:
    """Return what this party shows in all its replies of one run, 64 hexadecimal digits; "" without a node secret.

    Whoever speaks for the same party from another node, and shows the same, has the same ``state-dir``.
    """
    if party.node_secret is None:
        return ""
    return hmac.new(party.node_secret(), f"{party.run_id}\n{party.name}".encode(), "sha256").hexdigest()

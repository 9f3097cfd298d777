"""How a party knows a run again that goes on under another id, and shows who it is.

A server that was lost goes on in a new run (`fedkd_flwr.strategies.resuming`). A party takes up what it kept in an
earlier run, its answers and its charges, only where the new one shows that it is the same exchange: each instruction
carries the digest of a secret, and a run that continues others carries the secret too. What is kept is marked with that
digest, the algorithm, the public set and all settings that the party was told. So a run of other settings, or of
somebody who has not the secret, finds nothing here: to it this party is new, and every answer is charged anew.

A party that no run of the exchange has reached keeps what it answers now under the first run's id and a digest of the
seal: should an instruction of that run still come, what it asks has been answered once. Under the bare id anybody could
answer, with settings of his own, in a run that has not come yet.
"""

from __future__ import annotations

import hmac
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256

from fedkd_flwr.algorithms.card import ExchangeConfig
from fedkd_flwr.clients.party import Party
from fedkd_flwr.privacy.ledger.entry import canonical
from fedkd_flwr.stores.checkpoints import sealed
from fedkd_flwr.stores.nothing import NoState
from fedkd_flwr.stores.party_state import PartyState
from fedkd_flwr.wire.records import Scalar

__all__ = ["earlier_runs", "mark_of", "node_proof", "note_where_it_is_kept", "taken_up", "went_on_from"]

logger = logging.getLogger("flwr.party")

_FREE = ("solo-epochs",)  # of a model trained alone: it changes no answer
_MOST_RUNS = 100
_DIGITS = 16  # hexadecimal, of a digest of the seal
_RUN = re.compile("[0-9A-Za-z_-]{1,64}")  # it becomes a run's name in the ledger, and is printed


def mark_of(config: Mapping[str, Scalar], told: ExchangeConfig, *, algorithm: str, fingerprint: str) -> str:
    """Return what marks the state of this exchange, 64 hexadecimal digits; "" where the server cannot continue it."""
    if not (seal := config.get("run-seal")):
        return ""
    settings = {name: value for name, value in told.told().items() if name not in _FREE}
    return sha256(canonical([str(seal), algorithm, fingerprint, settings])).hexdigest()


def earlier_runs(config: Mapping[str, Scalar]) -> list[str]:
    """Return the ids of the runs that this one says it continues, the first one first; what is no id is left out."""
    return [run for run in str(config.get("continues", "")).split(",") if _RUN.fullmatch(run)][-_MOST_RUNS:]


def taken_up(party: Party, config: Mapping[str, Scalar], mark: str) -> Party:
    """Return the party with the run id and the state of the exchange that an instruction continues; else as it is.

    Raises `DataError` (code ``state-lost``) if that state is damaged.
    """
    if isinstance(party.state, NoState) or not mark:
        return party
    seal = str(config.get("run-seal"))
    earlier = earlier_runs(config) if sealed(str(config.get("run-proof", ""))) == seal else []

    def unreached(run_id: str) -> str:
        """Return the name of what is kept where no instruction of this run has come."""
        return run_id if party.simulated else f"{run_id}-{sha256(seal.encode()).hexdigest()[:_DIGITS]}"

    names = [name for run in reversed(earlier) for name in (run, unreached(run))]
    for name in names or {unreached(party.run_id)} - {party.run_id}:
        state = party.state.of_run(name)
        saved = state.load()
        if saved is not None and saved.meta.get("run") == mark:
            if name != party.run_id:
                logger.info(
                    "%s: this run continues run %s: it goes on from round %d", party.name, name, saved.server_round
                )
            return replace(party, run_id=name, state=state)
    if not earlier:
        return party
    if any(party.state.of_run(name).path.exists() or party.ledger.entries(name) for name in names):
        logger.warning(
            "%s: the run says it continues run %s, but it has other settings than those that this party was told "
            "then, or what the party kept of it was deleted: it is a new run here, and what is sent is charged anew",
            party.name,
            earlier[0],
        )
        return party
    first = unreached(earlier[0])
    return replace(party, run_id=first, state=party.state.of_run(first))


def went_on_from(party: Party, earlier: Sequence[str]) -> str:
    """Return which of the earlier runs a party goes on in; "" for none."""
    own = re.sub(rf"-[0-9a-f]{{{_DIGITS}}}$", "", party.run_id)
    return next((run for run in earlier if run in (party.run_id, own)), "")


def note_where_it_is_kept(party: Party, own: PartyState | NoState) -> None:
    """Write into a silo's folder of this run, ``own``, which run's state it goes on in: its owner may forget it."""
    if party.simulated or isinstance(own, NoState) or isinstance(party.state, NoState):
        return  # a simulation's server knows
    if own.path != party.state.path:
        own.note_continued(party.run_id)


def node_proof(party: Party) -> str:
    """Return what this party shows in all its replies of one run, 64 hexadecimal digits; "" without a node secret.

    Whoever speaks for the same party from another node, and shows the same, has the same ``state-dir``.
    """
    if party.node_secret is None:
        return ""
    return hmac.new(party.node_secret(), f"{party.run_id}\n{party.name}".encode(), "sha256").hexdigest()

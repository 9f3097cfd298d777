"""What a party's algorithm is asked in one visit, checked before anything else, and what its reply is going to cost.

Nothing here looks at a private row. A server that was lost goes on in a new run (`fedkd_flwr.strategies.resuming`). A
party takes up what it kept in an earlier run, its answers and its charges, only where the new one shows the secret
whose digest each instruction carried, and has the same algorithm, public set and settings; else every answer is charged
anew. A party that no run of the exchange has reached keeps what it answers under the first run's id and a digest of the
seal: under the bare id anybody could answer, with settings of his own, in a run that has not come yet.
"""

from __future__ import annotations

import hmac
import logging
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.algorithms.card import Card, ExchangeConfig
from fedkd_flwr.checks import check_whole
from fedkd_flwr.clients.party import Party
from fedkd_flwr.errors import Code, DataError, PayloadError, RefusalError, explain
from fedkd_flwr.labels import Labels
from fedkd_flwr.labels.rules import RULES
from fedkd_flwr.privacy.ledger.entry import canonical
from fedkd_flwr.seeds import derive_rng, derive_seed
from fedkd_flwr.stores.checkpoints import sealed
from fedkd_flwr.stores.party_state import NoState, PartyState, Saved
from fedkd_flwr.wire.label_codec import decode_labels
from fedkd_flwr.wire.records import Scalar, named_arrays

logger = logging.getLogger("flwr.party")

_OF_REPLY = ("algorithm", "reply", "values", "charge", "held-back")  # of `Saved.meta`: about what was sent
_MOST_ROUNDS = 10**6  # of a run: beyond them a count of releases may be larger than an accountant takes
_FREE = ("solo-epochs",)  # of a model trained alone: it changes no answer
_MOST_RUNS = 100
_DIGITS = 16  # hexadecimal, of a digest of the seal
_RUN = re.compile("[0-9A-Za-z_-]{1,64}")  # it becomes a run's name in the ledger, and is printed


@dataclass(frozen=True, kw_only=True)
class Instruction:
    """One opened instruction."""

    server_round: int  # the round, from 1
    config: Any  # the algorithm's settings, checked, as far as parties are told them; others have their defaults
    last_round: int = 0  # the last round in which the server got a valid answer of this party; 0: in none
    rounds_left: int = 1  # rounds that this party is going to be asked in from this one on, as planned
    base: str = ""  # digests, in hexadecimal, of the answer that the server holds and changes may refer to; "" for none
    rule: str = ""  # the vote rule whose needs the server asks for beside labels; "" for labels alone
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)  # what it brings, by name
    labels: Labels | None = None  # (num_public,), int16, optional: The consensus it brings
    saved: Saved | None = None  # what this party kept in earlier rounds
    # what this party said before, by name, where the server holds it: its answer may be told as changes to it
    held: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    mark: str = ""  # what the state of this exchange is marked with; "" where the server keeps none of its own
    earlier: tuple[str, ...] = ()  # ids of the runs that this one says it continues
    party_seed: int = 0  # where this party's random streams in this run start

    def seed(self, *names: str | int) -> int:
        """Return the seed of this party's stream called ``names``."""
        return derive_seed(self.party_seed, *names)

    def rng(self, *names: str | int) -> np.random.Generator:
        """Return a generator for this party's stream called ``names``."""
        return derive_rng(self.party_seed, *names)

    def rows(self, num_public: int) -> NDArray[np.int64]:
        """Return the public rows that the array ``indices`` asks for, each at most once; all where there is none."""
        if "indices" not in self.arrays:
            return np.arange(num_public)
        rows = self.arrays["indices"]
        if rows.dtype.kind not in "iu" or rows.ndim != 1 or not len(rows):
            raise PayloadError(explain("indices", "be a flat array of row numbers", f"{rows.dtype} {rows.shape}"))
        if not (rows.min() >= 0 and rows.max() < num_public and len(np.unique(rows)) == len(rows)):
            raise PayloadError(explain("indices", f"be different rows within 0..{num_public - 1}", int(rows.max())))
        return rows.astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class Charge:
    """What one reply costs at this party, known before anything is learnt: it depends on no private row."""

    # what is released and how often, for one record (a claim for the whole party covers each of its records)
    events: Sequence[tuple[Any, int]]
    mechanism: str  # the mechanism and its parameters, in words
    # unit, adversary, neighbouring_relation: As in `fedkd_flwr.privacy.claims.claim.PrivacyClaim`
    unit: str = "record"
    adversary: str = "server"
    neighbouring_relation: str = "replace one record"
    once: bool = False  # whether it pays for all later rounds too

    @property
    def words(self) -> dict[str, str]:
        """What an entry of the ledger and a claim say of it."""
        names = ("mechanism", "unit", "adversary", "neighbouring_relation")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def of_labels(cls, mechanism: Any, rows: int, words: str = "") -> Charge:
        """Return the cost of so many noisy answers, each of which any of the party's rows may have changed."""
        words = words or f"{mechanism.words} on each of {rows} labels"
        relation = "any change of the party's data"
        return cls(events=[(mechanism.dp_event(), rows)], mechanism=words, unit="party", neighbouring_relation=relation)


def opened(
    party: Party,
    card: Card,
    parameters: list[NDArray[Any]],
    config: Mapping[str, Scalar],
    *,
    heard: Collection[str] = (),
) -> tuple[Party, Instruction]:
    """Return what an instruction says, and the party that answers it: in the run that it continues, if any.

    Raises `PayloadError` if it is no instruction of this algorithm, or its settings contradict what it says of privacy;
    `RefusalError` if the party does not allow the algorithm; `DataError` for another public set, or a damaged state.
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
    too (``heard`` names such arrays) stays: else the form of the next reply would tell that the file is another.
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
    words = "%s: what was kept in round %d of this run is of another algorithm: nothing continues from it."
    logger.warning(words, party.name, saved.server_round)
    return Saved(server_round=0, meta={"values": [], "charge": saved.meta.get("charge", "")})


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
    """Return the party with the run id and state of the exchange that an instruction continues; else as it is."""
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
        words = (
            "%s: the run says it continues run %s, but it has other settings than those that this party was told "
            "then, or what the party kept of it was deleted: it is a new run here, and what is sent is charged anew"
        )
        logger.warning(words, party.name, earlier[0])
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
    """Return what a party shows in all replies of a run: whoever shows the same elsewhere has its ``state-dir``."""
    if party.node_secret is None:
        return ""
    return hmac.new(party.node_secret(), f"{party.run_id}\n{party.name}".encode(), "sha256").hexdigest()

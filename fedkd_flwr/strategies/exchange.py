"""What an algorithm says at the server: what a round sends, how a reply is read, and what answers combine to.

`fedkd_flwr.strategies.loop` runs the rounds and calls what is here; nothing here calls back.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from logging import WARN
from typing import Any, ClassVar, Generic, Literal

import numpy as np
from flwr.app import ArrayRecord, MetricRecord
from flwr.common import log
from numpy.typing import NDArray

from fedkd_flwr.algorithms.card import Card, ExchangeConfig
from fedkd_flwr.data.public import PublicSet, check_test_rows
from fedkd_flwr.errors import ConfigError, explain
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.privacy.claims.claim import PrivacyClaim
from fedkd_flwr.privacy.ledger.ledger import Budget
from fedkd_flwr.record.notes import Note, add_note
from fedkd_flwr.record.run_record import RoundRecord, RunRecord
from fedkd_flwr.seeds import derive_rng
from fedkd_flwr.stores.ledger import LedgerStore
from fedkd_flwr.strategies.reception import Answered
from fedkd_flwr.strategies.resuming import Checkpoints
from fedkd_flwr.strategies.roster import Roster
from fedkd_flwr.wire.label_codec import PublicSpec, digests
from fedkd_flwr.wire.records import Reply, Room, Scalar

__all__ = ["Collaborators", "Exchange", "Stage", "checked_test"]

Stage = Literal["fit", "evaluate"]
Arrays = Mapping[str, NDArray[Any]]
_MAX_ARRAYS = 16  # of a reply without weights: ours have up to three
_SLACK = 2**20  # bytes of a reply for headers, names and metrics


def checked_test(
    test: tuple[NDArray[Any], NDArray[Any]] | None, public: PublicSet
) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Return the server's test rows as arrays; raise DataError, before anybody answers, where they fit no model."""
    if test is None:
        return None
    X, y = np.asarray(test[0]), np.asarray(test[1])
    check_test_rows("test", X, y, public)
    return X, y


@dataclass(frozen=True, kw_only=True)
class Collaborators:
    """What an app can hand to a strategy that it makes; an exchange takes some (`Exchange.takes`)."""

    final_model: Callable[[], Callable[..., Classifier]]  # ``final_model()`` returns what makes the server's model
    # ``global_model()`` returns what makes the net whose weights go round
    global_model: Callable[[], Callable[..., Classifier]]
    # ``party_rows()`` returns how many rows each party holds; none where the server does not know
    party_rows: Callable[[], Sequence[int]]
    test: tuple[NDArray[Any], NDArray[Any]] | None  # rows to measure the server's model on
    # ledger, budget: What noise at this server has cost so far, and the most it may
    ledger: LedgerStore
    budget: Budget
    fraction: float = 1.0  # share of the parties asked in a round


class Exchange(ABC, Generic[Answered]):
    """One algorithm's part of a run at the server, and its state between rounds.

    Its parameters are those of `ExchangeStrategy`, and its collaborators: who is there (``roster``), and where the run
    is kept (``checkpoints``).

    ``num_rounds``, ``rounds_done``: rounds of the run, known when it begins; those of an earlier run that it continues,
    which count among them. ``finished_round``: the round after which nothing more can change. ``held``: by party, the
    values of its last answer, to which its next answer may give changes.
    """

    card: ClassVar[Card]
    config: ExchangeConfig
    free_settings: ClassVar[frozenset[str]] = frozenset({"nodes_stable_s", "node_deadline_s"})
    """Settings that may differ in a run that continues another."""
    rounds_before: ClassVar[int] = 0
    """Rounds that come before those that ``num_rounds`` of ``start`` counts."""
    takes: ClassVar[tuple[str, ...]] = ()
    """Further parameters that it takes of an app's `Collaborators`."""
    leaves_weights: ClassVar[bool] = False
    """Whether what a round leaves are weights of a net."""

    def __init__(
        self,
        *,
        config: ExchangeConfig | None,
        public: PublicSet,
        record: RunRecord,
        roster: Roster,
        checkpoints: Checkpoints,
    ) -> None:
        wanted = self.card.config
        if config is not None and not isinstance(config, wanted):
            raise ConfigError(explain("config", f"be a {wanted.__name__} for {self.card.title}", type(config).__name__))
        made: ExchangeConfig = config if config is not None else wanted()
        self.config, self.public, self.record = made, public, record
        self.roster, self.checkpoints = roster, checkpoints
        self.spec = PublicSpec(
            num_public=public.num_rows, num_classes=public.num_classes, fingerprint=public.fingerprint
        )
        self.num_rounds, self.rounds_done = 1, 0
        self.finished_round: int | None = None
        self.held: dict[str, Arrays] = {}

    @classmethod
    def needs(cls, given: Collaborators) -> dict[str, Any]:
        """Return the further parameters that this exchange takes of an app's."""
        found = {name: getattr(given, name) for name in cls.takes}
        return {name: value() if callable(value) else value for name, value in found.items()}

    # ---------------------------------------------------------------- one round

    @abstractmethod
    def outgoing(self, stage: Stage, server_round: int) -> dict[str, NDArray[Any]]:
        """Return the wire arrays every chosen party gets, by payload name."""

    @abstractmethod
    def read(self, reply: Reply, server_round: int) -> Answered:
        """Open what a reply carries; raise `PayloadError` where it cannot be counted."""

    @abstractmethod
    def combine_answers(self, server_round: int, answers: Sequence[Answered], this: RoundRecord) -> ArrayRecord:
        """Turn the valid answers of a round, in party-name order, into the next state; return a copy of it.

        Flower's loop carries the copy, and returns the last one as ``Result.arrays``; nothing is read from it.
        """

    @cached_property
    def told_config(self) -> ExchangeConfig:
        """The settings as parties are told them, with the noise found; known once the number of rounds is."""
        return self.config.resolved(
            num_public=self.spec.num_public, num_classes=self.spec.num_classes, num_rounds=self.num_rounds
        )

    def settings(self, server_round: int) -> dict[str, Any]:
        """Return the settings that every party is told in a round."""
        return {**self.told_config.told(), "algorithm": self.card.name, "privacy": self.config.privacy}

    def told(self, node: int, server_round: int) -> Mapping[str, Scalar]:
        """Return the settings that only this node gets: the base the server holds of its answers."""
        held = self.held.get(self.roster.name_of(node))
        return {} if held is None else {"base": digests(held.values())}

    def catching_up(self, stage: Stage, server_round: int) -> dict[str, NDArray[Any]]:
        """Return what a party that missed the last round gets besides, by payload name."""
        return {}

    def choose(self, nodes: list[int], server_round: int) -> list[int]:
        """Return which of the connected nodes this round asks."""
        return self.roster.sample(nodes, self.roster.fraction, self.rng("sample", server_round))

    def rounds_left(self, server_round: int) -> int:
        """Return in how many rounds a party is going to be asked from this one on: its budget should cover them all.

        Where rounds ask a share of the parties, it is their share of the rounds.
        """
        return max(1, math.ceil(self.roster.fraction * (self.num_rounds - server_round + 1)))

    @property
    def room(self) -> Room:
        """The most that an honest answer may hold: 8 bytes for each public row and class, twice over, and some."""
        rows, classes = self.spec.num_public, self.spec.num_classes
        return Room(arrays=_MAX_ARRAYS, num_bytes=_SLACK + 16 * classes * (rows + classes))

    # ---------------------------------------------------------------- the run

    @property
    def takes_latecomers(self) -> bool:
        """Whether nodes that come after the first round are asked in the rounds after it."""
        return True

    def begin_with(self, arrays: ArrayRecord | None) -> ArrayRecord:
        """Return the arrays that Flower's loop begins with; ``arrays`` are the weights that the caller gave, if any."""
        if arrays:
            rule, seen = f"be left out with {self.card.name}", f"{len(arrays)} arrays"
            raise ConfigError(explain("initial_arrays", rule, seen, "Parties begin with models of their own."))
        return ArrayRecord()

    def plan(self, num_rounds: int) -> None:
        """Take the number of rounds; refuse, before anybody is waited for, noise that cannot be found."""
        self.num_rounds = num_rounds
        for found in ("told_config", "mechanism"):  # drop what was cached before num_rounds was known
            vars(self).pop(found, None)
        _ = self.told_config

    def check_budget(self, server_round: int) -> None:
        """Refuse a round whose release the server's own budget does not cover."""

    def measure(self) -> MetricRecord | None:
        """Return how good the server's model is after a round, and before the first; None where it has none by then."""
        return None

    def releasing(self) -> None:
        """Note what must be durable before the final result goes out."""

    def ended(self) -> None:
        """Note that the run has ended or failed: nothing is asked any more."""

    def claim(self) -> list[PrivacyClaim]:
        """Return what this run may claim about privacy, from the rounds it asked for."""
        return []

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return what the next round needs besides what `combine_answers` returned: arrays, and plain JSON values."""
        return {}, {}

    def restore(self, result: Arrays, arrays: Arrays, plain: Mapping[str, Any]) -> None:
        """Take up what `combine_answers` returned after the last round, and the `state` of that time."""

    # ---------------------------------------------------------------- what exchanges share

    @property
    def charged_run(self) -> str:
        """The run that noise at the server is charged to: the first one, where this run continues others."""
        lineage = self.checkpoints.lineage
        return self.record.run_id if lineage is None else lineage.runs[0]

    def rng(self, *names: str | int) -> np.random.Generator:
        """Return the server's generator for the stream called ``names``."""
        return derive_rng(self.config.seed, "server", *names)

    def note(self, note: Note, *, level: int = WARN) -> None:
        """Log a note and write it into the record, once."""
        if add_note(self.record.notes, note):
            log(level, "%s", note)

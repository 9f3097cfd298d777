"""What the exchanges whose parties send trees have in common.

Trees leave without noise: split values are values of private rows, and leaves are class shares of few of them. A party
takes part only where its own rules name the algorithm. The form of trees on the wire is `fedkd_flwr.baselines.trees`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from flwr.app import Array, ArrayRecord, MetricRecord
from numpy.typing import NDArray

from fedkd_flwr.baselines.trees import NAMES, Trees, checked, model_of
from fedkd_flwr.clients.answer import Finished
from fedkd_flwr.clients.base import PartyClient
from fedkd_flwr.clients.instruction import Instruction
from fedkd_flwr.data.public import PublicSet
from fedkd_flwr.errors import PayloadError
from fedkd_flwr.metrics import measure
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.models.populations import learnt_shares
from fedkd_flwr.record.notes import Note, NoteCode
from fedkd_flwr.record.run_record import RoundRecord
from fedkd_flwr.strategies.exchange import Exchange, PartyAnswer, Stage, checked_test
from fedkd_flwr.wire.records import Reply, Room

__all__ = ["PartyTrees", "TreeClient", "TreeExchange"]

_MAX_BYTES = 2**26  # of one reply: a thousand trees of five thousand nodes


@dataclass(frozen=True, kw_only=True)
class PartyTrees(PartyAnswer):
    """One party's trees of one round, checked."""

    trees: Trees


def sizes_of(public: PublicSet) -> dict[str, int]:
    """Return what trees are checked against."""
    return {"num_classes": public.num_classes, "num_features": public.num_features}


class TreeExchange(Exchange[PartyTrees]):
    """Base of the exchanges in which parties send trees. Subclasses say what becomes of them: `combine`.

    ``test``, optional: rows to measure the model on after each round.

    ``trees``: all trees so far, as `fedkd_flwr.baselines.trees.Trees`; empty before the first round. ``model``: what
    they say together.
    """

    boosted: ClassVar[bool]
    takes = ("test",)

    def __init__(self, *, test: tuple[NDArray[Any], NDArray[Any]] | None = None, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.test = checked_test(test, self.public)
        self.trees: Trees = {}
        self.model: Classifier | None = None
        self._counted: tuple[int, Any] = (0, 0.0)  # trees, and what they add up to for each test row

    @abstractmethod
    def combine(self, parts: Sequence[Trees]) -> Trees:
        """Return all trees after a round, from those of the valid answers, in party-name order."""

    def begin_with(self, arrays: ArrayRecord | None) -> ArrayRecord:
        """Note that trees leave."""
        self.note(Note(NoteCode.TREES_LEFT))
        return super().begin_with(arrays)

    @property
    def room(self) -> Room:
        """The most that an honest answer may hold."""
        return Room(arrays=len(NAMES), num_bytes=_MAX_BYTES)

    def outgoing(self, stage: Stage, server_round: int) -> dict[str, NDArray[Any]]:
        """Return the trees so far."""
        return dict(self.trees)

    def read(self, reply: Reply, server_round: int) -> PartyTrees:
        """Check a party's trees."""
        try:
            trees = checked(reply.arrays, boosted=self.boosted, **sizes_of(self.public))
        except PayloadError as error:
            raise PayloadError(str(error), reason="wrong-weights") from error
        return PartyTrees(party=reply.party, trees=trees)

    def combine_answers(self, server_round: int, answers: Sequence[PartyTrees], this: RoundRecord) -> ArrayRecord:
        """Put the trees together, and make the model of them."""
        self._take_up(self.combine([answer.trees for answer in answers]))
        return ArrayRecord({name: Array(array) for name, array in self.trees.items()})

    def restore(self, result: Mapping[str, NDArray[Any]], kept: Mapping[str, Any]) -> None:
        """Take up the trees."""
        self._take_up({name: result[name] for name in NAMES})

    def measure(self) -> MetricRecord | None:
        """Measure the model on the common test rows; only trees of the last round are looked up."""
        if self.model is None or self.test is None or not len(self.test[1]):
            return None
        (X, y), says, (count, sums) = self.test, self.model.estimator, self._counted
        sums = sums + says.sums(X, after=count)
        self._counted, probs = (len(self.trees["sizes"]), sums), says.probabilities(sums)
        found = measure(y, probs.argmax(axis=1).astype(np.int16), probs, num_classes=self.spec.num_classes)
        self.record.server["common"], self.record.rounds[-1].server_accuracy = found, found.accuracy
        return MetricRecord({"accuracy": found.accuracy or 0.0})

    def _take_up(self, trees: Trees) -> None:
        self.trees, self.model = trees, model_of(trees, boosted=self.boosted, **sizes_of(self.public))


class TreeClient(PartyClient):
    """Base of the parties that send trees. Subclasses grow them: `learn`. Parameters as in `PartyClient`."""

    boosted: ClassVar[bool]

    def received(self, instruction: Instruction) -> Trees:
        """Return the trees that the server sent, which this party's code is going to follow."""
        return checked(instruction.arrays, boosted=self.boosted, **sizes_of(self.party.public))

    def finish(self, instruction: Instruction) -> Finished:
        """Keep the model of all trees; measure it beside one grown on this party's rows alone (SOLO)."""
        party = self.party
        model = model_of(self.received(instruction), boosted=self.boosted, **sizes_of(party.public))
        alone = party.model(seed=instruction.seed("model")).fit(party.X, party.y)
        alone.shares = learnt_shares(alone, party.y, None)
        return Finished(model=model, solo=party.metrics(alone), alone=alone)

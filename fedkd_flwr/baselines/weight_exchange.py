"""What the strategies whose parties send weights have in common.

    server   weights w_t of one net                                              -> a group of parties
    party    trains the net on its rows                  -> its weights, and how many rows it has -> the server
    server   what the algorithm makes of them                                    -> w_t+1

`FlowerMean` lets one of Flower's own strategies take the mean. Replies are opened one by one before that: a refusal, or
weights that do not fit, would end Flower's run. Weights and row counts leave without noise, and there is no claim: a
party takes part only where its own rules name the algorithm.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord
from flwr.serverapp.strategy import FedAvg as FlowerFedAvg
from numpy.typing import NDArray

from fedkd_flwr.algorithms.exchange import LocalEpochsConfig
from fedkd_flwr.clients.answer import Answer, Finished
from fedkd_flwr.clients.base import PartyClient
from fedkd_flwr.clients.instruction import Instruction
from fedkd_flwr.errors import DataError, PayloadError, explain
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.record.notes import Note, NoteCode
from fedkd_flwr.record.run_record import RoundRecord
from fedkd_flwr.strategies.exchange import Exchange, PartyAnswer, Stage, checked_test
from fedkd_flwr.wire.records import Reply, Room, numbered, numbered_arrays, weights_record

__all__ = ["FlowerMean", "PartyWeights", "WeightClient", "WeightExchange"]

MAX_ROWS = 2**31  # of one party: a mean by rows believes what a party says
_LARGEST = 1e12  # of a weight: with a unit that is silent at its sender it would end the training of all others


@dataclass(frozen=True, kw_only=True)
class PartyWeights(PartyAnswer):
    """One party's weights of one round, checked."""

    node_id: int  # the node that sent it
    # its arrays by what they are: ``model``, and what else the algorithm exchanges; float32
    parts: Mapping[str, Sequence[NDArray[np.float32]]]
    num_rows: int = 0  # rows of its own that it says it learnt from; 0 where the algorithm does not ask


class WeightExchange(Exchange[PartyWeights]):
    """Base of the exchanges in which parties send weights. Subclasses say what becomes of them: `combine_answers`.

    ``global_model``: ``global_model(seed=...)`` returns a fresh torch net; parties must build the same one. ``test``,
    optional: rows to measure the model on after each round, through Flower's ``evaluate_fn``.

    ``model``: the server's model.
    """

    config: LocalEpochsConfig
    parts: tuple[str, ...] = ("model",)
    """What a reply holds, each as many arrays as the net has."""
    rows_tried: int | None = 64
    """Public rows that a party's net must have finite outputs on; None: all."""
    leaves_weights = True
    takes: ClassVar[tuple[str, ...]] = ("global_model", "test")
    warning = Note(NoteCode.WEIGHTS_LEFT, {"beside": "rows"})
    """What the record says in any case."""

    def __init__(
        self,
        *,
        global_model: Callable[..., Classifier],
        test: tuple[NDArray[Any], NDArray[Any]] | None = None,
        **keywords: Any,
    ) -> None:
        super().__init__(**keywords)
        self.global_model, self.test = global_model, checked_test(test, self.public)
        seed = int(self.rng("model").integers(2**31))
        self.model, self._spare = global_model(seed=seed), global_model(seed=seed)
        self.model.initialize()

    def begin_with(self, arrays: ArrayRecord | None) -> ArrayRecord:
        """Take weights to start from; raise `DataError` if they do not fit the net."""
        if arrays is not None and not self.rounds_done:
            self.model.set_arrays([array.numpy() for array in arrays.values()])
        self.note(self.warning)
        return self._weights()

    # ---------------------------------------------------------------- what an algorithm says

    @abstractmethod
    def combine_answers(self, server_round: int, answers: Sequence[PartyWeights], this: RoundRecord) -> ArrayRecord:
        """Make the next weights of the valid answers, in party-name order, and return them: see `take_up`."""

    @property
    def room(self) -> Room:
        """The most that an honest answer may hold: arrays like the net's, in numbers of twice their size."""
        base, net = super().room, self._spare_arrays
        num_bytes = base.num_bytes + 2 * len(self.parts) * sum(array.nbytes for array in net)
        return Room(arrays=len(self.parts) * len(net) + 1, num_bytes=num_bytes)

    def outgoing(self, stage: Stage, server_round: int) -> dict[str, NDArray[Any]]:
        """Return the model's weights."""
        return dict(numbered("model", self.model.arrays()))

    def read(self, reply: Reply, server_round: int) -> PartyWeights:
        """Check that a party's weights fit the net, and that the net says something with them."""
        count, arrays = len(self._spare_arrays), list(reply.arrays.values())
        wanted = [f"{part}.{i}" for part in self.parts for i in range(count)]
        if list(reply.arrays) != wanted:
            raise PayloadError(explain("weights", f"be {len(wanted)} arrays, as were sent", len(arrays)))
        parts = {part: arrays[k * count : (k + 1) * count] for k, part in enumerate(self.parts)}
        try:
            for name, part in parts.items():
                self._spare.set_arrays(part)
                if (largest := max(float(np.abs(array).max(initial=0.0)) for array in part)) > _LARGEST:
                    raise DataError(explain(name, f"be within +-{_LARGEST:g}", largest))
                if name == "model":  # finite weights may be so large that what they say is not
                    self._spare.logits(self.public.X[: self.rows_tried])
        except DataError as error:
            raise PayloadError(str(error), reason="wrong-weights") from error
        return PartyWeights(party=reply.party, node_id=reply.node_id, parts=parts)

    def take_up(self, arrays: Sequence[NDArray[Any]]) -> ArrayRecord:
        """Make these weights the model's, and return a copy of them."""
        self.model.set_arrays([np.asarray(array, dtype=np.float32) for array in arrays])
        return self._weights()

    def restore(self, result: Mapping[str, NDArray[Any]], kept: Mapping[str, Any]) -> None:
        """Take up the weights."""
        super().restore(result, kept)
        self.model.set_arrays(list(result.values()))

    # ---------------------------------------------------------------- inside

    @cached_property
    def _spare_arrays(self) -> list[NDArray[np.float32]]:
        """Arrays of the shapes that parties send."""
        return self._spare.initialize().arrays()

    def _weights(self) -> ArrayRecord:
        return ArrayRecord({name: Array(array) for name, array in numbered("model", self.model.arrays()).items()})

    def measure(self) -> MetricRecord | None:
        """Measure the model on the common test rows."""
        if self.test is None or not len(self.test[1]):
            return None
        self.record.server["common"] = found = self.model.metrics(*self.test)
        if self.record.rounds:
            self.record.rounds[-1].server_accuracy = found.accuracy
        return MetricRecord({"accuracy": found.accuracy or 0.0})


class FlowerMean(WeightExchange):
    """Base of the exchanges in which one of Flower's own strategies takes the mean of the weights by rows.

    That is Flower's FedAvg, unless a subclass names another: `flower_strategy`. Parameters as in `WeightExchange`.
    """

    def __init__(self, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.flower = self.flower_strategy()

    def flower_strategy(self) -> FlowerFedAvg:
        """Return Flower's strategy; who is asked, and how many must answer, is decided here and not by its sampling."""
        return FlowerFedAvg(min_train_nodes=1, min_available_nodes=1)

    def read(self, reply: Reply, server_round: int) -> PartyWeights:
        """Check that a party's weights fit the net, and that its number of rows, which Flower reads, is one."""
        rows = reply.metrics.get("num-examples")
        if isinstance(rows, bool) or not (isinstance(rows, int) and 1 <= rows < MAX_ROWS):
            raise PayloadError(explain("num-examples", "be a whole number >= 1 (and below 2^31)", rows))
        return replace(super().read(reply, server_round), num_rows=rows)

    def combine_answers(self, server_round: int, answers: Sequence[PartyWeights], this: RoundRecord) -> ArrayRecord:
        """Let Flower's strategy average the valid replies, in party-name order: no result depends on who was first.

        It gets what was checked, never what came: one reply of another form would end its run.
        """
        arrays, _ = self.flower.aggregate_train(server_round, [self._as_flower_reads(answer) for answer in answers])
        if arrays is None:
            raise PayloadError(explain(f"Flower's {type(self.flower).__name__}", "average the valid replies", None))
        return self.take_up([array.numpy() for array in arrays.values()])

    @staticmethod
    def _as_flower_reads(answer: PartyWeights) -> Message:
        content = weights_record(numbered("model", answer.parts["model"]), answer.num_rows)
        return Message(content, dst_node_id=answer.node_id, message_type="train")  # read here, never sent


class WeightClient(PartyClient):
    """Sends the weights of the server's net after some passes over this party's rows.

    ``party``: what it holds and allows. Its ``model`` must be the server's torch net.
    """

    def learn(self, instruction: Instruction) -> Answer:
        """Train the server's net; return its weights."""
        model = self.received(instruction, "train", instruction.server_round)
        self.train(model, instruction)
        return Answer(values=numbered("model", model.arrays()))

    def train(self, model: Classifier, instruction: Instruction) -> None:
        """Train the net that came on this party's rows: plain passes, unless an algorithm adds something."""
        model.train_epochs(self.party.X, self.party.y, epochs=instruction.config.local_epochs)

    def num_rows(self, instruction: Instruction) -> int:
        """Return how many rows this party trained on: its weight in the server's mean."""
        return len(self.party.y)

    def finish(self, instruction: Instruction) -> Finished:
        """Keep the server's final model; measure it beside a net trained on this party's rows alone (SOLO)."""
        party, epochs = self.party, instruction.config.solo_epochs
        model = self.received(instruction, "final")
        alone = party.model(seed=instruction.seed("model")).train_epochs(party.X, party.y, epochs=epochs)
        return Finished(model=model, solo=party.metrics(alone), alone=alone)

    def weights(self, instruction: Instruction) -> Sequence[NDArray[Any]]:
        """Return the net's arrays among those that came."""
        return numbered_arrays(instruction.arrays, "model")

    def received(self, instruction: Instruction, *stream: str | int) -> Classifier:
        """Return the server's net, which goes on with this party's stream of randomness."""
        return self.party.net_with(self.weights(instruction), seed=instruction.seed(*stream))

"""FedProx, by Flower's own strategy.

Li et al., "Federated Optimization in Heterogeneous Networks", MLSys 2020. The whole round t:

    server   weights w_t, mu                                                     -> a group of parties
    party    epochs on its rows, with (mu / 2) ||w - w_t||^2 in the loss -> weights and number of rows -> the server
    server   mean of the weights by numbers of rows -> w_t+1

`flwr.serverapp.strategy.FedProx` sends, and takes the mean; what stands around it here waits for nodes, asks by party
name, opens replies one by one (a refusal, or weights that do not fit, would end Flower's run), and writes the record.

Weights and row counts leave the parties, without noise: this package's other algorithms exist to avoid that. A party
takes part only where its own rules name the algorithm, and there is no claim. One party can also spoil a mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedProx as FlowerFedProx
from flwr.serverapp.strategy import Result
from numpy.typing import NDArray

from fedkd_flwr.algorithms.card import ExchangeConfig
from fedkd_flwr.algorithms.fedprox import CARD, FedProxConfig
from fedkd_flwr.errors import DataError, PayloadError, explain
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.run_record import RoundRecord
from fedkd_flwr.strategies.base import Collaborators, ExchangeStrategy, Stage
from fedkd_flwr.strategies.reception import PartyAnswer, notes_of
from fedkd_flwr.strategies.waiting import WatchedGrid
from fedkd_flwr.wire.records import Reply, Room, array_bytes, numbered

__all__ = ["FedProx", "PartyWeights"]

MAX_ROWS = 2**31  # of one party: Flower's mean believes what a party says
_NOTE = "Weights of nets trained on private rows, and numbers of rows, left the parties as they are, without noise."


@dataclass(frozen=True, kw_only=True)
class PartyWeights(PartyAnswer):
    """One party's weights of one round: checked, and left in the message that Flower's strategy reads.

    Parameters
    ----------
    node_id : int
        The node that sent it.
    num_rows : int
        Rows it says it trained on.
    """

    node_id: int
    num_rows: int


class _Group(WatchedGrid):
    """A grid of the round's parties alone: Flower draws from all nodes there are, and waits for more if too few."""

    def __init__(self, grid: Grid, nodes: Sequence[int]) -> None:
        super().__init__(grid)
        self.nodes = nodes

    def get_node_ids(self) -> Iterable[int]:
        """Return the nodes of the group."""
        return self.nodes


class FedProx(ExchangeStrategy[PartyWeights]):
    """Flower's FedProx, written down round by round. Further parameters as in `ExchangeStrategy`.

    Parameters
    ----------
    global_model : callable
        ``global_model(seed=...)`` returns a fresh torch net; parties must build the same one.
    test : (X, y), optional
        Rows to measure the model on after each round, through Flower's ``evaluate_fn``.

    Attributes
    ----------
    model : Classifier
        The server's model.
    flower : flwr.serverapp.strategy.FedProx
        What sends and averages.
    """

    card = CARD
    config: FedProxConfig
    rounds_before = 0
    """Rounds of another algorithm that came before, in the same run."""

    def __init__(
        self,
        *args: Any,
        global_model: Callable[..., Classifier],
        test: tuple[NDArray[Any], NDArray[Any]] | None = None,
        **keywords: Any,
    ) -> None:
        super().__init__(*args, **keywords)
        self.test = test
        seed = int(self.rng("model").integers(2**31))
        self.model, self._spare = global_model(seed=seed), global_model(seed=seed)
        self.model.initialize()
        # who is asked, and how many must answer, is decided here and not by Flower's own sampling
        self.flower = FlowerFedProx(min_train_nodes=1, min_available_nodes=1, proximal_mu=self.config.proximal_mu)
        self._carried = self._weights()
        self._grid: Grid | None = None
        self._replies: dict[int, Message] = {}

    @classmethod
    def assemble(cls, given: Collaborators, **keywords: Any) -> Self:
        """Return the strategy of an app's run."""
        return cls(given.fraction, global_model=given.global_model(), test=given.test, **keywords)

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord | None = None,
        num_rounds: int = 1,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
        **later: Any,
    ) -> Result:
        """Run the rounds; see `ExchangeStrategy.start`.

        ``initial_arrays`` are weights to start from; `DataError` is raised if they do not fit the net.
        """
        self.checkpoints.resume(self, num_rounds)  # weights of its own
        if initial_arrays is not None and not self.rounds_done:
            self.model.set_arrays([array.numpy() for array in initial_arrays.values()])
        self.note(_NOTE)

        def measured(server_round: int, arrays: ArrayRecord) -> MetricRecord | None:
            own = self._measure(arrays)
            return own if evaluate_fn is None else evaluate_fn(server_round, arrays)

        plan = (num_rounds, timeout, train_config, evaluate_config, measured)
        return super().start(grid, self._weights(), *plan, **later)

    # ---------------------------------------------------------------- what an algorithm says

    @property
    def room(self) -> Room:
        """The most that an honest answer may hold: the arrays that were sent, in numbers of twice their size."""
        base = super().room
        return Room(arrays=len(self._carried) + 1, num_bytes=base.num_bytes + 2 * array_bytes(self._carried))

    def outgoing(self, stage: Stage, server_round: int) -> dict[str, NDArray[Any]]:
        """Return the model's weights."""
        return dict(numbered("model", self.model.arrays()))

    @cached_property
    def told_config(self) -> ExchangeConfig:
        """The settings as parties are told them; Flower's strategy adds mu once more."""
        return self.config.resolved(
            num_public=self.spec.num_public,
            num_classes=self.spec.num_classes,
            num_rounds=self.num_rounds - self.rounds_before,
        )

    def read(self, reply: Reply, server_round: int) -> PartyWeights:
        """Check that a party's weights fit the net, and that its number of rows is one."""
        if list(reply.arrays) != list(self._carried):
            raise PayloadError(explain("weights", f"be {len(self._carried)} arrays, as were sent", len(reply.arrays)))
        try:
            self._spare.set_arrays(list(reply.arrays.values()))
        except DataError as error:
            raise PayloadError(str(error), reason="wrong-weights") from error
        rows = reply.metrics.get("num-examples")
        if isinstance(rows, bool) or not (isinstance(rows, int) and 1 <= rows < MAX_ROWS):
            raise PayloadError(explain("num-examples", "be a whole number >= 1 (and below 2^31)", rows))
        return PartyWeights(party=reply.party, node_id=reply.node_id, num_rows=rows, notes=notes_of(reply))

    def combine_answers(self, server_round: int, answers: Sequence[PartyWeights], this: RoundRecord) -> ArrayRecord:
        """Let Flower's strategy average the valid replies, in party-name order: no result depends on who was first."""
        arrays, _ = self.flower.aggregate_train(server_round, [self._replies[a.node_id] for a in answers])
        if arrays is None:
            raise PayloadError(explain("Flower's FedProx", "average the valid replies", None))
        self.model.set_arrays([array.numpy() for array in arrays.values()])
        return arrays

    def restore(
        self, result: Mapping[str, NDArray[Any]], arrays: Mapping[str, NDArray[Any]], plain: Mapping[str, Any]
    ) -> None:
        """Take up the weights."""
        self.model.set_arrays(list(result.values()))

    # ---------------------------------------------------------------- around Flower's strategy

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Choose the parties, and let Flower's strategy write to them."""
        self._carried, self._grid = arrays, grid
        return super().configure_train(server_round, arrays, config, grid)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Open each reply, leave bad ones out with a reason, and have the others averaged."""
        replies = list(replies)
        self._replies = {reply.metadata.src_node_id: reply for reply in replies}
        return super().aggregate_train(server_round, replies)

    def _messages(
        self, stage: Stage, message_type: str, server_round: int, nodes: Iterable[int], config: ConfigRecord
    ) -> list[Message]:
        nodes = list(nodes)
        if stage == "evaluate" or self._grid is None or not nodes:  # without nodes Flower would wait for ever
            return super()._messages(stage, message_type, server_round, nodes, config)
        # a record of our own: Flower's strategy writes into it
        settings = ConfigRecord(self._settings_for_all(server_round, config))
        group = _Group(self._grid, nodes)
        messages = list(self.flower.configure_train(server_round, self._carried, settings, group))
        messages.sort(key=lambda message: nodes.index(message.metadata.dst_node_id))  # Flower shuffles, unseeded
        self.record.rounds[-1].bytes_down += sum(array_bytes(m.content.array_records["arrays"]) for m in messages)
        return messages

    def _weights(self) -> ArrayRecord:
        return ArrayRecord({name: Array(array) for name, array in self.outgoing("fit", 0).items()})

    def _measure(self, arrays: ArrayRecord) -> MetricRecord | None:
        """Measure weights on the common test rows: those before the first round are FedKT's, where it came first."""
        if self.test is None or not len(self.test[1]):
            return None
        self._spare.set_arrays([array.numpy() for array in arrays.values()])
        self.record.server["common"] = found = self._spare.metrics(*self.test)
        if self.record.rounds:
            self.record.rounds[-1].server_accuracy = found.accuracy
        return MetricRecord({"accuracy": found.accuracy or 0.0})

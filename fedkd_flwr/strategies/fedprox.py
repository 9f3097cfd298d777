"""FedProx, by Flower's own strategy, and FedKT-Prox: the same, started from the model that FedKT's round leaves.

Li et al., "Federated Optimization in Heterogeneous Networks", MLSys 2020 (FedProx); Li, He, Song, IJCAI 2021, Section
4.3 (FedKT-Prox). The whole round t:

    server   weights w_t, mu                                                     -> a group of parties
    party    epochs on its rows, with (mu / 2) ||w - w_t||^2 in the loss -> weights and number of rows -> the server
    server   mean of the weights by numbers of rows -> w_t+1

FedKT-Prox puts FedKT's one exchange of labels before it, in the same run: its final model is w_1. In the record that is
round 1; FedProx's rounds go on from 2. `flwr.serverapp.strategy.FedProx` sends, and takes the mean; what stands around
it here waits for nodes, asks by party name, opens replies one by one (a refusal, or weights that do not fit, would end
Flower's run), and writes the record.

Weights and row counts leave the parties, without noise: this package's other algorithms exist to avoid that. A party
takes part only where its own rules name the algorithm, and there is no claim. One party can also spoil a mean.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedProx as FlowerFedProx
from flwr.serverapp.strategy import Result
from numpy.typing import NDArray

from fedkd_flwr.errors import ConfigError, DataError, PayloadError, check_whole, explain
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.run_record import RoundRecord, RunRecord
from fedkd_flwr.strategies.base import ExchangeConfig, ExchangeStrategy, Stage
from fedkd_flwr.strategies.fedkt import FedKT, FedKTConfig
from fedkd_flwr.strategies.reception import PartyAnswer, notes_of
from fedkd_flwr.strategies.waiting import WatchedGrid
from fedkd_flwr.wire.records import Reply, Scalar, array_bytes, numbered

__all__ = ["FedKTProx", "FedProx", "FedProxConfig", "PartyWeights"]

MAX_ROWS = 2**31  # of one party: Flower's mean believes what a party says
_NOTE = "Weights of nets trained on private rows, and numbers of rows, left the parties as they are, without noise."


@dataclass(frozen=True, kw_only=True)
class FedProxConfig(ExchangeConfig):
    """Settings of FedProx.

    Parameters
    ----------
    proximal_mu : float
        Weight of the proximal term, >= 0; 0 is FedAvg.
    local_epochs : int
        Passes of a party over its rows per round, 1 or more.
    solo_epochs : int
        Passes of the net each party trains alone for comparison; 0: as many as a party asked in every round makes.
    """

    proximal_mu: float = 0.1
    local_epochs: int = 5
    solo_epochs: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        mu = self.proximal_mu
        if isinstance(mu, bool) or not (isinstance(mu, int | float) and 0.0 <= mu < float("inf")):
            raise ConfigError(explain("proximal_mu", "be a finite number >= 0", mu, "0 is FedAvg."))
        check_whole("local_epochs", self.local_epochs, 1)
        check_whole("solo_epochs", self.solo_epochs, 0)


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
    config : FedProxConfig
        Settings.
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

    algorithm: ClassVar[str] = "fedprox"

    def __init__(
        self,
        *args: Any,
        config: FedProxConfig | None = None,
        global_model: Callable[..., Classifier],
        test: tuple[NDArray[Any], NDArray[Any]] | None = None,
        **keywords: Any,
    ) -> None:
        self.config = config if config is not None else FedProxConfig()
        super().__init__(*args, config=self.config, **keywords)
        self.test = test
        seed = int(self.rng("model").integers(2**31))
        self.model, self._spare = global_model(seed=seed), global_model(seed=seed)
        self.model.initialize()
        # who is asked, and how many must answer, is decided here and not by Flower's own sampling
        self.flower = FlowerFedProx(min_train_nodes=1, min_available_nodes=1, proximal_mu=self.config.proximal_mu)
        self._carried = self._weights()
        self._grid: Grid | None = None
        self._replies: dict[int, Message] = {}

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
        """Run the rounds; see `ExchangeStrategy.start`. ``initial_arrays`` are weights to start from.

        Raises
        ------
        DataError
            If ``initial_arrays`` do not fit the net.
        """
        if initial_arrays is not None:
            self.model.set_arrays([array.numpy() for array in initial_arrays.values()])
        self.note(_NOTE)

        def measured(server_round: int, arrays: ArrayRecord) -> MetricRecord | None:
            own = self._measure(arrays)
            return own if evaluate_fn is None else evaluate_fn(server_round, arrays)

        plan = (num_rounds, timeout, train_config, evaluate_config, measured)
        return super().start(grid, self._weights(), *plan, **later)

    # ---------------------------------------------------------------- what an algorithm says

    def outgoing(self, stage: Stage, server_round: int) -> dict[str, NDArray[Any]]:
        """Return the model's weights."""
        return dict(numbered("model", self.model.arrays()))

    def instruction(self, server_round: int) -> Mapping[str, Scalar]:
        """Return how long parties train; Flower's strategy adds mu."""
        epochs, rounds = self.config.local_epochs, self.num_rounds - self.rounds_done
        return {"local-epochs": epochs, "solo-epochs": self.config.solo_epochs or epochs * max(rounds, 1)}

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
        accuracy = self._spare.accuracy(*self.test)
        self.record.server_accuracy = accuracy
        if self.record.rounds:
            self.record.rounds[-1].server_accuracy = accuracy
        return MetricRecord({"accuracy": accuracy})


class FedKTProx(FedProx):
    """FedKT's round, then FedProx from its model, in one run. Further parameters as in `FedProx`.

    Parameters
    ----------
    fraction_train : float
        Share of the parties asked in FedProx's rounds; FedKT asks all.
    fedkt : FedKTConfig
        Settings of FedKT's round: level L0 alone, since weights without noise would void every claim.

    Attributes
    ----------
    fedkt : FedKT
        The strategy of the first round; its ``model`` is where FedProx starts.
    """

    algorithm: ClassVar[str] = "fedkt-prox"

    def __init__(
        self,
        fraction_train: float = 1.0,
        *args: Any,
        fedkt: FedKTConfig | None = None,
        global_model: Callable[..., Classifier],
        record: RunRecord | None = None,
        **keywords: Any,
    ) -> None:
        settings = fedkt if fedkt is not None else FedKTConfig()
        if settings.level != "L0":
            way_out = "Use fedkt for L1 and L2, or L0 here."
            raise ConfigError(explain("level", "be L0: FedProx's weights carry no noise", settings.level, way_out))
        record = record if record is not None else RunRecord(run_id="", algorithm=self.algorithm)
        super().__init__(fraction_train, *args, global_model=global_model, record=record, **keywords)
        keywords.pop("config", None)
        # parties finish once, on what comes out at the end
        settings = replace(settings, party_models=False, seed=self.config.seed)
        self.fedkt = _FirstRound(1.0, *args, config=settings, final_model=global_model, record=record, **keywords)

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord | None = None,
        num_rounds: int = 1,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        *args: Any,
        **keywords: Any,
    ) -> Result:
        """Run FedKT's round, then ``num_rounds`` rounds of FedProx; see `ExchangeStrategy.start`.

        Raises
        ------
        ConfigError
            If ``initial_arrays`` are given.
        DataError
            If FedKT's model saw a single class, and so has no weights.
        """
        if initial_arrays is not None:
            way_out = "FedProx starts from FedKT's model; use fedprox for other weights."
            raise ConfigError(explain("initial_arrays", "be left out", "some", way_out))
        check_whole("num_rounds", num_rounds, 1)
        began = time.monotonic()
        self.fedkt.start(grid, num_rounds=1, timeout=timeout, train_config=train_config)
        first = self.fedkt.model
        if first is None or first.is_constant:
            self.record.status, way_out = "failed", "Use more public rows or more even parties, or start with fedprox."
            self.record.reason = explain("the labels FedKT's model learnt", "show >= 2 classes", 1, way_out)
            raise DataError(self.record.reason)
        self.model.set_arrays(first.arrays())
        self._nodes, self.rounds_done = self.fedkt._nodes, 1
        self._reception.follow(self.fedkt._reception)
        self.note(f"Round 1 is FedKT's, the {num_rounds} after it are FedProx's, from FedKT's model.")
        took = time.monotonic() - began
        try:
            return super().start(grid, self._weights(), 1 + num_rounds, timeout, train_config, *args, **keywords)
        finally:
            self.record.seconds += took


class _FirstRound(FedKT):
    """FedKT without its last trip: what its parties would finish on is not the end."""

    def configure_evaluate(self, *args: Any, **keywords: Any) -> Iterable[Message]:
        """Send nothing."""
        return []

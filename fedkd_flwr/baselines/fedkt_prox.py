"""FedKT-Prox: FedProx, started from the model that FedKT's round leaves, in one run.

Li, He, Song, IJCAI 2021, Section 4.3. In the record round 1 is FedKT's one exchange of labels; FedProx's rounds go on
from 2, and weights leave the parties in them. Both parts are told in `fedkd_flwr.strategies.fedkt` and
`fedkd_flwr.baselines.fedprox`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result
from numpy.typing import NDArray

from fedkd_flwr.baselines.cards import FEDKT_PROX as CARD
from fedkd_flwr.baselines.cards import FedKTProxConfig
from fedkd_flwr.baselines.fedprox import FedProx, FedProxClient
from fedkd_flwr.checks import check_whole
from fedkd_flwr.clients.fedkt import FedKTClient
from fedkd_flwr.clients.party import ModelFactory, Party
from fedkd_flwr.errors import ConfigError, DataError, explain
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.strategies.base import new_record
from fedkd_flwr.strategies.fedkt import FedKT
from fedkd_flwr.wire.records import Scalar

__all__ = ["FedKTProx", "FedKTProxClient"]


class FedKTProx(FedProx):
    """FedKT's round, then FedProx from its model, in one run. Further parameters as in `FedProx`.

    Parameters
    ----------
    fraction_train : float
        Share of the parties asked in FedProx's rounds; FedKT asks all.

    Attributes
    ----------
    config : FedKTProxConfig
        Settings of both parts: level L0 alone, since weights without noise would void every claim.
    fedkt : FedKT
        The strategy of the first round; its ``model`` is where FedProx starts.
    """

    card = CARD
    config: FedKTProxConfig
    rounds_before = 1

    def __init__(
        self,
        fraction_train: float = 1.0,
        *args: Any,
        global_model: Callable[..., Classifier],
        record: RunRecord | None = None,
        **keywords: Any,
    ) -> None:
        record = record if record is not None else new_record(self.card)
        super().__init__(fraction_train, *args, global_model=global_model, record=record, **keywords)
        for own in ("config", "checkpoint", "resume_from"):
            keywords.pop(own, None)
        self.fedkt = _FirstRound(
            1.0, *args, config=self.config.first, final_model=global_model, record=record, **keywords
        )

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

        Raises `ConfigError` if ``initial_arrays`` are given, `DataError` if FedKT's model saw a single class, and so
        has no weights.
        """
        if initial_arrays is not None:
            way_out = "FedProx starts from FedKT's model; use fedprox for other weights."
            raise ConfigError(explain("initial_arrays", "be left out", "some", way_out))
        check_whole("num_rounds", num_rounds, 1)
        self.record.num_rounds = self.num_rounds = 1 + num_rounds
        self.checkpoints.resume(self, 1 + num_rounds)
        plan = (1 + num_rounds, timeout, train_config)
        if self.rounds_done:  # the run that this one continues was lost after FedKT's round
            return super().start(grid, None, *plan, *args, **keywords)
        self.checkpoints.begin(self)
        self.fedkt.checkpoints.lineage = self.checkpoints.lineage
        self.fedkt.start(grid, num_rounds=1, timeout=timeout, train_config=train_config)
        self._began = self.fedkt._began
        first = self.fedkt.model
        if first is None or first.is_constant:
            way_out = "Use more public rows or more even parties, or start with fedprox."
            error = DataError(explain("the labels FedKT's model learnt", "show >= 2 classes", 1, way_out))
            self.conclude(error)
            raise error
        self.model.set_arrays(first.arrays())
        self._nodes, self.rounds_done = self.fedkt._nodes, 1
        self._reception.follow(self.fedkt._reception)
        self.note(f"Round 1 is FedKT's, the {num_rounds} after it are FedProx's, from FedKT's model.")
        self.checkpoints.keep(self, 1, self._weights())
        return super().start(grid, None, *plan, *args, **keywords)

    def prepare(self, grid: Grid, num_rounds: int) -> None:
        """Go on with the nodes of FedKT's round, whose time counts too."""
        began = self._began
        super().prepare(grid, num_rounds)
        self._began = began or self._began


class _FirstRound(FedKT):
    """FedKT without its last trip: what its parties would finish on is not the end."""

    def configure_evaluate(self, *args: Any, **keywords: Any) -> Iterable[Message]:
        """Send nothing."""
        return []

    def conclude(self, error: BaseException | None = None) -> None:
        """Write down a failure; where it succeeds, the run goes on."""
        if error is not None:
            super().conclude(error)


Fitted = tuple[list[NDArray[Any]], int, dict[str, Scalar]]


class FedKTProxClient(FedProxClient):
    """Answers FedKT's round with labels and the rounds after it with weights.

    Parameters
    ----------
    party : Party
        What it holds and allows: naming fedkt-prox allows both parts, naming fedkt the first alone.
    teacher, student : callable, optional
        As in `FedKTClient`.
    """

    card = CARD

    def __init__(
        self, party: Party, *, teacher: ModelFactory | None = None, student: ModelFactory | None = None
    ) -> None:
        super().__init__(party)
        also = {"fedkt"} if self.card.name in party.allow else set()
        self.first = FedKTClient(replace(party, allow=party.allow | also), teacher=teacher, student=student)

    def fit(self, parameters: list[NDArray[Any]], config: dict[str, Scalar]) -> Fitted:
        """Answer one round."""
        if config.get("algorithm") == "fedkt":
            return self.first.fit(parameters, config)
        return super().fit(parameters, config)

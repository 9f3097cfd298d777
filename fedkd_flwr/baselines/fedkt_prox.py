"""FedKT-Prox: FedProx, started from the model that FedKT's round leaves, in one run.

Li, He, Song, IJCAI 2021, Section 4.3. In the record round 1 is FedKT's one exchange of labels; FedProx's rounds go on
from 2, and weights leave the parties in them. Both parts are told in `fedkd_flwr.strategies.fedkt` and
`fedkd_flwr.baselines.fedprox`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from flwr.app import ArrayRecord, MetricRecord
from numpy.typing import NDArray

from fedkd_flwr.baselines.cards import FEDKT_PROX as CARD
from fedkd_flwr.baselines.cards import FedKTProxConfig
from fedkd_flwr.baselines.fedprox import FedProxClient, FedProxExchange
from fedkd_flwr.clients.fedkt import FedKTClient
from fedkd_flwr.clients.party import ModelFactory, Party
from fedkd_flwr.errors import ConfigError, DataError, explain
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.record.notes import Note, NoteCode
from fedkd_flwr.record.run_record import RoundRecord
from fedkd_flwr.strategies.exchange import Stage
from fedkd_flwr.strategies.fedkt import FedKTExchange
from fedkd_flwr.wire.records import Reply, Room, Scalar

__all__ = ["FedKTProxClient", "FedKTProxExchange"]


class FedKTProxExchange(FedProxExchange):
    """FedKT's exchange in round 1, FedProx's from its model in the rounds after it. Further parameters as in `FedProx`.

    FedKT's round asks all parties, the others a share. ``num_rounds`` of a strategy's `start` counts FedProx's alone.

    ``config``: settings of both parts: level L0 alone, since weights without noise would void every claim. ``fedkt``:
    the exchange of the first round; its ``model`` is where FedProx starts.
    """

    card = CARD
    config: FedKTProxConfig
    rounds_before = 1

    def __init__(self, *, global_model: Callable[..., Classifier], **keywords: Any) -> None:
        super().__init__(global_model=global_model, **keywords)
        self.fedkt = FedKTExchange(
            config=self.config.first,
            final_model=global_model,
            public=self.public,
            record=self.record,
            roster=self.roster,
            checkpoints=self.checkpoints,
        )

    def begin_with(self, arrays: ArrayRecord | None) -> ArrayRecord:
        """Refuse weights to start from."""
        if arrays is not None:
            way_out = "FedProx starts from FedKT's model; use fedprox for other weights."
            raise ConfigError(explain("initial_arrays", "be left out", "some", way_out))
        return self._weights()

    def plan(self, num_rounds: int) -> None:
        """Take the number of rounds, FedKT's among them."""
        super().plan(num_rounds)
        self.fedkt.plan(1)

    def choose(self, nodes: list[int], server_round: int) -> list[int]:
        """Return which of the connected nodes this round asks."""
        return self.roster.in_order(nodes) if server_round == 1 else super().choose(nodes, server_round)

    def settings(self, server_round: int) -> dict[str, Any]:
        """Return the settings that every party is told in a round: FedKT's in its own."""
        return self.fedkt.settings(1) if server_round == 1 else super().settings(server_round)

    def told(self, node: int, server_round: int) -> Mapping[str, Scalar]:
        """Return the settings that only this node gets."""
        return self.fedkt.told(node, 1) if server_round == 1 else super().told(node, server_round)

    def rounds_left(self, server_round: int) -> int:
        """Return in how many rounds of the same part a party is going to be asked from this one on."""
        return 1 if server_round == 1 else super().rounds_left(server_round)

    def outgoing(self, stage: Stage, server_round: int) -> dict[str, NDArray[Any]]:
        """Return what FedKT sends in its round, and weights from then on."""
        first = stage == "fit" and server_round == 1
        return self.fedkt.outgoing(stage, 1) if first else super().outgoing(stage, server_round)

    @property
    def room(self) -> Room:
        """The most that an honest answer of either part may hold."""
        labels, weights = self.fedkt.room, super().room
        return Room(arrays=max(labels.arrays, weights.arrays), num_bytes=max(labels.num_bytes, weights.num_bytes))

    def read(self, reply: Reply, server_round: int) -> Any:
        """Return labels of FedKT's round, and weights of the others."""
        return self.fedkt.read(reply, 1) if server_round == 1 else super().read(reply, server_round)

    def combine_answers(self, server_round: int, answers: Sequence[Any], this: RoundRecord) -> ArrayRecord:
        """Let FedKT's model be the first weights; average those of the rounds after it.

        Raises `DataError` if FedKT's model saw a single class, and so has no weights.
        """
        if server_round > 1:
            return super().combine_answers(server_round, answers, this)
        self.fedkt.combine_answers(1, answers, this)
        first = self.fedkt.model
        if first is None or first.is_constant:
            way_out = "Use more public rows or more even parties, or start with fedprox."
            raise DataError(explain("the labels FedKT's model learnt", "show >= 2 classes", 1, way_out))
        self.note(Note(NoteCode.FEDKT_FIRST, {"later": self.num_rounds - 1}))
        self.note(self.warning)
        return self.take_up(first.arrays())

    def measure(self) -> MetricRecord | None:
        """Measure the model on the common test rows, once FedKT has made it."""
        return super().measure() if self.record.rounds else None


Fitted = tuple[list[NDArray[Any]], int, dict[str, Scalar]]


class FedKTProxClient(FedProxClient):
    """Answers FedKT's round with labels and the rounds after it with weights.

    ``party``: what it holds and allows: naming fedkt-prox allows both parts, naming fedkt the first alone. ``teacher``,
    ``student``, optional: as in `FedKTClient`.
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

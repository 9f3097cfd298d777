"""FedKT-Prox at a party: FedKT's round with labels, FedProx's rounds with weights.

The other half, and the whole run, is `fedkd_flwr.strategies.fedkt_prox`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from fedkd_flwr.algorithms.fedkt_prox import CARD
from fedkd_flwr.clients.fedkt import FedKTClient
from fedkd_flwr.clients.fedprox import FedProxClient
from fedkd_flwr.clients.party import ModelFactory, Party
from fedkd_flwr.wire.records import Scalar

__all__ = ["FedKTProxClient"]

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

"""FedProx at a party: train the server's net on its rows, held near where it started, and return the weights.

The other half, and the whole round, is `fedkd_flwr.strategies.fedprox`. Weights and the number of rows leave, without
noise: a party allows that by the algorithm's name or not at all, and one that demands privacy refuses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.clients.base import PartyClient
from fedkd_flwr.clients.fedkt import FedKTClient
from fedkd_flwr.clients.party import Answer, Finished, Instruction, ModelFactory, Party
from fedkd_flwr.errors import PayloadError, explain
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.wire.records import Scalar

__all__ = ["FedKTProxClient", "FedProxClient"]

Fitted = tuple[list[NDArray[Any]], int, dict[str, Scalar]]


class FedProxClient(PartyClient):
    """Sends the weights of the server's net after some epochs on this party's rows (FedProx, Algorithm 2).

    Parameters
    ----------
    party : Party
        What it holds and allows. Its ``model`` must be the server's torch net.
    """

    algorithm: ClassVar[str] = "fedprox"

    def learn(self, instruction: Instruction) -> Answer:
        """Train the server's net with the proximal term; return its weights under the names they came with."""
        mu = instruction.config.get("proximal-mu", 0.0)
        if isinstance(mu, bool) or not (isinstance(mu, int | float) and 0.0 <= mu < np.inf):
            raise PayloadError(explain("proximal-mu", "be a finite number >= 0", mu))
        epochs = instruction.integer("local-epochs", minimum=1)
        model = self._received(instruction, "train", instruction.server_round)
        model.proximal_epochs(self.party.X, self.party.y, epochs=epochs, mu=mu)
        return Answer(values=dict(zip(instruction.arrays, model.arrays(), strict=True)))

    def num_rows(self, instruction: Instruction) -> int:
        """Return how many rows this party trained on: its weight in the server's mean."""
        return len(self.party.y)

    def encode(
        self, values: Mapping[str, NDArray[Any]], instruction: Instruction, base: Mapping[str, NDArray[Any]]
    ) -> dict[str, NDArray[Any]]:
        """Return the weights as they are."""
        return dict(values)

    def finish(self, instruction: Instruction) -> Finished:
        """Keep the server's final model; measure it beside a net trained on this party's rows alone (SOLO)."""
        party, epochs = self.party, instruction.integer("solo-epochs", minimum=1)
        model = self._received(instruction, "final")
        alone = party.model(seed=instruction.seed("model")).train_epochs(party.X, party.y, epochs=epochs)
        return Finished(model=model, solo=party.accuracies(alone))

    def _received(self, instruction: Instruction, *stream: str | int) -> Classifier:
        """Return this party's net with the weights the server sent."""
        return self.party.net_with(list(instruction.arrays.values()), seed=instruction.seed(*stream))


class FedKTProxClient(FedProxClient):
    """Answers FedKT's round with labels and the rounds after it with weights.

    Parameters
    ----------
    party : Party
        What it holds and allows: naming fedkt-prox allows both parts, naming fedkt the first alone.
    teacher, student : callable, optional
        As in `FedKTClient`.
    """

    algorithm: ClassVar[str] = "fedkt-prox"

    def __init__(
        self, party: Party, *, teacher: ModelFactory | None = None, student: ModelFactory | None = None
    ) -> None:
        super().__init__(party)
        also = {"fedkt"} if self.algorithm in party.allow else set()
        self.first = FedKTClient(replace(party, allow=party.allow | also), teacher=teacher, student=student)

    def fit(self, parameters: list[NDArray[Any]], config: dict[str, Scalar]) -> Fitted:
        """Answer one round."""
        if config.get("algorithm") == "fedkt":
            return self.first.fit(parameters, config)
        return super().fit(parameters, config)

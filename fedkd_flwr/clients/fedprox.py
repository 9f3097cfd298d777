"""FedProx at a party: train the server's net on its rows, held near where it started, and return the weights.

The other half, and the whole round, is `fedkd_flwr.strategies.fedprox`. Weights and the number of rows leave, without
noise: a party allows that by the algorithm's name or not at all, and one that demands privacy refuses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from fedkd_flwr.algorithms.fedprox import CARD
from fedkd_flwr.clients.base import PartyClient
from fedkd_flwr.clients.party import Answer, Finished, Instruction
from fedkd_flwr.models.classifier import Classifier

__all__ = ["FedProxClient"]


class FedProxClient(PartyClient):
    """Sends the weights of the server's net after some epochs on this party's rows (FedProx, Algorithm 2).

    Parameters
    ----------
    party : Party
        What it holds and allows. Its ``model`` must be the server's torch net.
    """

    card = CARD

    def learn(self, instruction: Instruction) -> Answer:
        """Train the server's net with the proximal term; return its weights under the names they came with."""
        epochs, mu = instruction.config.local_epochs, instruction.config.proximal_mu
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
        party, epochs = self.party, instruction.config.solo_epochs
        model = self._received(instruction, "final")
        alone = party.model(seed=instruction.seed("model")).train_epochs(party.X, party.y, epochs=epochs)
        return Finished(model=model, solo=party.metrics(alone), alone=alone)

    def _received(self, instruction: Instruction, *stream: str | int) -> Classifier:
        return self.party.net_with(list(instruction.arrays.values()), seed=instruction.seed(*stream))

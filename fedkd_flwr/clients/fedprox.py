"""FedProx at a party: train the server's net on its rows, held near where it started, and return the weights.

The other half, and the whole round, is `fedkd_flwr.strategies.fedprox`.
"""

from __future__ import annotations

from fedkd_flwr.algorithms.fedprox import CARD
from fedkd_flwr.clients.party import Instruction
from fedkd_flwr.clients.weight_exchange import WeightClient
from fedkd_flwr.models.classifier import Classifier

__all__ = ["FedProxClient"]


class FedProxClient(WeightClient):
    """Sends the weights of a net held near the server's (FedProx, Algorithm 2). Parameters as in `WeightClient`."""

    card = CARD

    def train(self, model: Classifier, instruction: Instruction) -> None:
        """Train the net with the proximal term."""
        config = instruction.config
        model.proximal_epochs(self.party.X, self.party.y, epochs=config.local_epochs, mu=config.proximal_mu)

"""FedProx, by Flower's own strategy.

Li et al., MLSys 2020: a party adds (mu / 2) ||w - w_t||^2 to its loss, and the server takes the mean of the weights by
numbers of rows. With mu = 0 this is FedAvg. The round is told in `fedkd_flwr.baselines.weight_exchange`.
"""

from __future__ import annotations

from flwr.serverapp.strategy import FedProx as FlowerFedProx

from fedkd_flwr.baselines.cards import FEDPROX as CARD
from fedkd_flwr.baselines.cards import FedProxConfig
from fedkd_flwr.baselines.weight_exchange import FlowerMean, WeightClient
from fedkd_flwr.clients.instruction import Instruction
from fedkd_flwr.models.classifier import Classifier

__all__ = ["FedProxClient", "FedProxExchange"]


class FedProxExchange(FlowerMean):
    """Flower's FedProx, written down round by round. Parameters as in `WeightExchange`."""

    card = CARD
    config: FedProxConfig

    def flower_strategy(self) -> FlowerFedProx:
        """Return Flower's FedProx, which tells parties mu once more."""
        return FlowerFedProx(min_train_nodes=1, min_available_nodes=1, proximal_mu=self.config.proximal_mu)


class FedProxClient(WeightClient):
    """Sends the weights of a net held near the server's (FedProx, Algorithm 2). Parameters as in `WeightClient`."""

    card = CARD

    def train(self, model: Classifier, instruction: Instruction) -> None:
        """Train the net with the proximal term."""
        config = instruction.config
        model.train_epochs(self.party.X, self.party.y, epochs=config.local_epochs, mu=config.proximal_mu)

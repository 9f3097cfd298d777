"""FedProx, by Flower's own strategy.

Li et al., "Federated Optimization in Heterogeneous Networks", MLSys 2020. The whole round t:

    server   weights w_t, mu                                                     -> a group of parties
    party    epochs on its rows, with (mu / 2) ||w - w_t||^2 in the loss -> weights and number of rows -> the server
    server   mean of the weights by numbers of rows -> w_t+1

With mu = 0 this is FedAvg. What stands around `flwr.serverapp.strategy.FedProx` is
`fedkd_flwr.baselines.weight_exchange`. Weights leave the parties without noise, and there is no claim.
"""

from __future__ import annotations

from flwr.serverapp.strategy import FedProx as FlowerFedProx

from fedkd_flwr.baselines.cards import FEDPROX as CARD
from fedkd_flwr.baselines.cards import FedProxConfig
from fedkd_flwr.baselines.weight_exchange import FlowerMean, WeightClient
from fedkd_flwr.clients.instruction import Instruction
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.strategies.loop import ExchangeStrategy

__all__ = ["FedProx", "FedProxClient", "FedProxExchange"]


class FedProxExchange(FlowerMean):
    """Flower's FedProx, written down round by round. Parameters as in `WeightExchange`."""

    card = CARD
    config: FedProxConfig

    def flower_strategy(self) -> FlowerFedProx:
        """Return Flower's FedProx, which tells parties mu once more."""
        return FlowerFedProx(min_train_nodes=1, min_available_nodes=1, proximal_mu=self.config.proximal_mu)


class FedProx(ExchangeStrategy):
    """FedProx, written down round by round. Takes ``global_model`` and ``test`` besides, as `WeightExchange`."""

    exchange_type = FedProxExchange
    exchange: FedProxExchange


class FedProxClient(WeightClient):
    """Sends the weights of a net held near the server's (FedProx, Algorithm 2). Parameters as in `WeightClient`."""

    card = CARD

    def train(self, model: Classifier, instruction: Instruction) -> None:
        """Train the net with the proximal term."""
        config = instruction.config
        model.train_epochs(self.party.X, self.party.y, epochs=config.local_epochs, mu=config.proximal_mu)

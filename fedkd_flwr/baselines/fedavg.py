"""FedAvg, by Flower's own strategy.

McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data", AISTATS 2017. The round is
told in `fedkd_flwr.baselines.weight_exchange`: the server's part is `flwr.serverapp.strategy.FedAvg`, the mean of the
parties' weights by numbers of rows.

Weights leave the parties without noise, and there is no claim.
"""

from __future__ import annotations

from fedkd_flwr.baselines.cards import FEDAVG as CARD
from fedkd_flwr.baselines.weight_exchange import FlowerMean, WeightClient

__all__ = ["FedAvgClient", "FedAvgExchange"]


class FedAvgExchange(FlowerMean):
    """Flower's FedAvg, written down round by round. Parameters as in `WeightExchange`."""

    card = CARD


class FedAvgClient(WeightClient):
    """Sends the weights of the server's net after some passes over its rows. Parameters as in `WeightClient`."""

    card = CARD

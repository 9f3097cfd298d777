"""FedAvg's settings and its card. Flower's own strategy takes the mean of the weights.

McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data", AISTATS 2017. The whole
round is told in `fedkd_flwr.strategies.weight_exchange`.
"""

from __future__ import annotations

from fedkd_flwr.algorithms.card import Card
from fedkd_flwr.algorithms.exchange import LocalEpochsConfig, epochs_on_pooled

__all__ = ["CARD", "FedAvgConfig"]


class FedAvgConfig(LocalEpochsConfig):
    """Settings of FedAvg."""


CARD = Card(
    name="fedavg",
    title="FedAvg",
    paper='McMahan et al., "Communication-Efficient Learning of Deep Networks", AISTATS 2017',
    config=FedAvgConfig,
    strategy="fedkd_flwr.strategies.fedavg:FedAvg",
    client="fedkd_flwr.clients.fedavg:FedAvgClient",
    sends="weights",
    default_rounds=10,
    samples=True,
    train_pooled=epochs_on_pooled,
)

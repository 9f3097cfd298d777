"""FedProx's settings and its card. Flower's own strategy takes the mean of the weights.

Li et al., "Federated Optimization in Heterogeneous Networks", MLSys 2020. The whole round is told in
`fedkd_flwr.strategies.fedprox`.
"""

from __future__ import annotations

from typing import ClassVar

from fedkd_flwr.algorithms.card import Card, setting
from fedkd_flwr.algorithms.exchange import LocalEpochsConfig, epochs_on_pooled

__all__ = ["CARD", "FedProxConfig"]


class FedProxConfig(LocalEpochsConfig):
    """Settings of FedProx."""

    section: ClassVar[str] = "fedprox"

    proximal_mu: float = setting(0.1, ge=0, told=True)
    """Weight of the term that holds a party's net near the server's; 0 is FedAvg."""


CARD = Card(
    name="fedprox",
    title="FedProx",
    paper='Li et al., "Federated Optimization in Heterogeneous Networks", MLSys 2020',
    config=FedProxConfig,
    strategy="fedkd_flwr.strategies.fedprox:FedProx",
    client="fedkd_flwr.clients.fedprox:FedProxClient",
    sends="weights",
    default_rounds=10,
    samples=True,
    train_pooled=epochs_on_pooled,
)

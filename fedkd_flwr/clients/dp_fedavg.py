"""DP-FedAvg at a party: FedAvg's part. What is clipped, and made private, is so at the server.

The other half, and the whole round, is `fedkd_flwr.strategies.dp_fedavg`.
"""

from __future__ import annotations

from fedkd_flwr.algorithms.dp_fedavg import CARD
from fedkd_flwr.clients.weight_exchange import WeightClient

__all__ = ["DPFedAvgClient"]


class DPFedAvgClient(WeightClient):
    """Sends the weights of the server's net after some passes over its rows. Parameters as in `WeightClient`."""

    card = CARD

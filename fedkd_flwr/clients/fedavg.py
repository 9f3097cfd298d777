"""FedAvg at a party: train the server's net on its rows, and return the weights.

The other half, and the whole round, is `fedkd_flwr.strategies.fedavg`.
"""

from __future__ import annotations

from fedkd_flwr.algorithms.fedavg import CARD
from fedkd_flwr.clients.weight_exchange import WeightClient

__all__ = ["FedAvgClient"]


class FedAvgClient(WeightClient):
    """Sends the weights of the server's net after some passes over its rows. Parameters as in `WeightClient`."""

    card = CARD

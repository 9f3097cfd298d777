"""FedDF at a party: FedAvg's part. What is distilled is distilled at the server.

The other half, and the whole round, is `fedkd_flwr.strategies.feddf`.
"""

from __future__ import annotations

from fedkd_flwr.algorithms.feddf import CARD
from fedkd_flwr.clients.weight_exchange import WeightClient

__all__ = ["FedDFClient"]


class FedDFClient(WeightClient):
    """Sends the weights of the server's net after some passes over its rows. Parameters as in `WeightClient`."""

    card = CARD

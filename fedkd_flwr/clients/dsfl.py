"""DS-FL at a party: FedMD's part, on averages that the server has sharpened.

The other half, and the whole round, is `fedkd_flwr.strategies.dsfl`.
"""

from __future__ import annotations

from fedkd_flwr.algorithms.dsfl import CARD
from fedkd_flwr.clients.fedmd import DigestClient

__all__ = ["DSFLClient"]


class DSFLClient(DigestClient):
    """Sends probabilities or labels of some public rows every round. Parameters as in `ScoreClient`."""

    card = CARD

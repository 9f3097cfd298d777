"""FedMD at a party: digest the averages of the last public rows, revisit its own rows, answer the next public rows.

The other half, and the whole round, is `fedkd_flwr.strategies.fedmd`.
"""

from __future__ import annotations

from fedkd_flwr.algorithms.fedmd import CARD
from fedkd_flwr.clients.score_exchange import DigestClient

__all__ = ["FedMDClient"]


class FedMDClient(DigestClient):
    """Sends logits, probabilities or labels of some public rows every round (FedMD-NFDP, Algorithm 1).

    Parameters as in `ScoreClient`.
    """

    card = CARD

"""FedMD's settings and its card. The average is `score_exchange`'s.

Li and Wang, 2019; Sun and Lyu, IJCAI 2021, Algorithm 1. The whole round is told in `fedkd_flwr.strategies.fedmd`.
"""

from __future__ import annotations

from typing import ClassVar

from fedkd_flwr.algorithms.card import Card
from fedkd_flwr.algorithms.score_exchange import DigestConfig, passes_on_pooled

__all__ = ["CARD", "FedMDConfig"]


class FedMDConfig(DigestConfig):
    """Settings of FedMD."""

    section: ClassVar[str] = "fedmd"


CARD = Card(
    name="fedmd",
    title="FedMD",
    paper='Sun and Lyu, "Federated model distillation with noise-free differential privacy", IJCAI 2021',
    config=FedMDConfig,
    strategy="fedkd_flwr.strategies.fedmd:FedMD",
    client="fedkd_flwr.clients.fedmd:FedMDClient",
    sends="scores",
    default_rounds=20,
    noise=("party",),
    train_pooled=passes_on_pooled,
)

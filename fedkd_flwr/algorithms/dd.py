"""Distributed distillation's settings and its card. The average is `score_exchange`'s.

Bistritz, Mann and Bambos, NeurIPS 2020. The whole round is told in `fedkd_flwr.strategies.dd`.
"""

from __future__ import annotations

from typing import ClassVar

from fedkd_flwr.algorithms.card import PAPER, Card, setting
from fedkd_flwr.algorithms.exchange import StepsConfig, steps_on_pooled
from fedkd_flwr.algorithms.score_exchange import ScoreExchangeConfig

__all__ = ["CARD", "DDConfig"]


class DDConfig(ScoreExchangeConfig, StepsConfig):
    """Settings of distributed distillation."""

    section: ClassVar[str] = "dd"
    usual_loss: ClassVar[str] = "mse-probs"

    distillation_weight: float = setting(1.0, ge=0, told=True, section=PAPER)
    """DD: weight of the distance to the averages in a party's loss, beside 1 for its own labels."""


CARD = Card(
    name="dd",
    title="Distributed distillation",
    paper='Bistritz, Mann and Bambos, "Distributed distillation for on-device learning", NeurIPS 2020',
    config=DDConfig,
    strategy="fedkd_flwr.strategies.dd:DD",
    client="fedkd_flwr.clients.dd:DDClient",
    sends="scores",
    default_rounds=10,
    noise=("party",),
    train_pooled=steps_on_pooled,
)

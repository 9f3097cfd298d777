"""DS-FL: the mean of the parties' probabilities, made more certain (entropy reduction, ERA); and its card.

Itahara, Nishio, Koda, Morikura, Yamamoto, "Distillation-Based Semi-Supervised Federated Learning for
Communication-Efficient Collaborative Training with Non-IID Private Data", IEEE Transactions on Mobile Computing, 2021
(arXiv 2008.06180), equation (11). The whole round is told in `fedkd_flwr.strategies.dsfl`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.algorithms import score_exchange
from fedkd_flwr.algorithms.card import PAPER, Card, setting
from fedkd_flwr.algorithms.score_exchange import DigestConfig, ScoreFacts, passes_on_pooled

__all__ = ["CARD", "DSFLConfig", "aggregate", "entropy_reduction"]


class DSFLConfig(DigestConfig):
    """Settings of DS-FL."""

    section: ClassVar[str] = "dsfl"
    sharpens: ClassVar[bool] = True

    temperature: float = setting(0.1, gt=0, section=PAPER)
    """DS-FL's T: the averages are the softmax of the mean probabilities over T. Lower is more certain."""


def entropy_reduction(probs: NDArray[np.floating[Any]], temperature: float) -> NDArray[np.float64]:
    """Return ``softmax(probs / temperature)`` of each row, float64; the temperature is > 0."""
    from scipy.special import softmax

    return np.asarray(softmax(np.asarray(probs, dtype=np.float64) / temperature, axis=1))


def aggregate(
    answers: Sequence[NDArray[Any]], *, config: DSFLConfig, num_classes: int, rng: np.random.Generator | None = None
) -> tuple[NDArray[np.float64], ScoreFacts]:
    """Return the sharpened average of the parties' answers. Parameters and result as `score_exchange.aggregate`'s.

    >>> answers = [np.array(labels, np.int16) for labels in ([0, 1], [0, 0], [0, 1], [0, 1])]
    >>> config = DSFLConfig(answer_form="argmax", temperature=0.5)
    >>> aggregate(answers, config=config, num_classes=2)[0].round(3).tolist()
    [[0.881, 0.119], [0.269, 0.731]]
    """
    mean, facts = score_exchange.aggregate(answers, config=config, num_classes=num_classes)
    return entropy_reduction(mean, config.temperature), facts


CARD = Card(
    name="dsfl",
    title="DS-FL",
    paper='Itahara et al., "Distillation-Based Semi-Supervised Federated Learning", IEEE TMC, 2021',
    config=DSFLConfig,
    strategy="fedkd_flwr.strategies.dsfl:DSFL",
    client="fedkd_flwr.clients.dsfl:DSFLClient",
    sends="scores",
    default_rounds=20,
    noise=("party",),
    train_pooled=passes_on_pooled,
)

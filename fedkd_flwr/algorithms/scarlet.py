"""SCARLET: a sharpened mean of the parties' probabilities that is kept for some rounds, so that fewer rows are asked.

Azuma, Asano, Nagayama, Yamasaki, Aizawa, "Soft-Label Caching and Sharpening for Communication-Efficient Federated
Distillation", IEEE Transactions on Mobile Computing, 2026: enhanced entropy reduction (section on enhanced ERA) and the
cache with its three signals. The whole round is told in `fedkd_flwr.strategies.scarlet`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.algorithms import score_exchange
from fedkd_flwr.algorithms.card import PAPER, Card, setting
from fedkd_flwr.algorithms.score_exchange import DigestConfig, ScoreFacts, passes_on_pooled

__all__ = ["CACHED", "CARD", "EXPIRED", "NEWLY_CACHED", "Cache", "ScarletConfig"]
__all__ += ["aggregate", "enhanced_entropy_reduction"]

NEWLY_CACHED, CACHED, EXPIRED = 0, 1, 2
"""What a party is told of each row: its average comes along and is to be kept; it is kept already; the kept one is too
old, and the one that comes along takes its place."""


class ScarletConfig(DigestConfig):
    """Settings of SCARLET."""

    section: ClassVar[str] = "scarlet"
    sharpens: ClassVar[bool] = True

    exponent: float = setting(1.5, gt=0, section=PAPER)
    """SCARLET: the averages are the mean probabilities to this power, divided by their sum. 1: the mean itself."""
    cache_rounds: int = setting(5, ge=1)
    """SCARLET's D: rounds for which a row's average is used before parties are asked again. 1: no cache."""


def enhanced_entropy_reduction(probs: NDArray[np.floating[Any]], exponent: float) -> NDArray[np.float64]:
    """Return ``probs ** exponent``, each row divided by its sum, float64: above 1 it makes rows more certain."""
    # relative to the largest, so that no power of a small number is lost
    powers = (np.asarray(probs, dtype=np.float64) / probs.max(axis=1, keepdims=True)) ** exponent
    sharpened: NDArray[np.float64] = powers / powers.sum(axis=1, keepdims=True)
    return sharpened


def aggregate(
    answers: Sequence[NDArray[Any]], *, config: ScarletConfig, num_classes: int, rng: np.random.Generator | None = None
) -> tuple[NDArray[np.float64], ScoreFacts]:
    """Return the sharpened average of the parties' answers. Parameters and result as `score_exchange.aggregate`'s.

    Three of four parties say class 1: 0.75 and 0.25, squared, are 9 to 1.
    """
    mean, facts = score_exchange.aggregate(answers, config=config, num_classes=num_classes)
    return enhanced_entropy_reduction(mean, config.exponent), facts


@dataclass(frozen=True, kw_only=True)
class Cache:
    """The averages of public rows and the rounds they are of; every change gives a new one.

    Rows 0 and 1 are asked in round 1; in round 2 only row 2 is new, and with D = 2 row 0 is too old in round 3:

    >>> cache = Cache.empty(3, 2).stored(np.array([0, 1]), np.full((2, 2), 0.5), server_round=1)
    >>> cache.stale(np.array([0, 2]), server_round=2, cache_rounds=2).tolist()
    [2]
    >>> cache.stale(np.array([0]), server_round=3, cache_rounds=2).tolist()
    [0]
    """

    averages: NDArray[np.float32]  # (num_public, num_classes): the last average of each row
    since: NDArray[np.int64]  # (num_public,): the round it is of; 0 where there is none

    @classmethod
    def empty(cls, num_public: int, num_classes: int) -> Self:
        """Return a cache without averages."""
        return cls(
            averages=np.zeros((num_public, num_classes), dtype=np.float32), since=np.zeros(num_public, dtype=np.int64)
        )

    def stale(self, rows: NDArray[np.int64], *, server_round: int, cache_rounds: int) -> NDArray[np.int64]:
        """Return which of these rows must be asked: those without an average, or with one of D rounds ago or more.

        Where that is none of them, the oldest one is asked: a round that asks for nothing cannot be answered.
        """
        since = self.since[rows]
        old = (since == 0) | (server_round - since >= cache_rounds)
        return rows[old] if old.any() else rows[[int(since.argmin())]]

    def signals(self, rows: NDArray[np.int64], asked: NDArray[np.int64]) -> NDArray[np.int16]:
        """Return what parties are told of each of ``rows`` when ``asked`` of them are answered, before it is stored."""
        is_asked = np.isin(rows, asked)
        return np.where(is_asked, np.where(self.since[rows] > 0, EXPIRED, NEWLY_CACHED), CACHED).astype(np.int16)

    def stored(self, rows: NDArray[np.int64], averages: NDArray[np.floating[Any]], *, server_round: int) -> Self:
        """Return the cache with new averages, of shape (num_rows, num_classes), for some rows."""
        kept, since = self.averages.copy(), self.since.copy()
        kept[rows], since[rows] = averages, server_round
        return replace(self, averages=kept, since=since)

    @property
    def rows(self) -> NDArray[np.int64]:
        """The rows that have an average, ascending."""
        return np.flatnonzero(self.since)


CARD = Card(
    name="scarlet",
    title="SCARLET",
    paper='Azuma et al., "Soft-Label Caching and Sharpening for Federated Distillation", IEEE TMC, 2026',
    config=ScarletConfig,
    strategy="fedkd_flwr.strategies.scarlet:SCARLET",
    client="fedkd_flwr.clients.scarlet:SCARLETClient",
    sends="scores",
    default_rounds=20,
    noise=("party",),
    train_pooled=passes_on_pooled,
)

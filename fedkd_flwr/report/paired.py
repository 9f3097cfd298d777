"""Differences between paired values, and whether they are more than noise."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["LEAST_PAIRS", "LEVEL", "Paired", "paired"]

LEVEL = 0.95  # of confidence, for all comparisons that are made together
LEAST_PAIRS = 3  # of fewer pairs no difference is clear
_DUST = 1e-12  # differences that lie closer together are equal but for rounding


@dataclass(frozen=True, kw_only=True)
class Paired:
    """The mean of ``n`` differences, its standard error, and half its confidence interval.

    Error and half are infinite, which says that they are not known, of one pair and of equal differences. An accuracy
    is a whole number of rows, so a few differences are often equal by chance, and their spread of 0 is no certainty.
    Both are 0 where each difference is 0.
    """

    mean: float
    error: float
    half: float
    n: int

    @property
    def known(self) -> bool:
        """Whether the differences vary, so that their interval is known."""
        return 0 < self.half < math.inf

    @property
    def same(self) -> bool:
        """Whether both sides have the same value in each pair."""
        return self.half == 0

    @property
    def clear(self) -> bool:
        """Whether the difference is more than noise; never with fewer than `LEAST_PAIRS` pairs."""
        return self.n >= LEAST_PAIRS and abs(self.mean) > self.half

    def verdict(self, pair: str = "pair") -> str:
        """Return what can be said of the difference, in a few words; ``pair`` is what a pair is called.

        >>> paired([0.6, 0.7, 0.8], [0.5, 0.5, 0.5]).verdict()
        'within noise'
        >>> paired([0.6, 0.7], [0.5, 0.6]).verdict("seed")
        'equal in each seed, so its noise is not known'
        """
        if self.n < 2:
            return f"one {pair} says nothing about noise"
        if self.same:
            return f"the same in each {pair}"
        if not self.known:
            return f"equal in each {pair}, so its noise is not known"
        if self.n < LEAST_PAIRS:
            return f"{self.n} {pair}s are too few to tell it from noise"
        return "more than noise" if self.clear else "within noise"


def paired(first: Sequence[float], second: Sequence[float], *, comparisons: int = 1) -> Paired:
    """Return by how much ``first`` is above ``second``, pair by pair, of 1 pair or more.

    The interval is Student's t at `LEVEL`, for so many comparisons together (Bonferroni).

    >>> found = paired([0.6, 0.7, 0.8], [0.5, 0.5, 0.5])
    >>> f"{found.mean:.1f} {found.error:.4f} {found.half:.4f} {found.clear}"
    '0.2 0.0577 0.2484 False'
    """
    gaps = [a - b for a, b in zip(first, second, strict=True)]
    if max(gaps) - min(gaps) < _DUST:  # one pair, or equal differences
        same = len(gaps) > 1 and max(map(abs, gaps)) < _DUST
        width = 0.0 if same else math.inf
        return Paired(mean=0.0 if same else statistics.fmean(gaps), error=width, half=width, n=len(gaps))
    from scipy import stats

    error = statistics.stdev(gaps) / math.sqrt(len(gaps))
    t = float(stats.t.isf((1 - LEVEL) / 2 / comparisons, len(gaps) - 1))
    return Paired(mean=statistics.fmean(gaps), error=error, half=t * error, n=len(gaps))

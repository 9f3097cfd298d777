"""A difference seen in pairs, and whether it is more than noise."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["LEVEL", "Paired", "paired"]

LEVEL = 0.95  # of confidence, for all comparisons that are made together


@dataclass(frozen=True, kw_only=True)
class Paired:
    """The mean of ``n`` differences, its standard error, and half its confidence interval; infinite of one pair."""

    mean: float
    error: float
    half: float
    n: int

    @property
    def clear(self) -> bool:
        """Whether the difference is more than noise."""
        return abs(self.mean) > self.half


def paired(first: Sequence[float], second: Sequence[float], *, comparisons: int = 1) -> Paired:
    """Return by how much ``first`` is above ``second``, pair by pair.

    The interval is Student's t at `LEVEL`, for so many comparisons together (Bonferroni).

    Parameters
    ----------
    first, second : sequence of float
        Two values of each pair, 1 pair or more.
    comparisons : int
        How many differences are looked at together.

    Examples
    --------
    >>> found = paired([0.6, 0.7, 0.8], [0.5, 0.5, 0.5])
    >>> f"{found.mean:.1f} {found.error:.4f} {found.half:.4f} {found.clear}"
    '0.2 0.0577 0.2484 False'
    """
    gaps = [a - b for a, b in zip(first, second, strict=True)]
    if len(gaps) < 2:
        return Paired(mean=gaps[0], error=math.inf, half=math.inf, n=1)
    from scipy import stats

    error = statistics.stdev(gaps) / math.sqrt(len(gaps))
    t = float(stats.t.isf((1 - LEVEL) / 2 / comparisons, len(gaps) - 1))
    return Paired(mean=statistics.fmean(gaps), error=error, half=t * error, n=len(gaps))

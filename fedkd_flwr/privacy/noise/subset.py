"""Learning from a random subset of the rows only: "noise-free" differential privacy (NFDP)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.checks import check_choice
from fedkd_flwr.errors import ConfigError, explain
from fedkd_flwr.privacy import dp
from fedkd_flwr.privacy.cost.events import ApproximateEvent
from fedkd_flwr.privacy.noise import sampling
from fedkd_flwr.privacy.noise.checks import set_whole
from fedkd_flwr.privacy.noise.sampling import Rng

__all__ = ["Subsampling"]


@dataclass(frozen=True, kw_only=True)
class Subsampling:
    """Learn from a random subset of the rows only: "noise-free" differential privacy (NFDP).

    Sun and Lyu, "Federated model distillation with noise-free differential privacy" (IJCAI 2021), Theorem 1 (without
    replacement) and Theorem 2 (with). The printed epsilons there are 2.303 times too small (log10).

    Formal guarantees
    -----------------
    For one row added or removed: all that is ever computed from the one subset is (epsilon, delta)-DP.

    | case | what holds |
    |---|---|
    | delta against 1/n | never below it: with that probability a given row is drawn, and simply exposed |
    | a row is removed, not added | covered: epsilon is that of n to n + 1, the rest of n - 1 to n lies within delta |
    | the subset is drawn again, or its seed is known | nothing holds: draw once per data set, keep it for ever |
    | something is computed from other rows (scores, SOLO) | not covered |
    | k = n without replacement | delta = 1: no privacy |
    | n itself is private | these numbers tell it: claim those of a lower bound of n, `claimed` |

    Examples
    --------
    >>> round(Subsampling(num_rows=2880, subset_rows=2880, replacement=True).epsilon, 4)
    0.9998
    >>> chosen = Subsampling(num_rows=2880, subset_rows=300, replacement=False)
    >>> round(chosen.epsilon, 3), round(chosen.delta, 3), chosen.draw().shape
    (0.11, 0.104, (300,))
    """

    num_rows: int  # the party's rows n, >= 1
    subset_rows: int  # rows drawn k, >= 1; without replacement at most n
    replacement: bool  # whether a row may be drawn more than once

    def __post_init__(self) -> None:
        check_choice("replacement", self.replacement, (True, False))
        set_whole(self, "num_rows", 1)
        set_whole(self, "subset_rows", 1)
        if not self.replacement and not self.subset_rows <= self.num_rows:
            way_out = "Draw fewer rows, or draw with replacement."
            raise ConfigError(explain("subset_rows", f"be <= num_rows ({self.num_rows})", self.subset_rows, way_out))

    @classmethod
    def claimed(cls, *, rows_at_least: int, subset_rows: int, replacement: bool) -> Subsampling:
        """Return the draw whose numbers hold for a party that is known to hold ``rows_at_least`` rows (0: unknown).

        The true number n of rows is private, so epsilon and delta must not depend on it. They fall with n, so those of
        a lower bound N hold for every n >= N. A party with fewer rows draws from N slots, some of which are empty: to
        add or remove a record fills or empties a slot, which shows only if it is drawn, with probability at most delta.
        Where nothing is known, N is ``subset_rows``.
        """
        least = rows_at_least if replacement and rows_at_least else max(rows_at_least, subset_rows)
        return cls(num_rows=least, subset_rows=subset_rows, replacement=replacement)

    @property
    def words(self) -> str:
        """The mechanism and its parameters, for a claim."""
        how = "with" if self.replacement else "without"
        return f"random subset of {self.subset_rows} of {self.num_rows} rows, {how} replacement (NFDP)"

    @property
    def epsilon(self) -> float:
        """``k ln((n+1)/n)`` with replacement, ``ln((n+1)/(n+1-k))`` without."""
        if self.replacement:
            return self.subset_rows * math.log1p(1 / self.num_rows)
        return -math.log1p(-self.subset_rows / (self.num_rows + 1))

    @property
    def delta(self) -> float:
        """The chance that a given row is drawn: ``1 - ((n-1)/n)^k`` with replacement, ``k/n`` without."""
        if not self.replacement:
            return self.subset_rows / self.num_rows
        return 1.0 if self.num_rows == 1 else -math.expm1(self.subset_rows * math.log1p(-1 / self.num_rows))

    def draw(self, *, rng: Rng = None) -> NDArray[np.int64]:
        """Return the drawn row numbers: (subset_rows,) int64, ascending, each within 0..num_rows-1."""
        return sampling.subset(self.num_rows, self.subset_rows, replacement=self.replacement, rng=rng)

    def dp_event(self) -> dp.DpEvent:
        """Describe the one draw: an (epsilon, delta) statement, nothing private where delta is 1."""
        if not self.delta < 1:
            return dp.NonPrivateDpEvent()
        return ApproximateEvent(epsilon=self.epsilon, delta=self.delta)

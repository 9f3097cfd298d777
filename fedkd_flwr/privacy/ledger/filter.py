r"""What a budget still covers where each request is chosen after the answers to earlier ones: a proven privacy filter.

Tight composition speaks of mechanisms that are fixed beforehand. A server that sets the noise and the number of later
releases by what it has seen is not bound by it. A *filter* is a rule for stopping that holds against such a server.

Formal guarantees
-----------------
Everything that `spent` covers within a budget (epsilon, delta) is (epsilon, delta)-DP together, however a server
chooses the next release from the answers so far. One of two filters decides, and which one it is follows from the very
first release of the row, when nothing has been answered from it.

| the first release | the filter |
|---|---|
| states no delta of its own (all noise) | continue while the plain sum *or* the Renyi sum is within the budget |
| states one (NFDP's subset) | add epsilons and deltas: Rogers et al. 2016, Section 5, basic composition |

*The Renyi sum.* Feldman and Zrnic 2021 ("Individual privacy accounting via a Renyi filter", Theorem 3.1): if release k
is (alpha, rho_k)-Renyi-DP given all answers before it, alpha is fixed, and the sum of rho_k never exceeds B, then it is
(alpha, B)-Renyi-DP together, although each rho_k may depend on earlier answers. By Canonne, Kamath and Steinke 2020,
Proposition 12, it is then (epsilon, delta)-DP for

    epsilon = B + ln(1 - 1/alpha) - (ln delta + ln alpha) / (alpha - 1).

The order alpha is a function of the budget alone (`order`): the one that would let most Gaussian noise pass.

*Either of two.* The plain sum of pure epsilons is a filter with delta 0 (Rogers et al. 2016). Run each of the two until
it stops: M_1 and M_2 are (epsilon, 0)- and (epsilon, delta)-DP. The ledger runs until both have stopped. Split its
transcripts into those in which filter 1 stopped last and the others. On each part the transcript is that of M_1 or of
M_2, so the probability of any set S is at most e^epsilon P'(S_1) + e^epsilon P'(S_2) + delta: the deltas add, and here
one of them is 0.

| case | what holds |
|---|---|
| the owner chooses another budget without looking at answers | the new one's promise, for everything so far too |
| the owner raises it after looking at answers | the largest epsilon; the deltas of all budgets that there were, added |
| a release that states a delta, after one that states none | not covered: the filter counts it as infinite |
| Gaussian noise after a release that states a delta | not covered either: its pure epsilon is infinite |
| delta 0 | the plain sum alone |

The price against tight composition at delta 1e-5 (``benchmarks/ledger_filter.py --scan``): mostly at most 10 % more for
tight epsilons of 0.5 to 100, the worst 14 %; below that up to 24.3 %, because the sum of Renyi divergences of any one
order is loose for so little. It grows with delta. A release that states a delta costs what it states.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.privacy.cost.events import ApproximateEvent, pure_epsilon
from fedkd_flwr.privacy.ledger.entry import accounted
from fedkd_flwr.privacy.rounding import bound_text

__all__ = ["ROUNDING", "Cost", "cost_of", "order", "spent", "spent_text"]

ROUNDING = 1e-9
"""Sums of floats exceed their nominal value by less than this share of it: a budget of 1.0 covers twice 0.5."""

_BLOCK = 65_536
_TILTS = tuple(10 ** (k / 400) for k in range(-1200, 2001))


@lru_cache(maxsize=64)
def order(epsilon: float, delta: float) -> float:
    """Return the order alpha of a budget's filter, > 1: the one at which most Gaussian noise fits in; 0 for none.

    >>> round(order(1.0, 1e-5), 2), round(order(37.0, 1e-5), 2), order(1.0, 0.0)
    (17.79, 1.9, 0.0)
    """
    if not delta > 0:
        return 0.0
    tilts = np.array(_TILTS)
    precision = (tilts * epsilon + math.log(delta) - _log_share(tilts)) / (tilts * (1 + tilts))
    best = int(precision.argmax())
    return 1 + _TILTS[best] if precision[best] > 0 else 0.0


def _log_share(tilts: Any) -> Any:
    """Return ``ln max_x exp(-t x) (1 - exp(-x))``, the conversion's constant; t = alpha - 1."""
    return -(np.log1p(tilts) + tilts * np.log1p(1 / tilts))


@dataclass(frozen=True)
class Cost:
    """What some releases cost, under each filter."""

    plain: float = 0.0  # sum of pure epsilons; infinite for Gaussian noise
    moment: float = 0.0  # (alpha - 1) times the Renyi divergence of order alpha; infinite with a stated delta
    stated: float = 0.0  # sum of the deltas that releases state of their own

    def __mul__(self, times: int) -> Cost:
        return Cost(self.plain * times, self.moment * times, self.stated * times)

    @property
    def nothing(self) -> bool:
        """Whether nothing is spent."""
        return self == Cost()


def cost_of(events: Iterable[tuple[dict[str, Any], int]], alpha: float) -> Cost:
    """Return the cost of plain events under filters of order ``alpha`` (0: no Renyi filter)."""
    costs = [_cost(json.dumps(event, sort_keys=True), count, alpha) for event, count in events]
    return Cost(
        math.fsum(c.plain for c in costs), math.fsum(c.moment for c in costs), math.fsum(c.stated for c in costs)
    )


@lru_cache(maxsize=4096)
def _cost(event: str, count: int, alpha: float) -> Cost:
    account = accounted([(json.loads(event), count)])
    plain = math.fsum(uses * pure_epsilon(leaf) for leaf, uses in account.events)
    stated = math.fsum(uses * leaf.delta for leaf, uses in account.events if isinstance(leaf, ApproximateEvent))
    return Cost(plain, account.cumulant(alpha - 1) if alpha and not stated else math.inf, stated)


def spent(
    releases: Sequence[tuple[int, Cost]], patterns: NDArray[np.bool_], *, epsilon: float, delta: float
) -> NDArray[np.float64]:
    """Return what rows have spent of a budget, for each history, in epsilons: more than ``epsilon`` is refused.

    Infinite where the filter does not cover it. ``releases``, oldest first, say from which data set, a column of
    ``patterns``, and at what cost under ``order(epsilon, delta)``; ``patterns``, (num_histories, num_data_sets), in
    which data sets the rows of a history were.
    """
    width = patterns.shape[1]
    if not width:
        return np.zeros(len(patterns))
    sums = np.zeros((3, width))
    first, states = np.full(width, np.inf), np.zeros(width, dtype=bool)
    for number, (column, cost) in enumerate(releases):
        if cost.nothing:
            continue
        sums[:, column] += cost.plain, cost.moment, cost.stated
        if first[column] == np.inf:
            first[column], states[column] = number, cost.stated > 0
    alpha, result = order(epsilon, delta), np.zeros(len(patterns))
    for at in range(0, len(patterns), _BLOCK):
        block = patterns[at : at + _BLOCK]
        plain, moment, stated = (np.where(block, row, 0.0).sum(axis=1) for row in sums)
        earliest = np.where(block, first, np.inf)
        adds = states[earliest.argmin(axis=1)]
        together = np.where(adds & (stated <= delta * (1 + ROUNDING)) | (stated == 0), plain, np.inf)
        if alpha:
            tilt = alpha - 1
            renyi = (moment + _log_share(tilt) - math.log(delta)) / tilt
            together = np.where(adds, together, np.minimum(together, np.maximum(renyi, 0.0)))
        result[at : at + _BLOCK] = np.where(earliest.min(axis=1) < np.inf, together, 0.0)
    return result


def spent_text(epsilon: float, digits: int = 6) -> str:
    """Return what was spent with so many figures: the smallest such budget that covers it.

    It is rounded up, but for the share `ROUNDING` by which a sum may pass its budget: three labels of epsilon 1 sum up
    to 3.0000000000000053.

    >>> spent_text(3.0000000000000053), spent_text(1.0000049), spent_text(math.inf)
    ('3', '1.00001', 'infinite')
    """
    return bound_text(epsilon / (1 + ROUNDING), digits) if epsilon < math.inf else "infinite"

"""What noisy-max answers cost given the votes that were cast: PATE's data-dependent bounds.

Where the voters agree, one voter changes the released label with tiny probability, and the answer costs less than the
noise alone guarantees. Two steps: ``*_log_q`` bounds from the votes how probable it is that the released label is not
the plurality (q), and a theorem turns q into a Renyi divergence, used only inside its range; elsewhere, and wherever
smaller, the data-independent value stands. Divergences of queries add up; dp-accounting turns the sum into epsilon.

Formal guarantees
-----------------
Unit and neighbouring relation: one unit (a party, a record) is replaced, which moves at most the mechanism's ``votes``
from class to class on every query, or takes them away. For *these* votes D and every neighbour D', everything released
together satisfies ``Pr[M(D) in S] <= e^epsilon * Pr[M(D') in S] + delta`` for every set S of outcomes. It says nothing
about other votes nor about D' against D, so it is **not differential privacy**, and epsilon itself is computed from
private votes: it must not be published, nor steer budgets, refusals or calibration. The queries must be chosen without
looking at the votes. Not offered: PATE 2017's smoothed sensitivity, since its code yields 0 where it cannot compute.

==================================  ================================================================================
edge case                           value
==================================  ================================================================================
no query                            0
tie, no votes, q outside the range  the data-independent value
q = 0                               0
rounded noise                       q is that of continuous noise; a grid of h votes acts as if each gap shrank by
                                    at most h (2^-20: q grows by a factor below 1 + 1e-6 * gamma); to include it,
                                    pass counts whose largest entry is lowered by h
==================================  ================================================================================

Is the smaller of the two values a bound? Both theorems' values increase with q inside their range (that is what the
range is for), so any upper bound on q inside it gives a valid bound, and so does the minimum of valid bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr, logsumexp

from fedkd_flwr.privacy import dp
from fedkd_flwr.privacy.noise.checks import check_votes
from fedkd_flwr.privacy.noise.votes import GaussianMax, LaplaceMax

__all__ = ["data_dependent_epsilon", "gaussian_log_q", "gaussian_rdp", "laplace_log_q", "laplace_rdp"]

Floats = NDArray[np.float64]

_MOMENTS = np.concatenate([np.geomspace(0.05, 0.9, 12), np.arange(1.0, 33.0), np.geomspace(36.0, 4096.0, 20)])
_FAR = 1e9  # Gaps beyond this many units of noise are cut to it: q only grows, and no square overflows.
_EDGE = 1e-6  # Margin around the point where a theorem's denominator is 0; inside it use the data-independent value.
_ROWS = 8192  # Most rows of votes whose costs are held at once.


def data_dependent_epsilon(
    mechanism: Any, counts: NDArray[np.integer[Any]], delta: float, *, orders: ArrayLike = 1.0 + _MOMENTS
) -> float | None:
    """Return the data-dependent epsilon at ``delta`` > 0 of answering all queries; None where no bound is known.

    Not publishable: see the module's formal guarantees. ``counts``, (num_queries, num_classes) integers, are the true
    votes as the `LaplaceMax` or `GaussianMax` sees them; it bounds released *labels*, and not released noisy counts.
    Every Renyi order > 1 gives a bound, more of them a smaller one. The result is never above what the queries' pure
    epsilons add up to.

    >>> votes = np.array([[240, 5, 5]] * 100)
    >>> round(data_dependent_epsilon(LaplaceMax(gamma=0.05), votes, 1e-5), 3)
    0.143
    >>> round(data_dependent_epsilon(GaussianMax(sigma=40.0), votes, 1e-5), 3)
    0.223
    """
    votes, alphas, most = check_votes(counts) / getattr(mechanism, "counts_per_vote", 1), np.asarray(orders), math.inf
    if isinstance(mechanism, LaplaceMax):
        rdp = laplace_rdp(laplace_log_q(votes, mechanism.gamma), mechanism.gamma * mechanism.votes, alphas)
        most = mechanism.pure_epsilon * len(votes)
    elif isinstance(mechanism, GaussianMax):
        rdp = gaussian_rdp(gaussian_log_q(votes, mechanism.sigma), mechanism.sigma / mechanism.votes, alphas)
    else:
        return None
    return min(float(dp.rdp.compute_epsilon(alphas, rdp, delta)[0]), most)


def laplace_log_q(votes: ArrayLike, gamma: float) -> Floats:
    """Bound log Pr[released label is not the plurality] for noise Laplace(1/gamma) on each count (FedKT, Lemma 7).

    ``votes``, (num_queries, num_classes), are before any noise. The result, (num_queries,), is the union bound over the
    other classes, at most log(1 - 1/num_classes): the plurality is never less probable than another class.

    >>> np.exp(laplace_log_q([[10, 0], [5, 5]], 0.05)).round(4).tolist()  # (2 + 0.5) / (4 e^0.5), and a tie
    [0.3791, 0.5]
    """

    def log_tail(gaps: Floats) -> Floats:
        scaled = np.minimum(gamma * gaps, _FAR)
        return np.log((2.0 + scaled) / 4.0) - scaled

    return _log_q(votes, log_tail)


def gaussian_log_q(votes: ArrayLike, sigma: float) -> Floats:
    """Bound the same for noise N(0, sigma^2) (PATE 2018, Prop. 7): the sum of ``erfc(gap / (2 sigma)) / 2``."""
    return _log_q(votes, lambda gaps: log_ndtr(-np.minimum(gaps / (math.sqrt(2.0) * sigma), _FAR)))


def laplace_rdp(log_q: ArrayLike, gamma: float, orders: Floats) -> Floats:
    """Bound the Renyi divergences of noisy max with Laplace noise, summed over queries: one for each order.

    Per query and order a = l + 1 the l-th part of ``log((1-q) * ((1-q)/(1-e^(2g) q))^l + q e^(2gl))``, where
    q < 1/(e^(2g)+1), and never more than of ``2 g^2 l (l+1)`` (Lemma 5) or ``2 g l`` (the loss never exceeds 2g): Li et
    al. (FedKT, IJCAI 2021), Theorems 2 (s votes move), 3 (one) and 10 (t), after Papernot et al. (arXiv 1610.05755).
    ``gamma`` is the g there: the noise's inverse scale times the votes that move. The published PATE 2017 code uses the
    formula up to q = 1/2, where it can fall below the true value; we do not.
    """
    moments, pure = orders - 1.0, 2.0 * gamma
    with np.errstate(over="ignore"):
        independent = np.minimum(0.5 * pure * pure * moments * (moments + 1.0), pure * moments)

    def costs(rows: Floats) -> Floats:
        out = np.tile(independent, (len(rows), 1))
        # the theorem's range (beyond it the formula exceeds 2 g l anyway); the second condition matters at g > 6 only
        inside = (rows < -np.logaddexp(0.0, pure)) & (rows + pure < -_EDGE)
        log_q = rows[inside, None]
        # (1-q)/(1-e^(2g) q) = 1 + (e^(2g)-1) q / (1-e^(2g) q): no difference of nearly equal numbers
        ratio = np.log1p(np.exp(log_q + _log_expm1(pure) - np.log(-np.expm1(log_q + pure))))
        out[inside] = np.fmin(_log_mean(log_q, moments * ratio, pure * moments), independent)
        return out / moments

    return _summed(log_q, costs, len(orders))


def gaussian_rdp(log_q: ArrayLike, sigma: float, orders: Floats) -> Floats:
    """Bound the Renyi divergences of noisy max with Gaussian noise, summed over queries: one for each order.

    Papernot et al. (PATE 2018, arXiv 1802.08908), Theorem 6:
    ``log((1-q) A^(a-1) + q B^(a-1)) / (a-1)``, A = (1-q) / (1 - (q e^eps2)^((mu2-1)/mu2)), B = e^eps1 / q^(1/(mu1-1)),
    where the mechanism has the Renyi divergences eps1, eps2 at orders mu1, mu2. Any pair of orders will do; as
    Proposition 10 we take mu2 = sigma * sqrt(log 1/q) and mu1 = mu2 + 1. Range: mu2 > 1, a <= mu1, q e^eps2 < 1 and
    q <= e^((mu2-1) eps2) / (mu1/(mu1-1) * mu2/(mu2-1))^mu2; never more than ``a / sigma^2`` (Proposition 8). ``sigma``
    is the noise in units of the votes that move.
    """
    variance = np.float64(sigma) ** 2
    with np.errstate(over="ignore", divide="ignore"):
        independent = orders / variance

    def costs(rows: Floats) -> Floats:
        out = np.tile(independent, (len(rows), 1))
        out[np.isneginf(rows)] = 0.0
        mu2 = sigma * np.sqrt(-rows)
        eps2 = mu2 / variance
        # mu1 = mu2 + 1, so mu1/(mu1-1) = 1 + 1/mu2
        limit = (mu2 - 1.0) * eps2 - mu2 * (np.log1p(1.0 / mu2) + np.log1p(1.0 / (mu2 - 1.0)))
        inside = np.isfinite(rows) & (mu2 > 1.0 + _EDGE) & (rows + eps2 < 0.0) & (rows <= limit)
        log_q, mu2, eps2 = rows[inside, None], mu2[inside, None], eps2[inside, None]
        # A = (1-q)/(1-r), r = (q e^eps2)^(1-1/mu2) = q e^excess, so A = 1 + q (e^excess - 1)/(1-r)
        excess = eps2 * (1.0 - 1.0 / mu2) - log_q / mu2
        log_a = np.log1p(np.exp(log_q + _log_expm1(excess) - np.log(-np.expm1((log_q + eps2) * (1.0 - 1.0 / mu2)))))
        log_b = (mu2 + 1.0) / variance - log_q / mu2
        dependent = _log_mean(log_q, (orders - 1.0) * log_a, (orders - 1.0) * log_b) / (orders - 1.0)
        out[inside] = np.where(orders <= mu2 + 1.0, np.fmin(dependent, independent), independent)
        return out

    return _summed(log_q, costs, len(orders))


def _log_q(votes: ArrayLike, log_tail: Callable[[Floats], Floats]) -> Floats:
    """Add up, in log space, how probable each other class is to overtake the plurality."""
    counts = np.asarray(votes, dtype=np.float64)
    if not len(counts):
        return np.zeros(0)
    with np.errstate(over="ignore"):
        logs = log_tail(counts.max(axis=1, keepdims=True) - counts)
    logs[np.arange(len(counts)), counts.argmax(axis=1)] = -np.inf
    return np.asarray(np.minimum(logsumexp(logs, axis=1), math.log1p(-1.0 / counts.shape[1])))


def _summed(log_q: ArrayLike, costs: Callable[[Floats], Floats], num_orders: int) -> Floats:
    """Add up the costs of all queries: equal ones are computed once, and some at a time."""
    rows, repeats = np.unique(np.asarray(log_q, dtype=np.float64), return_counts=True)
    total = np.zeros(num_orders)
    with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
        for start in range(0, len(rows), _ROWS):
            part = slice(start, start + _ROWS)
            total += repeats[part].astype(np.float64) @ costs(rows[part])
    return total


def _log_mean(log_q: Floats, log_likely: Floats, log_other: Floats) -> Floats:
    """Return log((1-q) e^likely + q e^other) for exponents >= 0, precise also where it is nearly 0."""
    # Written as 1 + (1-q)(e^likely - 1) + q (e^other - 1), which adds positive terms only.
    likely = np.log1p(-np.exp(log_q)) + _log_expm1(log_likely)
    return np.asarray(np.logaddexp(0.0, np.logaddexp(likely, log_q + _log_expm1(log_other))))


def _log_expm1(x: Any) -> Any:
    """Return log(e^x - 1) for x >= 0 without overflow."""
    return x + np.log(-np.expm1(-x))

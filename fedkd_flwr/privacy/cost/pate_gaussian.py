"""What noisy-max answers with Gaussian noise cost given the votes: PATE 2018's data-dependent bounds.

`fedkd_flwr.privacy.cost.pate_laplace` says how they work and offers them under the same names.

Formal guarantees
-----------------
Unit, neighbouring relation and edge cases are those of `fedkd_flwr.privacy.cost.pate_laplace`: bounds for *these* votes
against every neighbour's, **not differential privacy**, not to be published.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr

from fedkd_flwr.errors import ConfigError, DataError, explain
from fedkd_flwr.privacy.cost.pate_bounds import (
    EDGE,
    FAR,
    MOMENTS,
    Conversion,
    Floats,
    check_counts,
    check_orders,
    check_positive,
    check_votes,
    epsilon_of,
    log_expm1,
    log_mean,
    log_q_of,
    per_query,
)

__all__ = [
    "Cost",
    "confident_epsilon",
    "confident_log_answered",
    "confident_rdp",
    "gaussian_epsilon",
    "gaussian_independent_rdp",
    "gaussian_log_q",
    "gaussian_rdp",
]

Cost = Literal["bound", "expected"]

_ROUNDING = 8 * np.finfo(np.float64).eps


def gaussian_log_q(counts: ArrayLike, sigma: float) -> Floats:
    """Bound log Pr[released label is not the plurality] for noise N(0, sigma^2) on each count (PATE 2018, Prop. 7).

    ``sigma``, > 0, is in votes; counts, result and errors are as in `laplace_log_q`, with the sum over
    the other classes of ``erfc(gap / (2 sigma)) / 2`` as the union bound.
    """
    scale = math.sqrt(2.0) * check_positive("sigma", sigma)
    return log_q_of(check_counts(counts), lambda gaps: log_ndtr(-np.minimum(gaps / scale, FAR)))


def gaussian_independent_rdp(*, sigma: float, votes: int = 1, orders: ArrayLike) -> Floats:
    """Return ``a * votes^2 / sigma^2``, the data-independent Renyi divergence of one query (PATE 2018, Prop. 8).

    >>> gaussian_independent_rdp(sigma=10.0, votes=2, orders=[2, 8]).round(3).tolist()
    [0.08, 0.32]
    """
    alphas = check_orders(orders, above=1)
    with np.errstate(over="ignore", divide="ignore"):
        return alphas / np.float64(check_positive("sigma", sigma) / check_votes(votes)) ** 2


def gaussian_rdp(log_q: ArrayLike, *, sigma: float, orders: ArrayLike, votes: int = 1, per_row: bool = False) -> Floats:
    """Bound the Renyi divergence of noisy max with Gaussian noise, summed over queries (PATE 2018, Theorem 6).

    ``log((1-q) A^(a-1) + q B^(a-1)) / (a-1)``, A = (1-q) / (1 - (q e^eps2)^((mu2-1)/mu2)), B = e^eps1 / q^(1/(mu1-1)),
    where the mechanism has the Renyi divergences eps1, eps2 at orders mu1, mu2. Any pair of orders will do; as
    Proposition 10 we take mu2 = sigma * sqrt(log 1/q) and mu1 = mu2 + 1, with sigma in units of ``votes`` votes. Range:
    mu2 > 1, a <= mu1, q e^eps2 < 1 and q <= e^((mu2-1) eps2) / (mu1/(mu1-1) * mu2/(mu2-1))^mu2.

    Parameters
    ----------
    log_q : array of shape (num_queries,), or float
        From `gaussian_log_q`: at most 0.
    sigma : float
        Standard deviation of the noise, in votes; > 0.
    orders : array of shape (num_orders,)
        Renyi orders a > 1.
    votes : int
        How many votes one neighbouring change can move from a class to another, >= 1.
    per_row : bool
        Whether to keep the queries apart.

    Returns
    -------
    ndarray of shape (num_orders,), or (num_queries, num_orders) with ``per_row``; float64
        At least 0, at most `gaussian_independent_rdp` per query.

    Raises
    ------
    ConfigError, DataError
        If a parameter is not as above; if ``log_q`` holds NaN or a number above 0.
    """
    alphas = check_orders(orders, above=1)
    rows = np.atleast_1d(np.asarray(log_q, dtype=np.float64))
    if not (rows.ndim == 1 and bool((rows <= 0.0).all())):
        raise DataError(explain("log_q", "be a list of numbers <= 0", f"shape {rows.shape}", "Use gaussian_log_q."))
    scale = check_positive("sigma", sigma) / check_votes(votes)
    return per_query(rows, lambda some: _gaussian_costs(some, scale, alphas), len(alphas), per_row=per_row)


def gaussian_epsilon(
    counts: ArrayLike,
    *,
    sigma: float,
    delta: float,
    orders: ArrayLike | None = None,
    votes: int = 1,
    conversion: Conversion = "tight",
) -> float:
    """Return the data-dependent epsilon at ``delta`` of answering all queries with Gaussian noise.

    Not publishable: see the module's formal guarantees. Parameters and errors as in `gaussian_log_q`, `gaussian_rdp`
    and `rdp_epsilon`.

    >>> round(gaussian_epsilon([[240, 5, 5]] * 100, sigma=40.0, delta=1e-5), 3)
    0.223
    """
    alphas = 1.0 + MOMENTS if orders is None else check_orders(orders, above=1)
    log_q = gaussian_log_q(counts, sigma)
    return epsilon_of(
        gaussian_rdp(log_q, sigma=sigma, orders=alphas, votes=votes), alphas, delta, conversion, len(log_q)
    )


def confident_log_answered(counts: ArrayLike, *, threshold: float, sigma_threshold: float) -> Floats:
    """Return log Pr[max of the votes + N(0, sigma_threshold^2) >= threshold] per query, shape (num_queries,).

    >>> confident_log_answered([[8, 2]], threshold=8, sigma_threshold=3.0).round(4).tolist()  # log 1/2
    [-0.6931]
    """
    log_answered: Floats = log_ndtr(_above(check_counts(counts).max(axis=1), threshold, sigma_threshold))
    return log_answered


def confident_rdp(
    counts: ArrayLike,
    *,
    threshold: float,
    sigma_threshold: float,
    sigma: float,
    orders: ArrayLike,
    votes: int = 1,
    cost: Cost = "bound",
    per_row: bool = False,
) -> Floats:
    """Bound the Renyi divergence of Confident-GNMax (noisy threshold, then noisy max), summed over queries.

    ``bound`` holds for what is released, "no answer" or a label. With p the probability of an answer, p' a neighbour's,
    and R `gaussian_rdp` of the label, the divergence of order a is at most ``log(p^a p'^(1-a) e^((a-1) R) +
    (1-p)^a (1-p')^(1-a)) / (a-1)``. It is convex in p', so its largest value over neighbours, whose highest count
    differs by at most ``votes``, is at one of the two ends. Never more than ``a votes^2 / (2 sigma_threshold^2) + R``.

    ``expected`` is what PATE 2018's code adds up: Theorem 6 for the threshold, plus p * R. It compares with published
    numbers, but is **no bound**: an average over the threshold's noise lies below what an answer costs (Jensen).

    Parameters
    ----------
    counts : array of shape (num_queries, num_classes)
        Votes per query and class, before any noise; all queries, answered or not.
    threshold : float
        Votes the noisy highest count must reach.
    sigma_threshold, sigma : float
        Standard deviations of the threshold's and the answer's noise, in votes; > 0.
    orders, votes, per_row
        As in `gaussian_rdp`.
    cost : {"bound", "expected"}
        See above.

    Returns
    -------
    ndarray of shape (num_orders,), or (num_queries, num_orders) with ``per_row``; float64
        At least 0.

    Raises
    ------
    ConfigError, DataError
        If a parameter, or ``counts``, is not as above.
    """
    matrix, alphas = check_counts(counts), check_orders(orders, above=1)
    if cost not in ("bound", "expected"):
        raise ConfigError(explain("cost", "be 'bound' or 'expected'", cost, "Use 'bound': only that one holds."))
    log_q = gaussian_log_q(matrix, sigma)
    scale = sigma / check_votes(votes)
    # a threshold moves by `votes`, a noisy max by sqrt(2) * votes
    threshold_scale = math.sqrt(2.0) * check_positive("sigma_threshold", sigma_threshold) / votes
    moments = alphas - 1.0

    def costs(distinct: Floats) -> Floats:
        answer = _gaussian_costs(distinct[:, 1], scale, alphas)
        above = _above(distinct[:, 0], threshold, sigma_threshold)[:, None]
        if cost == "expected":
            likely = np.minimum(log_ndtr(above), log_ndtr(-above))[:, 0]
            expected: Floats = _gaussian_costs(likely, threshold_scale, alphas) + np.exp(log_ndtr(above)) * answer
            return expected
        worst: Floats = np.zeros_like(answer)
        for shift in (-votes, votes):
            other = _above(distinct[:, 0] + shift, threshold, sigma_threshold)[:, None]
            terms = []
            for sign, rest in ((1, moments * answer), (-1, 0.0)):
                here, there = log_ndtr(sign * above), log_ndtr(sign * other)
                # the two logs nearly cancel under much noise: leave room for their rounding, upwards
                margin = _ROUNDING * (alphas * np.abs(here) + moments * np.abs(there))
                terms.append(alphas * here - moments * there + rest + margin)
            worst = np.fmax(worst, np.logaddexp(*terms) / moments)
        worst = np.fmin(worst, gaussian_independent_rdp(sigma=threshold_scale, orders=alphas) + answer)
        return worst

    rows = np.column_stack([matrix.max(axis=1).astype(np.float64), log_q])
    return per_query(rows, costs, len(alphas), per_row=per_row)


def confident_epsilon(
    counts: ArrayLike,
    *,
    threshold: float,
    sigma_threshold: float,
    sigma: float,
    delta: float,
    orders: ArrayLike | None = None,
    votes: int = 1,
    cost: Cost = "bound",
    conversion: Conversion = "tight",
) -> float:
    """Return the data-dependent epsilon at ``delta`` of passing all queries through Confident-GNMax.

    Not publishable: see the module's formal guarantees. Parameters and errors as in `confident_rdp` and `rdp_epsilon`.
    """
    alphas = 1.0 + MOMENTS if orders is None else check_orders(orders, above=1)
    rdp = confident_rdp(
        counts,
        threshold=threshold,
        sigma_threshold=sigma_threshold,
        sigma=sigma,
        orders=alphas,
        votes=votes,
        cost=cost,
    )
    return epsilon_of(rdp, alphas, delta, conversion, len(np.asarray(counts)))


def _gaussian_costs(log_q: Floats, sigma: float, orders: Floats) -> Floats:
    """Return PATE 2018's Theorem 6 inside its range, else the data-independent value: (num_queries, num_orders)."""
    independent = gaussian_independent_rdp(sigma=sigma, orders=orders)
    out = np.tile(independent, (len(log_q), 1))
    out[np.isneginf(log_q)] = 0.0
    mu2 = sigma * np.sqrt(-log_q)
    variance = np.float64(sigma) ** 2
    eps2 = mu2 / variance
    # mu1 = mu2 + 1, so mu1/(mu1-1) = 1 + 1/mu2
    limit = (mu2 - 1.0) * eps2 - mu2 * (np.log1p(1.0 / mu2) + np.log1p(1.0 / (mu2 - 1.0)))
    inside = np.isfinite(log_q) & (mu2 > 1.0 + EDGE) & (log_q + eps2 < 0.0) & (log_q <= limit)
    log_q, mu2, eps2 = log_q[inside, None], mu2[inside, None], eps2[inside, None]
    # A = (1-q)/(1-r), r = (q e^eps2)^(1-1/mu2) = q e^excess, so A = 1 + q (e^excess - 1)/(1-r)
    excess = eps2 * (1.0 - 1.0 / mu2) - log_q / mu2
    log_a = np.log1p(np.exp(log_q + log_expm1(excess) - np.log(-np.expm1((log_q + eps2) * (1.0 - 1.0 / mu2)))))
    log_b = (mu2 + 1.0) / variance - log_q / mu2
    moments = orders - 1.0
    dependent = log_mean(log_q, moments * log_a, moments * log_b) / moments
    out[inside] = np.where(orders <= mu2 + 1.0, np.fmin(dependent, independent), independent)
    return out


def _above(highest: NDArray[Any], threshold: float, sigma_threshold: float) -> Floats:
    """Return how far the highest counts lie above the threshold, in units of its noise."""
    if isinstance(threshold, bool) or not (isinstance(threshold, int | float | np.number) and math.isfinite(threshold)):
        raise ConfigError(explain("threshold", "be a finite number", threshold, "Give it in votes."))
    scale = check_positive("sigma_threshold", sigma_threshold)
    with np.errstate(over="ignore"):
        return np.clip((highest.astype(np.float64) - threshold) / scale, -FAR, FAR)

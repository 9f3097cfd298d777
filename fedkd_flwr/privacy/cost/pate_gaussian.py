"""What noisy-max answers with Gaussian noise cost given the votes: PATE 2018's data-dependent bounds.

`fedkd_flwr.privacy.cost.pate_laplace` says how they work and offers them under the same names.

Formal guarantees
-----------------
Unit, neighbouring relation and edge cases are those of `fedkd_flwr.privacy.cost.pate_laplace`: bounds for *these* votes
against every neighbour's, **not differential privacy**, not to be published.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr

from fedkd_flwr.errors import DataError, explain
from fedkd_flwr.privacy.cost.pate_bounds import (
    EDGE,
    FAR,
    MOMENTS,
    Floats,
    check_counts,
    check_noise,
    check_orders,
    log_expm1,
    log_mean,
    log_q_of,
    per_query,
    rdp_epsilon,
)

__all__ = ["gaussian_epsilon", "gaussian_independent_rdp", "gaussian_log_q", "gaussian_rdp"]


def gaussian_log_q(counts: ArrayLike, sigma: float) -> Floats:
    """Bound log Pr[released label is not the plurality] for noise N(0, sigma^2) on each count (PATE 2018, Prop. 7).

    ``sigma``, > 0, is in votes; counts, result and errors are as in `laplace_log_q`, with the sum over
    the other classes of ``erfc(gap / (2 sigma)) / 2`` as the union bound.
    """
    scale = math.sqrt(2.0) * check_noise("sigma", sigma)[0]
    return log_q_of(check_counts(counts), lambda gaps: log_ndtr(-np.minimum(gaps / scale, FAR)))


def gaussian_independent_rdp(*, sigma: float, votes: int = 1, orders: ArrayLike) -> Floats:
    """Return ``a * votes^2 / sigma^2``, the data-independent Renyi divergence of one query (PATE 2018, Prop. 8).

    >>> gaussian_independent_rdp(sigma=10.0, votes=2, orders=[2, 8]).round(3).tolist()
    [0.08, 0.32]
    """
    alphas = check_orders(orders, above=1)
    sigma, votes = check_noise("sigma", sigma, votes)
    with np.errstate(over="ignore", divide="ignore"):
        return alphas / np.float64(sigma / votes) ** 2


def gaussian_rdp(log_q: ArrayLike, *, sigma: float, orders: ArrayLike, votes: int = 1) -> Floats:
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

    Returns
    -------
    ndarray of shape (num_orders,), float64
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
    sigma, votes = check_noise("sigma", sigma, votes)
    return per_query(rows, lambda some: _gaussian_costs(some, sigma / votes, alphas), len(alphas))


def gaussian_epsilon(
    counts: ArrayLike, *, sigma: float, delta: float, orders: ArrayLike | None = None, votes: int = 1
) -> float:
    """Return the data-dependent epsilon at ``delta`` of answering all queries with Gaussian noise.

    Not publishable: see the module's formal guarantees. Parameters and errors as in `gaussian_log_q`, `gaussian_rdp`
    and `rdp_epsilon`.

    >>> round(gaussian_epsilon([[240, 5, 5]] * 100, sigma=40.0, delta=1e-5), 3)
    0.223
    """
    alphas = 1.0 + MOMENTS if orders is None else check_orders(orders, above=1)
    log_q = gaussian_log_q(counts, sigma)
    if not len(log_q):
        return 0.0
    return rdp_epsilon(gaussian_rdp(log_q, sigma=sigma, orders=alphas, votes=votes), orders=alphas, delta=delta)


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

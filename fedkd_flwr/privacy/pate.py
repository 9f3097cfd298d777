"""What noisy-max answers cost given the votes that were cast: PATE's data-dependent bounds.

Where the voters agree, one voter changes the released label with tiny probability, and the answer costs less than the
noise alone guarantees. Two steps: ``*_log_q`` bounds from the votes how probable it is that the released label is not
the plurality (q), and a theorem turns q into a cost, used only inside its range; elsewhere, and wherever smaller, the
data-independent value stands. Costs of queries add up; ``rdp_epsilon`` turns the sum into epsilon.

=============================================  ==================================================================
``laplace_moments``                            log-moments at order l; Li et al. (FedKT, IJCAI 2021), Theorems 2,
                                               3, 10 and Lemma 7, after Papernot et al. (arXiv 1610.05755)
``gaussian_rdp``                               Renyi divergence at order a; Papernot et al. (PATE 2018, arXiv
                                               1802.08908), Theorem 6, Propositions 7, 8, 10
``confident_rdp``                              the same for a noisy threshold followed by a noisy max
=============================================  ==================================================================

Formal guarantees
-----------------
Unit and neighbouring relation: one unit (a party, a record) is replaced, which moves at most ``votes`` votes from class
to class on every query, or takes them away. For *these* votes D and every neighbour D', everything released together
satisfies ``Pr[M(D) in S] <= e^epsilon * Pr[M(D') in S] + delta`` for every set S of outcomes. It says nothing about
other votes nor about D' against D, so it is **not differential privacy**, and epsilon itself is computed from private
votes: it must not be published, nor steer budgets, refusals or calibration. The queries must be chosen without looking
at the votes. Not offered: PATE 2017's smoothed sensitivity, since its code yields 0 where it cannot compute.

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
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr

from fedkd_flwr.errors import ConfigError, DataError, explain

__all__ = [
    "Conversion",
    "confident_epsilon",
    "confident_log_answered",
    "confident_rdp",
    "gaussian_epsilon",
    "gaussian_independent_rdp",
    "gaussian_log_q",
    "gaussian_rdp",
    "laplace_epsilon",
    "laplace_independent_moments",
    "laplace_log_q",
    "laplace_moments",
    "laplace_q",
    "rdp_epsilon",
]

Floats = NDArray[np.float64]
Conversion = Literal["tight", "classic"]
Cost = Literal["bound", "expected"]

_MOMENTS = np.concatenate([np.geomspace(0.05, 0.9, 12), np.arange(1.0, 33.0), np.geomspace(36.0, 4096.0, 20)])
"""Orders l tried by default (Renyi orders 1 + l): every order gives a bound, more of them a smaller one."""
_FAR = 1e9  # gaps beyond this many units of noise are cut to it: q only grows, and no square overflows
_CELLS = 500_000  # numbers held at once per temporary array
_EDGE = 1e-6  # as near to where a theorem's denominator is 0, rounding of log q would decide the value
_ROUNDING = 8 * np.finfo(np.float64).eps


def laplace_log_q(counts: ArrayLike, gamma: float) -> Floats:
    """Bound log Pr[released label is not the plurality] for noise Laplace(1/gamma) on each count (FedKT, Lemma 7).

    Parameters
    ----------
    counts : array of shape (num_queries, num_classes)
        Votes per query and class, before any noise.
    gamma : float
        Inverse scale of the noise, per vote; > 0.

    Returns
    -------
    ndarray of shape (num_queries,), float64
        The union bound over the other classes, at most log(1 - 1/num_classes): the plurality is never less probable
        than another class.

    Raises
    ------
    ConfigError, DataError
        If ``gamma`` is not > 0 and finite; if ``counts`` is not a matrix of votes with two classes or more.
    """
    _check_positive("gamma", gamma)

    def log_tail(gaps: Floats) -> Floats:
        scaled = np.minimum(gamma * gaps, _FAR)
        return np.log((2.0 + scaled) / 4.0) - scaled

    return _log_q(_check_counts(counts), log_tail)


def laplace_q(counts: ArrayLike, gamma: float) -> Floats:
    """Return ``exp(laplace_log_q(counts, gamma))``: FedKT's q, 0 where it is below the smallest float.

    >>> laplace_q([[10, 0], [5, 5]], 0.05).round(4).tolist()  # (2 + 0.5) / (4 e^0.5), and a tie
    [0.3791, 0.5]
    """
    return np.exp(laplace_log_q(counts, gamma))


def laplace_independent_moments(*, gamma: float, votes: int = 1, orders: ArrayLike) -> Floats:
    """Return the data-independent log-moments of one query, at each order.

    The smaller of ``2 g^2 l (l+1)`` (FedKT, Lemma 5) and ``2 g l`` (the privacy loss never exceeds 2g),
    g = gamma * votes. Parameters and errors as in `laplace_moments`.

    >>> laplace_independent_moments(gamma=0.05, orders=[1, 2, 100]).round(3).tolist()
    [0.01, 0.03, 10.0]
    """
    moments = _check_orders(orders, above=0)
    pure = 2.0 * _check_positive("gamma", gamma) * _check_votes(votes)
    with np.errstate(over="ignore"):
        return np.minimum(0.5 * pure * pure * moments * (moments + 1.0), pure * moments)


def laplace_moments(
    counts: ArrayLike, *, gamma: float, votes: int = 1, orders: ArrayLike, per_row: bool = False
) -> Floats:
    """Bound the log-moments of the privacy loss of noisy max with Laplace noise, summed over queries.

    Per query and order l: ``log((1-q) * ((1-q)/(1-e^(2g) q))^l + q e^(2gl))`` where q < 1/(e^(2g)+1), and never more
    than `laplace_independent_moments` (FedKT, Theorems 2 (votes = s), 3 (votes = 1) and 10 (votes = t)); g = gamma *
    votes, while q depends on gamma and the votes as cast. The published PATE 2017 code uses the formula up to q = 1/2,
    where it can fall below the true value; we do not.

    Parameters
    ----------
    counts : array of shape (num_queries, num_classes)
        Votes per query and class, before any noise.
    gamma : float
        Inverse scale of the noise, per vote; > 0.
    votes : int
        How many votes one neighbouring change can move, >= 1.
    orders : array of shape (num_orders,)
        Orders l > 0 of the moments, whole numbers or not; l belongs to Renyi order l + 1.
    per_row : bool
        Whether to keep the queries apart.

    Returns
    -------
    ndarray of shape (num_orders,), or (num_queries, num_orders) with ``per_row``; float64
        At least 0; divide by l for the Renyi divergence of order l + 1.

    Raises
    ------
    ConfigError, DataError
        If a parameter, or ``counts``, is not as above.
    """
    moments = _check_orders(orders, above=0)
    independent = laplace_independent_moments(gamma=gamma, votes=votes, orders=moments)
    pure = 2.0 * gamma * votes

    def costs(distinct: Floats) -> Floats:
        out = np.tile(independent, (len(distinct), 1))
        # the theorem's range (beyond it the formula exceeds 2 g l anyway); the second condition matters at g > 6 only
        inside = (distinct < -np.logaddexp(0.0, pure)) & (distinct + pure < -_EDGE)
        log_q = distinct[inside, None]
        # (1-q)/(1-e^(2g) q) = 1 + (e^(2g)-1) q / (1-e^(2g) q): no difference of nearly equal numbers
        ratio = np.log1p(np.exp(log_q + _log_expm1(pure) - np.log(-np.expm1(log_q + pure))))
        out[inside] = np.fmin(_log_mean(log_q, moments * ratio, pure * moments), independent)
        return out

    return _per_query(laplace_log_q(counts, gamma), costs, len(moments), per_row=per_row)


def laplace_epsilon(
    counts: ArrayLike,
    *,
    gamma: float,
    delta: float,
    votes: int = 1,
    orders: ArrayLike | None = None,
    conversion: Conversion = "tight",
) -> float:
    """Return the data-dependent epsilon at ``delta`` of answering all queries with Laplace noise.

    Not publishable: see the module's formal guarantees. Parameters and errors as in `laplace_moments` and
    `rdp_epsilon`; ``tight`` also uses that n queries never lose more than 2 n gamma votes.

    >>> round(laplace_epsilon([[240, 5, 5]] * 100, gamma=0.05, delta=1e-5), 3)
    0.143
    """
    moments = _MOMENTS if orders is None else _check_orders(orders, above=0)
    summed = laplace_moments(counts, gamma=gamma, votes=votes, orders=moments)
    num_queries = len(np.asarray(counts))
    epsilon = _epsilon(summed / moments, 1.0 + moments, delta, conversion, num_queries)
    return min(epsilon, 2.0 * gamma * votes * num_queries) if conversion == "tight" else epsilon


def gaussian_log_q(counts: ArrayLike, sigma: float) -> Floats:
    """Bound log Pr[released label is not the plurality] for noise N(0, sigma^2) on each count (PATE 2018, Prop. 7).

    Parameters
    ----------
    counts : array of shape (num_queries, num_classes)
        Votes per query and class, before any noise.
    sigma : float
        Standard deviation of the noise, in votes; > 0.

    Returns
    -------
    ndarray of shape (num_queries,), float64
        The log of ``sum over the other classes of erfc(gap / (2 sigma)) / 2``, at most log(1 - 1/num_classes).

    Raises
    ------
    ConfigError, DataError
        If ``sigma`` is not > 0 and finite; if ``counts`` is not a matrix of votes with two classes or more.
    """
    scale = math.sqrt(2.0) * _check_positive("sigma", sigma)
    return _log_q(_check_counts(counts), lambda gaps: log_ndtr(-np.minimum(gaps / scale, _FAR)))


def gaussian_independent_rdp(*, sigma: float, votes: int = 1, orders: ArrayLike) -> Floats:
    """Return ``a * votes^2 / sigma^2``, the data-independent Renyi divergence of one query (PATE 2018, Prop. 8).

    >>> gaussian_independent_rdp(sigma=10.0, votes=2, orders=[2, 8]).round(3).tolist()
    [0.08, 0.32]
    """
    alphas = _check_orders(orders, above=1)
    with np.errstate(over="ignore", divide="ignore"):
        return alphas / np.float64(_check_positive("sigma", sigma) / _check_votes(votes)) ** 2


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
    alphas = _check_orders(orders, above=1)
    rows = np.atleast_1d(np.asarray(log_q, dtype=np.float64))
    if not (rows.ndim == 1 and bool((rows <= 0.0).all())):
        raise DataError(explain("log_q", "be a list of numbers <= 0", f"shape {rows.shape}", "Use gaussian_log_q."))
    scale = _check_positive("sigma", sigma) / _check_votes(votes)
    return _per_query(rows, lambda some: _gaussian_costs(some, scale, alphas), len(alphas), per_row=per_row)


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
    alphas = 1.0 + _MOMENTS if orders is None else _check_orders(orders, above=1)
    log_q = gaussian_log_q(counts, sigma)
    return _epsilon(gaussian_rdp(log_q, sigma=sigma, orders=alphas, votes=votes), alphas, delta, conversion, len(log_q))


def confident_log_answered(counts: ArrayLike, *, threshold: float, sigma_threshold: float) -> Floats:
    """Return log Pr[max of the votes + N(0, sigma_threshold^2) >= threshold] per query, shape (num_queries,).

    >>> confident_log_answered([[8, 2]], threshold=8, sigma_threshold=3.0).round(4).tolist()  # log 1/2
    [-0.6931]
    """
    log_answered: Floats = log_ndtr(_above(_check_counts(counts).max(axis=1), threshold, sigma_threshold))
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
    matrix, alphas = _check_counts(counts), _check_orders(orders, above=1)
    if cost not in ("bound", "expected"):
        raise ConfigError(explain("cost", "be 'bound' or 'expected'", cost, "Use 'bound': only that one holds."))
    log_q = gaussian_log_q(matrix, sigma)
    scale = sigma / _check_votes(votes)
    # a threshold moves by `votes`, a noisy max by sqrt(2) * votes
    threshold_scale = math.sqrt(2.0) * _check_positive("sigma_threshold", sigma_threshold) / votes
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
    return _per_query(rows, costs, len(alphas), per_row=per_row)


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
    alphas = 1.0 + _MOMENTS if orders is None else _check_orders(orders, above=1)
    rdp = confident_rdp(
        counts,
        threshold=threshold,
        sigma_threshold=sigma_threshold,
        sigma=sigma,
        orders=alphas,
        votes=votes,
        cost=cost,
    )
    return _epsilon(rdp, alphas, delta, conversion, len(np.asarray(counts)))


def rdp_epsilon(rdp: ArrayLike, *, orders: ArrayLike, delta: float, conversion: Conversion = "tight") -> float:
    """Turn Renyi divergences into the smallest epsilon they prove at ``delta``.

    Parameters
    ----------
    rdp : array of shape (num_orders,)
        Bounds on the Renyi divergence, >= 0.
    orders : array of shape (num_orders,)
        Their orders a > 1.
    delta : float
        Within (0, 1).
    conversion : {"tight", "classic"}
        ``classic``: ``rdp - ln(delta)/(a-1)`` (Mironov 2017, Prop. 3), as PATE's code. ``tight``: ``rdp + ln(1-1/a) -
        ln(delta a)/(a-1)`` (Canonne, Kamath and Steinke, arXiv 2004.00010, Prop. 12), and 0 where already delta^2 > 1 -
        e^-rdp, as dp-accounting. Both hold for each pair of data sets, hence for data-dependent divergences.

    Raises
    ------
    ConfigError, DataError
        If a parameter is not as above.

    Examples
    --------
    >>> round(rdp_epsilon([0.5], orders=[11.0], delta=1e-5, conversion="classic"), 4)  # 0.5 + ln(1e5) / 10
    1.6513
    """
    alphas, values = _check_orders(orders, above=1), np.asarray(rdp, dtype=np.float64)
    if conversion not in ("tight", "classic"):
        raise ConfigError(explain("conversion", "be 'tight' or 'classic'", conversion, "'tight' is never larger."))
    if not 0.0 < _check_positive("delta", delta) < 1.0:
        raise ConfigError(explain("delta", "be within (0, 1)", delta, "Use less than 1 / number of units."))
    if not (values.shape == alphas.shape and bool((values >= 0.0).all())):
        raise DataError(explain("rdp", "hold a number >= 0 per order", f"shape {values.shape}", "Check its orders."))
    epsilons = values - math.log(delta) / (alphas - 1.0)
    if conversion == "tight":
        epsilons = epsilons + np.log1p(-1.0 / alphas) - np.log(alphas) / (alphas - 1.0)
        epsilons = np.where(delta * delta + np.expm1(-values) > 0.0, 0.0, epsilons)
    return max(0.0, float(epsilons.min()))


def _epsilon(rdp: Floats, orders: Floats, delta: float, conversion: Conversion, num_queries: int) -> float:
    """Convert, but say 0 for no query: there is no order at which the classic conversion would."""
    epsilon = rdp_epsilon(rdp, orders=orders, delta=delta, conversion=conversion)
    return epsilon if num_queries else 0.0


def _log_q(counts: NDArray[Any], log_tail: Callable[[Floats], Floats]) -> Floats:
    """Add up, in log space, how probable each other class is to overtake the plurality."""
    num_queries, num_classes = counts.shape
    step = max(1, _CELLS // num_classes)
    out = np.empty(num_queries)
    for start in range(0, num_queries, step):
        part = counts[start : start + step].astype(np.float64)
        top = part.argmax(axis=1)
        others = np.ones(part.shape, dtype=bool)
        others[np.arange(len(part)), top] = False
        gaps = part.max(axis=1, keepdims=True) - part[others].reshape(len(part), num_classes - 1)
        with np.errstate(over="ignore"):
            logs = log_tail(gaps)
        largest = logs.max(axis=1)
        out[start : start + step] = largest + np.log(np.exp(logs - largest[:, None]).sum(axis=1))
    return np.minimum(out, math.log1p(-1.0 / num_classes))


def _per_query(rows: Floats, costs: Callable[[Floats], Floats], num_orders: int, *, per_row: bool) -> Floats:
    """Compute the costs of distinct rows once, some rows at a time, and add them up or lay them out again."""
    distinct, where, repeats = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
    step = max(1, _CELLS // num_orders)
    parts = [slice(start, start + step) for start in range(0, len(distinct), step)]
    with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
        if per_row:
            laid = [np.empty((0, num_orders)), *(costs(distinct[part]) for part in parts)]
            return np.concatenate(laid)[where.reshape(-1)]
        total = np.zeros(num_orders)
        for part in parts:
            total += repeats[part].astype(np.float64) @ costs(distinct[part])
    return total


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
    inside = np.isfinite(log_q) & (mu2 > 1.0 + _EDGE) & (log_q + eps2 < 0.0) & (log_q <= limit)
    log_q, mu2, eps2 = log_q[inside, None], mu2[inside, None], eps2[inside, None]
    # A = (1-q)/(1-r), r = (q e^eps2)^(1-1/mu2) = q e^excess, so A = 1 + q (e^excess - 1)/(1-r)
    excess = eps2 * (1.0 - 1.0 / mu2) - log_q / mu2
    log_a = np.log1p(np.exp(log_q + _log_expm1(excess) - np.log(-np.expm1((log_q + eps2) * (1.0 - 1.0 / mu2)))))
    log_b = (mu2 + 1.0) / variance - log_q / mu2
    moments = orders - 1.0
    dependent = _log_mean(log_q, moments * log_a, moments * log_b) / moments
    out[inside] = np.where(orders <= mu2 + 1.0, np.fmin(dependent, independent), independent)
    return out


def _log_mean(log_q: Floats, log_likely: Floats, log_other: Floats) -> Floats:
    """Return log((1-q) e^likely + q e^other) for exponents >= 0, precise also where it is nearly 0."""
    # 1 + (1-q)(e^likely - 1) + q (e^other - 1): sums of positive terms only
    likely = np.log1p(-np.exp(log_q)) + _log_expm1(log_likely)
    mean: Floats = np.logaddexp(0.0, np.logaddexp(likely, log_q + _log_expm1(log_other)))
    return mean


def _log_expm1(x: Any) -> Any:
    """Return log(e^x - 1) for x >= 0 without overflow."""
    return x + np.log(-np.expm1(-x))


def _above(highest: NDArray[Any], threshold: float, sigma_threshold: float) -> Floats:
    """Return how far the highest counts lie above the threshold, in units of its noise."""
    if isinstance(threshold, bool) or not (isinstance(threshold, int | float | np.number) and math.isfinite(threshold)):
        raise ConfigError(explain("threshold", "be a finite number", threshold, "Give it in votes."))
    scale = _check_positive("sigma_threshold", sigma_threshold)
    with np.errstate(over="ignore"):
        return np.clip((highest.astype(np.float64) - threshold) / scale, -_FAR, _FAR)


def _check_positive(name: str, value: float) -> float:
    if isinstance(value, bool) or not (isinstance(value, int | float | np.number) and 0.0 < value < math.inf):
        raise ConfigError(explain(name, "be a finite number > 0", value, "No noise, no guarantee."))
    return float(value)


def _check_votes(votes: int) -> int:
    if isinstance(votes, bool) or not (isinstance(votes, int | np.integer) and votes >= 1):
        raise ConfigError(explain("votes", "be a whole number >= 1", votes, "Give how many votes one change can move."))
    return int(votes)


def _check_orders(orders: ArrayLike, *, above: int) -> Floats:
    values = np.atleast_1d(np.asarray(orders, dtype=np.float64))
    if not (values.ndim == 1 and values.size and bool(((values > above) & (values < math.inf)).all())):
        raise ConfigError(explain("orders", f"be finite numbers > {above}", repr(orders), "For example 2, 4, 8, 16."))
    return values


def _check_counts(counts: ArrayLike) -> NDArray[Any]:
    matrix = np.asarray(counts)
    if not (matrix.ndim == 2 and matrix.shape[1] >= 2 and matrix.dtype.kind in "iuf"):
        seen = f"shape {matrix.shape}, dtype {matrix.dtype}"
        raise DataError(explain("counts", "be numbers of shape (queries, classes >= 2)", seen, "Count the votes."))
    if matrix.size and not (matrix.min() >= 0 and matrix.max() < math.inf):
        raise DataError(explain("counts", "be finite and >= 0", f"{matrix.min()} to {matrix.max()}", "Count again."))
    return matrix

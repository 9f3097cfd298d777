"""What noisy-max answers cost given the votes that were cast: PATE's data-dependent bounds.

Where the voters agree, one voter changes the released label with tiny probability, and the answer costs less than the
noise alone guarantees. Two steps: ``*_log_q`` bounds from the votes how probable it is that the released label is not
the plurality (q), and a theorem turns q into a cost, used only inside its range; elsewhere, and wherever smaller, the
data-independent value stands. Costs of queries add up; ``rdp_epsilon`` turns the sum into epsilon. The Laplace bounds
are written here, the Gaussian ones (PATE 2018) in `fedkd_flwr.privacy.cost.pate_gaussian`.

=============================================  ==================================================================
``laplace_moments``                            log-moments at order l; Li et al. (FedKT, IJCAI 2021), Theorems 2,
                                               3, 10 and Lemma 7, after Papernot et al. (arXiv 1610.05755)
``gaussian_rdp``                               Renyi divergence at order a; Papernot et al. (PATE 2018, arXiv
                                               1802.08908), Theorem 6, Propositions 7, 8, 10
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

import numpy as np
from numpy.typing import ArrayLike

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

__all__ = ["laplace_epsilon", "laplace_independent_moments", "laplace_log_q", "laplace_moments"]


def laplace_log_q(counts: ArrayLike, gamma: float) -> Floats:
    """Bound log Pr[released label is not the plurality] for noise Laplace(1/gamma) on each count (FedKT, Lemma 7).

    ``counts``, (num_queries, num_classes), are votes before any noise; ``gamma`` > 0 is the noise's inverse scale, per
    vote. The result, (num_queries,) float64, is the union bound over the other classes, at most log(1 - 1/num_classes):
    the plurality is never less probable than another class. Raises `ConfigError` or `DataError` for anything else.

    >>> np.exp(laplace_log_q([[10, 0], [5, 5]], 0.05)).round(4).tolist()  # (2 + 0.5) / (4 e^0.5), and a tie
    [0.3791, 0.5]
    """
    check_noise("gamma", gamma)

    def log_tail(gaps: Floats) -> Floats:
        scaled = np.minimum(gamma * gaps, FAR)
        return np.log((2.0 + scaled) / 4.0) - scaled

    return log_q_of(check_counts(counts), log_tail)


def laplace_independent_moments(*, gamma: float, votes: int = 1, orders: ArrayLike) -> Floats:
    """Return the data-independent log-moments of one query, at each order.

    The smaller of ``2 g^2 l (l+1)`` (FedKT, Lemma 5) and ``2 g l`` (the privacy loss never exceeds 2g),
    g = gamma * votes. Parameters and errors as in `laplace_moments`.

    >>> laplace_independent_moments(gamma=0.05, orders=[1, 2, 100]).round(3).tolist()
    [0.01, 0.03, 10.0]
    """
    moments = check_orders(orders, above=0)
    gamma, votes = check_noise("gamma", gamma, votes)
    pure = 2.0 * gamma * votes
    with np.errstate(over="ignore"):
        return np.minimum(0.5 * pure * pure * moments * (moments + 1.0), pure * moments)


def laplace_moments(counts: ArrayLike, *, gamma: float, votes: int = 1, orders: ArrayLike) -> Floats:
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

    Returns
    -------
    ndarray of shape (num_orders,), float64
        At least 0; divide by l for the Renyi divergence of order l + 1.

    Raises
    ------
    ConfigError, DataError
        If a parameter, or ``counts``, is not as above.
    """
    moments = check_orders(orders, above=0)
    independent = laplace_independent_moments(gamma=gamma, votes=votes, orders=moments)
    pure = 2.0 * gamma * votes

    def costs(distinct: Floats) -> Floats:
        out = np.tile(independent, (len(distinct), 1))
        # the theorem's range (beyond it the formula exceeds 2 g l anyway); the second condition matters at g > 6 only
        inside = (distinct < -np.logaddexp(0.0, pure)) & (distinct + pure < -EDGE)
        log_q = distinct[inside, None]
        # (1-q)/(1-e^(2g) q) = 1 + (e^(2g)-1) q / (1-e^(2g) q): no difference of nearly equal numbers
        ratio = np.log1p(np.exp(log_q + log_expm1(pure) - np.log(-np.expm1(log_q + pure))))
        out[inside] = np.fmin(log_mean(log_q, moments * ratio, pure * moments), independent)
        return out

    return per_query(laplace_log_q(counts, gamma), costs, len(moments))


def laplace_epsilon(
    counts: ArrayLike, *, gamma: float, delta: float, votes: int = 1, orders: ArrayLike | None = None
) -> float:
    """Return the data-dependent epsilon at ``delta`` of answering all queries with Laplace noise.

    Not publishable: see the module's formal guarantees. Parameters and errors as in `laplace_moments` and
    `rdp_epsilon`. The result is never above ``2 n gamma votes``, what n queries can lose at most.

    >>> round(laplace_epsilon([[240, 5, 5]] * 100, gamma=0.05, delta=1e-5), 3)
    0.143
    """
    moments = MOMENTS if orders is None else check_orders(orders, above=0)
    summed = laplace_moments(counts, gamma=gamma, votes=votes, orders=moments)
    epsilon = rdp_epsilon(summed / moments, orders=1.0 + moments, delta=delta)
    return min(epsilon, 2.0 * gamma * votes * len(np.asarray(counts)))

"""What PATE's bounds are compared with: the original code's values, the formulas in many digits, and the truth."""

import json
import math
from itertools import permutations
from pathlib import Path

import mpmath
import numpy as np
from hypothesis import strategies as st
from scipy.special import log_ndtr, logsumexp

ORACLE = json.loads((Path(__file__).parent / "oracles" / "privacy.json").read_text())
# the "long list" of orders in PATE 2018's rdp_cumulative.py
LONG = np.concatenate([np.arange(2, 101, 0.5), np.logspace(math.log10(100), math.log10(500), 100)])
THREE = [[12, 2, 1], [9, 5, 1], [7, 7, 1], [20, 0, 0], [6, 5, 4]]
ODD_COUNTS = {
    "gap": [[1000, 0]],
    "far": [[10**6, 0, 0]],
    "none": [[0, 0]],
    "tie": [[7, 7, 7]],
    "1000-classes": [[1000, *[1] * 999]],
    "1000-none": [[0] * 1000],
    "same": [[5, 5]] * 50,
    "huge": [[1e300, 0.0]],
    "no-rows": np.zeros((0, 4), dtype=np.int32),
}
histograms = st.lists(st.integers(0, 300), min_size=2, max_size=8)
tables = st.lists(st.lists(st.integers(0, 60), min_size=3, max_size=3), min_size=2, max_size=12)
gammas = st.floats(0.005, 5.0)
sigmas = st.floats(0.5, 100.0)
some_votes = st.integers(1, 4)


def rows_of(case):
    return np.repeat([v["hist"] for v in case["votes"]], [v["repeat"] for v in case["votes"]], axis=0)


def close(value, expected):
    # the original code takes log(1 + x): an x below 1e-16 it gives as exactly 0
    np.testing.assert_allclose(value, expected, rtol=1e-9, atol=1e-17)


def classic(rdp, orders, delta):
    """The conversion of PATE's code (Mironov 2017, Proposition 3), by order."""
    return np.asarray(rdp) - math.log(delta) / (np.asarray(orders) - 1)


def mp_laplace(counts, gamma, votes, order):
    g, v = mpmath.mpf(gamma) * votes, sorted(counts, reverse=True)
    gaps = [mpmath.mpf(gamma) * (v[0] - other) for other in v[1:]]
    q = min(sum((2 + x) / (4 * mpmath.exp(x)) for x in gaps), 1 - mpmath.mpf(1) / len(v))
    independent = min(2 * g**2 * order * (order + 1), 2 * g * order)
    if q >= 1 / (mpmath.exp(2 * g) + 1):
        return q, independent
    mean = (1 - q) * ((1 - q) / (1 - mpmath.exp(2 * g) * q)) ** order + q * mpmath.exp(2 * g * order)
    return q, min(mpmath.log(mean), independent)


def mp_gaussian(counts, sigma, votes, order):
    v, sigma = sorted(counts, reverse=True), mpmath.mpf(sigma)
    q = min(sum(mpmath.erfc((v[0] - o) / (2 * sigma)) / 2 for o in v[1:]), 1 - mpmath.mpf(1) / len(v))
    per_vote = sigma / votes
    independent = order / per_vote**2
    mu2 = per_vote * mpmath.sqrt(-mpmath.log(q))
    mu1 = mu2 + 1
    eps1, eps2 = mu1 / per_vote**2, mu2 / per_vote**2
    if not (mu2 > 1 and order <= mu1 and q * mpmath.exp(eps2) < 1):
        return q, independent
    if q > mpmath.exp((mu2 - 1) * eps2) / (mu1 / (mu1 - 1) * mu2 / (mu2 - 1)) ** mu2:
        return q, independent
    a = (1 - q) / (1 - (q * mpmath.exp(eps2)) ** ((mu2 - 1) / mu2))
    b = mpmath.exp(eps1) / q ** (1 / (mu1 - 1))
    mean = (1 - q) * a ** (order - 1) + q * b ** (order - 1)
    return q, min(mpmath.log(mean) / (order - 1), independent)


def random_case(seed):
    rng = np.random.default_rng(seed)
    classes = int(rng.integers(2, 12))
    counts = rng.multinomial(rng.integers(5, 200), rng.dirichlet(np.full(classes, 0.2))).tolist()
    return counts, float(np.exp(rng.uniform(-4, 1.6))), float(np.exp(rng.uniform(1.5, 4))), int(rng.choice([1, 2, 5]))


def moved(counts, votes):
    """Every histogram that `votes` voters of one unit, moving together, can make of this one."""
    for source, target in permutations(range(len(counts)), 2):
        if counts[source] >= votes:
            other = list(counts)
            other[source] -= votes
            other[target] += votes
            yield other


def win_logs(counts, log_density, log_below):
    """Log-probability that each class wins, by Gauss-Legendre on panels between the kinks."""
    nodes, weights = np.polynomial.legendre.leggauss(12)
    edges = np.arange(min(counts) - 60, max(counts) + 61)
    edges = np.unique(np.concatenate([edges, counts]))
    half = np.diff(edges)[:, None] / 2
    points = (edges[:-1, None] + half + half * nodes).ravel()
    weight = np.log((half * weights).ravel())
    below = [log_below(points - c) for c in counts]
    return np.array(
        [
            logsumexp(weight + log_density(points - c) + sum(b for j, b in enumerate(below) if j != i))
            for i, c in enumerate(counts)
        ]
    )


def laplace_wins(counts, gamma):
    def below(x):
        return np.where(
            x < 0, gamma * np.minimum(x, 0) - math.log(2), np.log1p(-0.5 * np.exp(-gamma * np.maximum(x, 0)))
        )

    return win_logs(counts, lambda x: math.log(gamma / 2) - gamma * np.abs(x), below)


def gaussian_wins(counts, sigma):
    norm = math.log(sigma * math.sqrt(2 * math.pi))
    return win_logs(counts, lambda x: -0.5 * (x / sigma) ** 2 - norm, lambda x: log_ndtr(x / sigma))


def divergence(here, there, order):
    return logsumexp(order * here - (order - 1) * there) / (order - 1)

"""Compare the published cost of Confident-GNMax with its exact cost, at settings close to the authors'.

    python benchmarks/confident_gnmax.py

The formula is that of PATE 2018's analysis (its script is `rdp_cumulative.py`): for each query the Renyi cost of the
threshold, plus that of the answer times the probability of answering, each the smaller of its data-dependent and its
data-independent bound. It is no bound on the release; docs/understand/published-claims.md has two data sets
for which it is too small. Here all queries have the same votes, one vote moves, and the exact cost is that of the
query's outcomes (no answer, or
a class), composed by loss distributions. Half of the votes that the winner does not have are the second class's, and
the rest is spread over the other classes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import ndtr

from fedkd_flwr.privacy.cost.losses import LossGrid, solve_epsilon, split

DELTA = 1e-5
# teachers, classes, threshold, its noise, the answers' noise, queries: as we know them of PATE 2018's experiments, not
# compared with its text again
SETTINGS = {
    "MNIST": (250, 10, 200, 150, 40, 640),
    "SVHN": (250, 10, 300, 200, 40, 12_000),
    "Adult": (250, 2, 300, 200, 40, 1500),
}
ORDERS = np.r_[np.linspace(1.1, 50, 800), np.linspace(50, 1000, 2000)]

Floats = np.ndarray[Any, Any]


def outcomes(votes: Floats, threshold: float, sigma_threshold: float, sigma: float) -> Floats:
    """Return the probability of no answer, and of each class."""
    answered = ndtr((votes.max() - threshold) / sigma_threshold)
    nodes, weights = np.polynomial.legendre.leggauss(400)
    low, high = votes.min() - 12 * sigma, votes.max() + 12 * sigma
    x = (nodes + 1) / 2 * (high - low) + low
    below = ndtr((x[:, None] - votes[None, :]) / sigma)
    density = np.exp(-(((x[:, None] - votes[None, :]) / sigma) ** 2) / 2)
    wins = np.array([weights @ (density[:, i] * np.delete(below, i, axis=1).prod(axis=1)) for i in range(len(votes))])
    return np.r_[1 - answered, answered * wins / wins.sum()]


def exact(votes: Floats, queries: int, *noise: float) -> float:
    """Return the exact epsilon of so many queries with these votes, over moves of a vote among the first classes."""
    best = 0.0
    for loses, gains in ((0, 1), (1, 0), (1, 2))[: len(votes)]:
        moved = votes.copy()
        moved[loses] -= 1
        moved[gains] += 1
        pair = outcomes(votes, *noise), outcomes(moved, *noise)
        for p, q in (pair, pair[::-1]):
            losses = np.log(p / q)
            step = float(np.abs(losses).max()) / 4000
            low, mass = split(losses, p, step)
            best = max(best, solve_epsilon([(LossGrid(step=step, low=low, mass=mass), queries)], DELTA, math.inf))
    return best


def renyi(log_q: float, variance: float) -> Floats:
    """Return PATE 2018's Theorem 6 at each order, for noise whose data-independent cost is ``order / variance``."""
    independent = ORDERS / variance
    mu2 = math.sqrt(variance * -log_q)
    mu1 = mu2 + 1
    eps1, eps2 = mu1 / variance, mu2 / variance
    if mu2 <= 1 or log_q > (mu2 - 1) * eps2 - mu2 * (math.log(mu1 / (mu1 - 1)) + math.log(mu2 / (mu2 - 1))):
        return independent
    right = math.log1p(-math.exp(log_q))
    first = (ORDERS - 1) * (right - math.log1p(-math.exp((log_q + eps2) * (1 - 1 / mu2))))
    second = (ORDERS - 1) * (eps1 - log_q / (mu1 - 1))
    dependent = np.logaddexp(right + first, log_q + second) / (ORDERS - 1)
    holds = (mu1 > ORDERS) & (-log_q > eps2)
    return np.where(holds, np.minimum(dependent, independent), independent)


def formula(votes: Floats, queries: int, threshold: float, sigma_threshold: float, sigma: float) -> float:
    """Return the published figure."""
    answered = float(ndtr((votes.max() - threshold) / sigma_threshold))
    ordered = np.sort(votes)[::-1]
    wrong = min(float(ndtr((ordered[1:] - ordered[0]) / (sigma * math.sqrt(2))).sum()), 1 - 1 / len(votes))
    one = renyi(math.log(min(answered, 1 - answered)), 2 * sigma_threshold**2) + answered * renyi(
        math.log(wrong), sigma**2
    )
    return float((queries * one - math.log(DELTA) / (ORDERS - 1)).min())


def main() -> None:
    """Print a Markdown table."""
    print("| setting | winner's share of votes | formula | exact | ratio |\n|---|---|---|---|---|")
    for name, (teachers, classes, threshold, sigma_threshold, sigma, queries) in SETTINGS.items():
        for share in (0.6, 0.7, 0.9, 0.99):
            rest = teachers * (1 - share)
            others = [rest] if classes == 2 else [rest / 2] + [rest / 2 / (classes - 2)] * (classes - 2)
            votes = np.array([teachers * share, *others])
            noise = (threshold, sigma_threshold, sigma)
            stated, reached = formula(votes, queries, *noise), exact(votes, queries, *noise)
            print(f"| {name} | {share:.0%} | {stated:.3f} | {reached:.3f} | {stated / reached:.2f} |")


if __name__ == "__main__":
    main()

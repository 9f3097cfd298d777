"""Time data-dependent privacy bounds: all queries at once, against one query and one order at a time.

    python benchmarks/pate_bounds.py --out benchmarks/results/pate-bounds.json

Both versions run in the same process. The plain version has the structure of the PATE papers' analysis code: a loop
over queries, and a scalar function for each order. It runs on a sample, and its seconds are scaled to all queries.
The votes called ``spread`` are as teachers cast them. Among those called ``distinct`` no two queries are equal, so
that computing equal queries only once saves nothing. ``--out`` keeps the figures as JSON, with the command that made
them.
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.privacy.cost.pate_gaussian import gaussian_log_q, gaussian_rdp
from fedkd_flwr.privacy.cost.pate_laplace import laplace_moments


def plain_laplace_moment(counts: list[float], gamma: float, order: float) -> float:
    """Return the log-moment of one query at one order (FedKT, Theorem 3)."""
    winner = counts.index(max(counts))
    gaps = [gamma * (counts[winner] - count) for i, count in enumerate(counts) if i != winner]
    q = min(sum((2 + gap) / (4 * math.exp(gap)) for gap in gaps), 1 - 1 / len(counts))
    pure = 2 * gamma
    independent = min(0.5 * pure * pure * order * (order + 1), pure * order)
    if q >= 1 / (math.exp(pure) + 1):
        return independent
    mean = (1 - q) * math.pow((1 - q) / (1 - math.exp(pure) * q), order) + q * math.exp(pure * order)
    return min(math.log(mean), independent)


def plain_gaussian_rdp(counts: list[float], sigma: float, order: float) -> float:
    """Return the Renyi divergence of one query at one order (PATE 2018, Theorem 6)."""
    winner = counts.index(max(counts))
    q = sum(math.erfc((counts[winner] - count) / (2 * sigma)) / 2 for i, count in enumerate(counts) if i != winner)
    q = min(q, 1 - 1 / len(counts))
    independent = order / sigma**2
    if q == 0:
        return 0.0
    log_q = math.log(q)
    mu2 = sigma * math.sqrt(-log_q)
    mu1 = mu2 + 1
    eps1, eps2 = mu1 / sigma**2, mu2 / sigma**2
    if not (mu2 > 1 and order <= mu1 and -log_q > eps2):
        return independent
    if log_q > (mu2 - 1) * eps2 - mu2 * (math.log(mu1 / (mu1 - 1)) + math.log(mu2 / (mu2 - 1))):
        return independent
    log_stay = math.log1p(-q)
    log_a = log_stay - math.log1p(-math.exp((log_q + eps2) * (1 - 1 / mu2)))
    log_b = eps1 - log_q / (mu1 - 1)
    log_mean = np.logaddexp(log_stay + (order - 1) * log_a, log_q + (order - 1) * log_b)
    return min(float(log_mean) / (order - 1), independent)


def measure(
    name: str,
    counts: NDArray[Any],
    orders: NDArray[np.float64],
    sample: int,
    together: Callable[[NDArray[Any]], NDArray[np.float64]],
    alone: Callable[[list[float], float], float],
) -> dict[str, Any]:
    """Time both versions, check that they agree on the sample, and return the figures."""
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        together(counts)
        seconds.append(time.perf_counter() - start)
    rows = counts[:sample].tolist()
    start = time.perf_counter()
    total = np.array([sum(alone(row, order) for row in rows) for order in orders.tolist()])
    plain = (time.perf_counter() - start) * len(counts) / sample
    difference = float(np.max(np.abs(together(counts[:sample]) / total - 1)))
    if not difference < 1e-9:
        sys.exit(f"{name}: the two versions differ by {difference:.1e} relative")
    vectorised = statistics.median(seconds)
    return {
        "case": name,
        "queries": len(counts),
        "orders": len(orders),
        "vectorised s": vectorised,
        "plain s": plain,
        "plain sample": sample,
        "ratio": plain / vectorised,
        "largest difference": difference,
    }


def main() -> None:
    """Parse the command line, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=100_000, help="default 100000")
    parser.add_argument("--orders", type=int, default=64, help="default 64: 1..64 (Renyi orders 2..65)")
    parser.add_argument("--classes", type=int, default=10, help="default 10")
    parser.add_argument("--voters", type=int, default=250, help="default 250")
    parser.add_argument("--gamma", type=float, default=0.05, help="inverse scale of the Laplace noise, default 0.05")
    parser.add_argument("--sigma", type=float, default=20.0, help="of the Gaussian noise, in votes, default 20")
    parser.add_argument("--sample", type=int, default=500, help="queries given to the plain version, default 500")
    parser.add_argument("--seed", type=int, default=1, help="of the votes, default 1")
    parser.add_argument("--out", type=Path, help="JSON file for the results")
    options = parser.parse_args()
    if not 1 <= options.sample <= options.queries:
        parser.error(f"--sample must be within 1..{options.queries}, got {options.sample}.")
    rng = np.random.default_rng(options.seed)
    shares = rng.dirichlet(np.full(options.classes, 0.1), options.queries)
    votes = {
        "spread": rng.multinomial(options.voters, shares),
        "distinct": options.voters * (shares + np.eye(options.classes)[shares.argmax(axis=1)]),
    }
    moments = np.arange(1.0, options.orders + 1)
    gamma, sigma, alphas = options.gamma, options.sigma, 1 + moments
    lines = []
    for kind, counts in votes.items():
        lines += [
            measure(
                f"laplace {kind}",
                counts,
                moments,
                options.sample,
                lambda rows: laplace_moments(rows, gamma=gamma, orders=moments),
                lambda row, order: plain_laplace_moment(row, gamma, order),
            ),
            measure(
                f"gaussian {kind}",
                counts,
                alphas,
                options.sample,
                lambda rows: gaussian_rdp(gaussian_log_q(rows, sigma), sigma=sigma, orders=alphas),
                lambda row, order: plain_gaussian_rdp(row, sigma, order),
            ),
        ]
    for figures in lines:
        print("  ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in figures.items()))
    if options.out:
        command = shlex.join(["python", "benchmarks/pate_bounds.py", *sys.argv[1:]])
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps({"command": command, "runs": lines}, indent=1) + "\n")


if __name__ == "__main__":
    main()

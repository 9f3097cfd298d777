"""What PATE's bounds share: one cost per distinct row of votes, moments turned into epsilon, and their checks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedkd_flwr.checks import check_number, check_whole
from fedkd_flwr.errors import ConfigError, DataError, explain

__all__ = [
    "EDGE",
    "FAR",
    "MOMENTS",
    "Floats",
    "check_counts",
    "check_noise",
    "check_orders",
    "log_expm1",
    "log_mean",
    "log_q_of",
    "per_query",
    "rdp_epsilon",
]

Floats = NDArray[np.float64]

MOMENTS = np.concatenate([np.geomspace(0.05, 0.9, 12), np.arange(1.0, 33.0), np.geomspace(36.0, 4096.0, 20)])
"""Orders l tried by default (Renyi orders 1 + l): every order gives a bound, more of them a smaller one."""
FAR = 1e9  # Gaps beyond this many units of noise are cut to it: q only grows, and no square overflows.
EDGE = 1e-6  # Margin around the point where a theorem's denominator is 0; inside it use the data-independent value.
_CELLS = 500_000  # Most numbers in one temporary array.


def rdp_epsilon(rdp: ArrayLike, *, orders: ArrayLike, delta: float) -> float:
    """Turn Renyi divergences into the smallest epsilon they prove at ``delta``, within (0, 1).

    That is the smallest ``rdp + ln(1-1/a) - ln(delta a)/(a-1)`` (Canonne, Kamath and Steinke, arXiv 2004.00010,
    Proposition 12), and 0 where already delta^2 > 1 - e^-rdp, as in dp-accounting. It holds for each pair of data sets,
    hence for data-dependent divergences. ``rdp`` holds bounds >= 0, one for each of the ``orders`` a > 1.

    >>> round(rdp_epsilon([0.5], orders=[11.0], delta=1e-5), 4)  # 0.5 + ln(10/11) + ln(1e5 / 11) / 10
    1.3162
    """
    alphas, values = check_orders(orders, above=1), np.asarray(rdp, dtype=np.float64)
    check_number("delta", delta, above=0, below=1, way_out="Use less than 1 / number of units.")
    if not (values.shape == alphas.shape and bool((values >= 0.0).all())):
        raise DataError(explain("rdp", "hold a number >= 0 per order", f"shape {values.shape}", "Check its orders."))
    epsilons = values - math.log(delta) / (alphas - 1.0)
    epsilons = epsilons + np.log1p(-1.0 / alphas) - np.log(alphas) / (alphas - 1.0)
    epsilons = np.where(delta * delta + np.expm1(-values) > 0.0, 0.0, epsilons)
    return max(0.0, float(epsilons.min()))


def log_q_of(counts: NDArray[Any], log_tail: Callable[[Floats], Floats]) -> Floats:
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


def per_query(rows: Floats, costs: Callable[[Floats], Floats], num_orders: int) -> Floats:
    """Add up the costs of all rows, shape (num_orders,): equal rows are computed once, and some rows at a time."""
    distinct, repeats = np.unique(rows, axis=0, return_counts=True)
    step = max(1, _CELLS // num_orders)
    total = np.zeros(num_orders)
    with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
        for start in range(0, len(distinct), step):
            part = slice(start, start + step)
            total += repeats[part].astype(np.float64) @ costs(distinct[part])
    return total


def log_mean(log_q: Floats, log_likely: Floats, log_other: Floats) -> Floats:
    """Return log((1-q) e^likely + q e^other) for exponents >= 0, precise also where it is nearly 0."""
    # Written as 1 + (1-q)(e^likely - 1) + q (e^other - 1), which adds positive terms only.
    likely = np.log1p(-np.exp(log_q)) + log_expm1(log_likely)
    mean: Floats = np.logaddexp(0.0, np.logaddexp(likely, log_q + log_expm1(log_other)))
    return mean


def log_expm1(x: Any) -> Any:
    """Return log(e^x - 1) for x >= 0 without overflow."""
    return x + np.log(-np.expm1(-x))


def check_noise(name: str, noise: float, votes: int = 1) -> tuple[float, int]:
    """Return noise > 0, and the whole number >= 1 of votes that one change can move."""
    return (
        check_number(name, noise, above=0, way_out="No noise, no guarantee."),
        check_whole("votes", votes, 1, way_out="Give how many votes one change can move."),
    )


def check_orders(orders: ArrayLike, *, above: int) -> Floats:
    """Return finite orders, each > ``above``, as floats of shape (num_orders,)."""
    values = np.atleast_1d(np.asarray(orders, dtype=np.float64))
    if not (values.ndim == 1 and values.size and bool(((values > above) & (values < math.inf)).all())):
        raise ConfigError(explain("orders", f"be finite numbers > {above}", repr(orders), "For example 2, 4, 8, 16."))
    return values


def check_counts(counts: ArrayLike) -> NDArray[Any]:
    """Return votes of shape (num_queries, num_classes), at least two classes, finite and >= 0."""
    matrix = np.asarray(counts)
    if not (matrix.ndim == 2 and matrix.shape[1] >= 2 and matrix.dtype.kind in "iuf"):
        seen = f"shape {matrix.shape}, dtype {matrix.dtype}"
        raise DataError(explain("counts", "be numbers of shape (queries, classes >= 2)", seen, "Count the votes."))
    if matrix.size and not (matrix.min() >= 0 and matrix.max() < math.inf):
        raise DataError(explain("counts", "be finite and >= 0", f"{matrix.min()} to {matrix.max()}", "Count again."))
    return matrix

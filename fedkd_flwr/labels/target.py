"""What the classes of a label with an order stand for: grades, or bins of a number.

Parties vote on classes, whatever these stand for. What a class stands for turns the probabilities of a model into a
number, or into the grade in the middle, and says how far such answers are from the truth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.errors import DataError, explain
from fedkd_flwr.labels.median import median

__all__ = ["Target", "bins_at", "bins_of"]

_GRID = 25  # steps in which true and predicted numbers are counted
_DIGITS = 4  # of bounds that are found


@dataclass(frozen=True, kw_only=True)
class Target:
    """The numbers that classes stand for.

    >>> target = Target(values=(5.0, 20.0), edges=(0.0, 10.0, 30.0))
    >>> target.encode(np.array([-3.0, 9.9, 10.0, 99.0])).tolist()
    [0, 0, 1, 1]
    >>> target.numbers(np.array([[0.5, 0.5]])).tolist()
    [12.5]
    """

    values: tuple[float, ...]  # ascending: a grade's number, or the representative of a bin
    edges: tuple[float, ...] = ()  # ascending: the bounds of bins, one more than there are values; empty for grades
    unit: str = ""  # of the numbers, for people

    def __post_init__(self) -> None:
        for name, numbers in (("values", self.values), ("edges", self.edges)):
            if not all(map(math.isfinite, numbers)) or list(numbers) != sorted({*numbers}):
                raise DataError(explain(f"{name} of the target", "be ascending numbers", list(numbers)))
        if len(self.values) < 2 or (self.edges and len(self.edges) != len(self.values) + 1):
            seen = f"{len(self.values)} values, {len(self.edges)} edges"
            raise DataError(explain("target", "have two values or more, and no edges or one more than values", seen))
        inside = all(a <= v <= b for v, a, b in zip(self.values, self.edges, self.edges[1:], strict=False))
        if self.edges and not inside:
            raise DataError(explain("values of the target", "lie in their bins", list(self.values)))

    @property
    def is_number(self) -> bool:
        """Whether answers are numbers; otherwise they are grades."""
        return bool(self.edges)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the bins, as classes."""
        short, long = (tuple(f"{a:.{n}g} to {b:.{n}g}" for a, b in pairwise(self.edges)) for n in (6, 12))
        return short if len({*short}) == len(short) else long

    def encode(self, numbers: NDArray[np.floating]) -> NDArray[np.int16]:
        """Return the bin of each number: from its lower bound on; what is outside all belongs to the nearest."""
        found: NDArray[np.int16] = np.searchsorted(self.edges[1:-1], numbers, side="right").astype(np.int16)
        return found

    def grades(self, probs: NDArray[np.floating]) -> NDArray[np.int16]:
        """Return the class in the middle of each row's probabilities, (rows,): the least absolute error expected."""
        return median(np.round(probs, 9), ties="lowest")

    def numbers(self, probs: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return the number that each row's probabilities answer, (rows,): the mean over bins, or the grade's own."""
        values = np.array(self.values)
        return np.asarray(probs @ values if self.is_number else values[self.grades(probs)])

    def figures(self, truth: NDArray[np.floating], answers: NDArray[np.floating]) -> dict[str, Any]:
        """Return how far answers are from the truth, by field of `fedkd_flwr.metrics.Metrics`; both of shape (n,).

        R2 is left out where all true numbers are equal.
        """
        error = answers - truth
        spread = float(((truth - truth.mean()) ** 2).sum())
        ends = (self.edges or self.values)[0], (self.edges or self.values)[-1]
        step = (ends[1] - ends[0]) / (_GRID - 1)
        cells = [np.rint((np.clip(one, *ends) - ends[0]) / step) * step + ends[0] for one in (truth, answers)]
        pairs, counts = np.unique(np.stack(cells, axis=1), axis=0, return_counts=True)
        rounded = [[float(f"{one:.6g}") for one in pair] for pair in pairs]
        return {
            "rmse": float(np.sqrt((error**2).mean())),
            "mae": float(np.abs(error).mean()),
            "r2": 1.0 - float((error**2).sum()) / spread if spread > 0 else None,
            "pairs": [(*pair, int(count)) for pair, count in zip(rounded, counts, strict=True)],
        }


def bins_at(edges: Sequence[float], *, unit: str = "") -> Target:
    """Return bins with these bounds; each stands for its middle.

    >>> bins_at([0, 10, 30]).values
    (5.0, 20.0)
    """
    return Target(values=tuple((a + b) / 2 for a, b in pairwise(edges)), edges=tuple(edges), unit=unit)


def bins_of(numbers: NDArray[np.floating], count: int, *, unit: str = "") -> Target:
    """Return at most ``count`` bins of equally many of these numbers; each stands for the mean of its own.

    Of few different numbers there are fewer bins; two there must be.

    >>> bins_of(np.array([1.0, 1.0, 2.0, 8.0]), 2)
    Target(values=(1.0, 5.0), edges=(1.0, 1.5, 8.0), unit='')
    """
    least, *inner, most = np.quantile(numbers, np.linspace(0.0, 1.0, count + 1)).tolist()
    above = float(numbers[numbers > least].min())  # where the lowest number fills all quantiles
    exact = sorted({edge for edge in inner if least < edge <= most}) or [above]
    scale = 10.0 ** (_DIGITS - 1 - math.floor(math.log10(most - least)))
    rounded = sorted({edge for edge in (round(edge * scale) / scale for edge in exact) if least < edge <= most})
    cuts = np.array(rounded if len(rounded) == len(exact) else exact)
    bins = np.searchsorted(cuts, numbers, side="right")
    held = np.unique(bins)  # rounding may leave a bin without a number
    edges = [least, *(float(cuts[k - 1]) for k in held[1:]), most]
    if edges[-1] == edges[-2]:  # the highest number is so common that it is a bin of its own
        edges[-1] = math.nextafter(edges[-1], math.inf)
    means = [float(numbers[bins == k].mean()) for k in held]
    values = [min(max(mean, low), high) for mean, low, high in zip(means, edges, edges[1:], strict=False)]
    return Target(values=tuple(values), edges=tuple(edges), unit=unit)

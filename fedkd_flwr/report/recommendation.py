"""What a party's own test rows say of its two models: which one to use, and with what evidence.

The two models were tested on the same rows, but a record holds their figures and not their answers row by row. Their
errors are therefore taken as independent, which overstates the standard error where both fail on the same rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

from fedkd_flwr.metrics import Metrics
from fedkd_flwr.record.run_record import PartyRecord
from fedkd_flwr.report import derived

__all__ = [
    "LEAST_ROWS",
    "LEVEL",
    "Difference",
    "Recommendation",
    "class_differences",
    "difference",
    "only_class",
    "recommendation",
]

LEVEL = 0.95  # of confidence: of one difference, or of all classes together
LEAST_ROWS = 10  # of fewer test rows no difference is clear: the interval is an approximation

Verdict = Literal["stay alone", "federated", "both, by class", "no recommendation"]


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A figure of two models on the same ``n`` rows, and the standard error of the difference.

    ``rarest`` is the number of rows of the rarest class, where the figure counts every class alike.
    """

    alone: float
    after: float
    error: float
    n: int
    rarest: int | None = None

    @property
    def value(self) -> float:
        """How much higher the figure is with the federation."""
        return self.after - self.alone

    def clear(self, comparisons: int = 1) -> bool:
        """Tell whether the difference is more than noise, at `LEVEL` for so many comparisons together (Bonferroni)."""
        return not self.too_few and abs(self.value) > self.margin(comparisons)

    @property
    def too_few(self) -> bool:
        """Whether the figure rests on fewer than `LEAST_ROWS` rows: one right answer more may decide."""
        return min(self.n, self.n if self.rarest is None else self.rarest) < LEAST_ROWS

    def margin(self, comparisons: int = 1) -> float:
        """Return half the length of the confidence interval."""
        return NormalDist().inv_cdf(1 - (1 - LEVEL) / 2 / comparisons) * self.error

    def text(self) -> str:
        """Return the figures, the difference with its confidence interval's half, and the rows.

        >>> Difference(alone=0.9, after=0.78, error=0.02, n=200).text()
        '0.900 alone, 0.780 with the federation: -0.120 ± 0.039 on 200 rows'
        """
        change = f"{self.value:+.3f} ± {self.margin():.3f}"
        rows = f"{self.n:,} rows" + ("" if self.rarest is None else f", {self.rarest:,} of them of the rarest class")
        return f"{self.alone:.3f} alone, {self.after:.3f} with the federation: {change} on {rows}"


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """Which model a party should use, and why, in a sentence."""

    verdict: Verdict
    why: str


def _error(shares: Sequence[tuple[float, float]], sizes: Sequence[int]) -> float:
    """Return the standard error of the mean difference of shares, by Agresti and Caffo's rule for each of them.

    One right and one wrong row are added to each sample ("Simple and Effective Confidence Intervals for Proportions
    and Differences of Proportions", The American Statistician 54(4), 2000): a share of 0 or 1 of few rows is no proof.
    """
    total = 0.0
    for pair, n in zip(shares, sizes, strict=True):
        for share in pair:
            p = (share * n + 1) / (n + 2)
            total += p * (1 - p) / (n + 2)
    return math.sqrt(total) / len(sizes)


def difference(alone: Metrics | None, after: Metrics | None, figure: str = "accuracy") -> Difference | None:
    """Return the difference of a figure between two models on the same rows; None where its error is not known.

    Parameters
    ----------
    alone, after : Metrics or None
        Of the model trained alone and of the one trained with the federation, on the same rows.
    figure : {"accuracy", "balanced_accuracy"}
        Of balanced accuracy the recalls of all classes must be known.

    Examples
    --------
    >>> difference(Metrics(n=100, accuracy=0.9), Metrics(n=100, accuracy=0.6)).clear()
    True
    """
    if alone is None or after is None or alone.n != after.n:
        return None
    values = getattr(alone, figure), getattr(after, figure)
    if None in values:
        return None
    rarest = None
    if figure == "accuracy":
        error = _error([values], [alone.n])
    else:
        by_class = class_differences(alone, after)
        if not by_class or None in alone.support:
            return None
        sizes = [d.n for d in by_class.values()]
        error, rarest = _error([(d.alone, d.after) for d in by_class.values()], sizes), min(sizes)
    return Difference(alone=values[0], after=values[1], error=error, n=alone.n, rarest=rarest)


def class_differences(alone: Metrics | None, after: Metrics | None) -> dict[int, Difference]:
    """Return the difference of recall for each class whose recalls are known and that has test rows."""
    found: dict[int, Difference] = {}
    if alone is None or after is None:
        return found
    for c, (one, two, n) in enumerate(zip(alone.recall, after.recall, alone.support, strict=False)):
        if one is not None and two is not None and n:
            found[c] = Difference(alone=one, after=two, error=_error([(one, two)], [n]), n=n)
    return found


def only_class(measured: Metrics) -> int | None:
    """Return the class of all test rows, where there are others: a model that always gives it is right on each.

    >>> only_class(Metrics(n=9, support=[0, 9])), only_class(Metrics(n=9, support=[1, 8]))
    (1, None)
    """
    held = [c for c, n in enumerate(measured.support) if n is None or n]
    return held[0] if len(held) == 1 < len(measured.support) else None


def recommendation(
    party: PartyRecord, *, classes: Sequence[str] = (), figure: str = "accuracy"
) -> Recommendation | None:
    """Return which of a party's models its own test rows speak for; None where they were not measured on both.

    A difference counts only where it is more than noise, and test rows are of several classes. A class counts
    where recall changes by more than noise, at `LEVEL` for all its classes together, and F1 in the same direction: a
    model that gives this class to every row has a full recall too.

    Parameters
    ----------
    party : PartyRecord
        With its models' metrics.
    classes : sequence of str
        Class names.
    figure : {"accuracy", "balanced_accuracy"}
        What the recommendation goes by.

    Examples
    --------
    >>> party = PartyRecord(name="a", solo={"own": Metrics(n=100, accuracy=0.9)})
    >>> party.federated["own"] = Metrics(n=100, accuracy=0.6)
    >>> recommendation(party).verdict
    'stay alone'
    """
    alone, after = party.solo.get("own"), party.federated.get("own")
    found = difference(alone, after, figure)
    if found is None:
        found, figure = difference(alone, after), "accuracy"
    if found is None or alone is None or after is None:
        return None
    why = f"{figure.replace('_', ' ').capitalize()} on own test rows: {found.text()}."
    won, lost = _changed_classes(alone, after)
    if won and lost:
        why += f" Better with the federation: {_named(won, classes)}. Better alone: {_named(lost, classes)}."
        return Recommendation(verdict="both, by class", why=why)
    if found.clear():
        verdict: Verdict = "federated" if found.value > 0 else "stay alone"
    else:
        of = "" if found.n < LEAST_ROWS else " of the rarest class"
        reason = f"Fewer than {LEAST_ROWS} rows{of}: too few to say." if found.too_few else "That is within noise."
        verdict, why = "no recommendation", f"{why} {reason}"
    if (only := only_class(alone)) is not None:
        verdict = "no recommendation"
        why += (
            f" All own test rows are of class {derived.class_name(classes, only)}: they show nothing of other classes."
        )
    common = difference(party.solo.get("common"), party.federated.get("common"), figure)
    if common is not None and common.clear() and verdict != "federated":
        better = "federation" if common.value > 0 else "model trained alone"
        why += f" On rows like those of all parties the {better} is better: {common.text()}."
    return Recommendation(verdict=verdict, why=why)


def _changed_classes(alone: Metrics, after: Metrics) -> tuple[dict[int, Difference], dict[int, Difference]]:
    """Return the classes that are clearly better with the federation, and those that are clearly worse."""
    by_class = class_differences(alone, after)
    won: dict[int, Difference] = {}
    lost: dict[int, Difference] = {}
    for c, change in by_class.items():
        f1 = [one.f1[c] if c < len(one.f1) else None for one in (alone, after)]
        if None in f1 or not change.clear(len(by_class)):
            continue
        if change.value > 0 and f1[1] > f1[0]:  # type: ignore[operator]
            won[c] = change
        elif change.value < 0 and f1[1] < f1[0]:  # type: ignore[operator]
            lost[c] = change
    return won, lost


def _named(changes: dict[int, Difference], classes: Sequence[str]) -> str:
    return ", ".join(
        f"{derived.class_name(classes, c)} (recall {d.alone:.2f} alone, {d.after:.2f} with it, {d.n} rows)"
        for c, d in changes.items()
    )

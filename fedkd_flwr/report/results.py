"""What the models of a run reached on test rows: the table, the pictures and the page all take it from here."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from fedkd_flwr.metrics import Metrics, imbalanced
from fedkd_flwr.record.run_record import PartyRecord, RunRecord
from fedkd_flwr.report.formatting import count, is_number, share

__all__ = ["FIGURES", "OF_NUMBERS", "ROWS", "SIMULATION_ONLY", "Figures", "Spread", "baseline", "class_name"]
__all__ += ["figure_used", "figures", "figures_shown", "fixed_answer", "known", "means", "models", "of_kinds", "pairs"]
__all__ += ["rarest_class", "rarest_in_brackets", "rows_used", "simulation_only", "spread", "test_rows", "written"]

_Made = TypeVar("_Made")
SIMULATION_ONLY = "known in simulation only; at real silos they stay with the party"
FIGURES = {
    "balanced_accuracy": "bal.acc",
    "accuracy": "acc",
    "baseline": "base",
    "macro_f1": "F1",
    "roc_auc": "AUC",
    "average_precision": "AP",
    "log_loss": "log loss",
    "brier": "Brier",
    "calibration_error": "ECE",
    "rmse": "RMSE",
    "mae": "MAE",
    "r2": "R2",
}
"""Figures of `Metrics` that are one number, with their names in a table (docs/reference/metrics.md explains them)."""
OF_NUMBERS = ("r2", "rmse", "mae")
"""Those of a label with an order: numbers, or grades. The first is compared, because more of it is better."""
ROWS = {"common": "common test rows", "own": "each party's own test rows"}


class Spread(NamedTuple):
    """The mean, the lowest and the highest of some numbers."""

    mean: float
    lowest: float
    highest: float

    def span(self) -> str:
        """Return ``lowest to highest``."""
        return f"{self.lowest:.3f} to {self.highest:.3f}"

    def text(self) -> str:
        """Return ``mean (lowest to highest)``."""
        return f"{self.mean:.3f} ({self.span()})"


def spread(values: Iterable[object]) -> Spread | None:
    """Return the spread of the finite numbers among ``values``, or None if there are none."""
    known = [float(v) for v in values if is_number(v)]  # type: ignore[arg-type]
    return Spread(statistics.fmean(known), min(known), max(known)) if known else None


def known(measured: Mapping[str, Metrics], rows: str, figure: str = "accuracy") -> float | None:
    """Return one figure on some test rows, None where it is not known.

    ``measured``: ``solo`` or ``federated`` of a party, ``server`` or ``centralised`` of a record. ``rows``: a key of
    `ROWS`. ``figure``: a field of `Metrics` that holds one number.
    """
    value: float | None = getattr(measured.get(rows), figure, None)
    return value if is_number(value) else None


def rows_used(record: RunRecord) -> str:
    """Return the key of the test rows to report first: those that most models of parties were tested on.

    It is ``"common"`` where there are as many of both, or none. One party that reports on rows that nobody else has
    must not hide what the others report.
    """
    measured = [one for p in record.parties for one in (p.solo, p.federated)]
    return max(ROWS, key=lambda rows: sum(rows in one for one in measured))


def pairs(record: RunRecord, rows: str, figure: str = "accuracy") -> list[tuple[PartyRecord, float, float]]:
    """Return (party, figure alone, figure with the federation) for each party that has both.

    The party with the lowest figure alone comes first. ``rows`` and ``figure`` as in `known`.
    """
    found = ((p, known(p.solo, rows, figure), known(p.federated, rows, figure)) for p in record.parties)
    both = [(p, alone, after) for p, alone, after in found if alone is not None and after is not None]
    return sorted(both, key=lambda item: (item[1], item[2], item[0].name))


def means(both: list[tuple[PartyRecord, float, float]]) -> tuple[float, float]:
    """Return the mean accuracy alone and the mean accuracy with the federation, given non-empty `pairs`."""
    return statistics.fmean(alone for _, alone, _ in both), statistics.fmean(after for _, _, after in both)


def of_kinds(record: RunRecord, make: Callable[[list[Metrics | None]], _Made]) -> dict[str, _Made]:
    """Return what ``make`` makes of all parties alone, all with the federation and the server's model, if anything."""
    rows = rows_used(record)
    parties = [[measured.get(rows) for measured in of] for _, of in models(record)[:3]]
    made = zip(("alone (SOLO)", "with the federation", "server's model"), map(make, parties), strict=True)
    return {name: one for name, one in made if one}


def figure_used(record: RunRecord, rows: str) -> str:
    """Return the figure to report first on these test rows: ``"r2"``, ``"balanced_accuracy"`` or ``"accuracy"``.

    It is R2 where models answer with numbers or grades, and balanced accuracy where the classes of all test rows are
    `imbalanced`, or where nobody reports an accuracy. A figure that half as many models have as the other one, or
    fewer, does not lead: it would hide the rest.
    """
    found = [m for _, measured in models(record) for one in measured if (m := one.get(rows))]
    if any(m.r2 is not None for m in found):
        return "r2"
    supports = [m.support for m in found if m.support and None not in m.support]
    rare = imbalanced(sum(c or 0 for c in counts) for counts in zip(*supports, strict=True))
    having = {name: sum(getattr(m, name) is not None for m in found) for name in ("accuracy", "balanced_accuracy")}
    has = {name for name, count in having.items() if count and 2 * count > max(having.values())}
    return "balanced_accuracy" if "balanced_accuracy" in has and (rare or "accuracy" not in has) else "accuracy"


def figures_shown(record: RunRecord) -> dict[str, str]:
    """Return the figures that a table of this run shows, with their names: those of numbers, or those of classes."""
    numbers = any(m.rmse is not None for _, measured in models(record) for one in measured for m in one.values())
    return {name: text for name, text in FIGURES.items() if (name in OF_NUMBERS) is numbers}


def written(value: object, figure: str) -> str:
    """Return a figure as text: errors are in the label's unit, and have four digits.

    >>> written(12345.6, "rmse"), written(0.5, "r2")
    ('12,350', '0.500')
    """
    return f"{float(f'{value:.4g}'):,g}" if figure in ("rmse", "mae") and is_number(value) else share(value)


def baseline(record: RunRecord, rows: str) -> float | None:
    """Return the accuracy of always answering the commonest class of these test rows; None where it is not known.

    It is not told where models answer with numbers or grades.
    Of each party's own test rows: the mean over the parties, each with the commonest class of its own rows.
    """
    for _, measured in models(record) if figure_used(record, rows) != "r2" else ():
        if found := spread(known(one, rows, "baseline") for one in measured):
            return found.mean
    return None


def fixed_answer(record: RunRecord, rows: str) -> float | None:
    """Return the balanced accuracy of any fixed answer on these test rows: 1 / classes that occur, None if not known.

    Of each party's own test rows: the mean over the parties.
    """
    for _, measured in models(record):
        supports = [m.support for one in measured if (m := one.get(rows)) and m.support and None not in m.support]
        if supports:
            return statistics.fmean(1 / sum(map(bool, support)) for support in supports)
    return None


def rarest_class(record: RunRecord, rows: str) -> tuple[int, int] | None:
    """Return the class with the fewest of these test rows, and how many it has; None where a party holds that back.

    Each party's own test rows are counted together, classes without rows are passed over.
    """
    for _, measured in models(record):
        supports = [m.support for one in measured if (m := one.get(rows))]
        if supports and all(support and None not in support for support in supports):
            add = max if rows == "common" else sum
            counts = [(add(n or 0 for n in held), c) for c, held in enumerate(zip(*supports, strict=True))]
            held, c = min(count for count in counts if count[0])
            return c, held
    return None


def figure_name(figure: str) -> str:
    """Return a figure's name in a sentence."""
    return "R2" if figure == "r2" else figure.replace("_", " ")


def rarest_in_brackets(record: RunRecord, rows: str) -> str:
    """Return how many test rows the rarest class has, in brackets; "" where another figure leads."""
    if figure_used(record, rows) != "balanced_accuracy" or (found := rarest_class(record, rows)) is None:
        return ""
    return f" (by {count(found[1], 'test row', 'test rows')} of the rarest class)"


def models(record: RunRecord) -> list[tuple[str, list[Mapping[str, Metrics]]]]:
    """Return who is measured, and the metrics of all such models by test rows."""
    return [
        ("alone", [p.solo for p in record.parties]),
        ("federated", [p.federated for p in record.parties]),
        ("server", [record.server]),
        ("centralised", [record.centralised]),
    ]


class Figures(NamedTuple):
    """The means of figures over the models of one kind on test rows of one kind."""

    who: str  # ``alone``, ``federated``, ``server`` or ``centralised``
    rows: str  # a key of `ROWS`
    n: int  # test rows; of each party's own: of all parties together
    means: dict[str, float]  # by key of `FIGURES`; figures that nobody reports are left out
    fewer: dict[str, int]  # how many models have a figure that others lack: there is no AUC on rows of one class

    def text(self, figure: str) -> str:
        """Return a mean as text; where some models lack the figure, with how many have it."""
        of = f" (of {self.fewer[figure]})" if figure in self.fewer else ""
        return written(self.means.get(figure), figure) + of


def figures(record: RunRecord) -> list[Figures]:
    """Return one entry for each kind of model and of test rows that was measured."""
    found = []
    for rows in ROWS:
        for who, measured in models(record):
            if ms := [m for one in measured if (m := one.get(rows))]:
                known = {name: [v for m in ms if is_number(v := getattr(m, name))] for name in FIGURES}
                n = max(m.n for m in ms) if rows == "common" else sum(m.n for m in ms)
                means = {name: statistics.fmean(values) for name, values in known.items() if values}
                fewer = {name: len(values) for name, values in known.items() if 0 < len(values) < len(ms)}
                found.append(Figures(who, rows, n, means, fewer))
    return found


def test_rows(record: RunRecord) -> dict[str, int]:
    """Return how many test rows there are of each kind; of the parties' own: of all of them together."""
    return {one.rows: one.n for one in sorted(figures(record), key=lambda one: one.n)}


def simulation_only(record: RunRecord) -> bool:
    """Tell whether the parties' accuracies are known only because this run is a simulation.

    At real silos a party that hides its labels from the server by noise does not report accuracies either.
    """
    return record.simulation and any(claim.get("adversary") == "server" for claim in record.claims)


def class_name(classes: Sequence[str], number: int) -> str:
    """Return a class's name, ``class 3`` where the record names none."""
    return str(classes[number]) if number < len(classes) else f"class {number}"

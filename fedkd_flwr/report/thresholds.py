"""What a threshold does where there are two classes: ROC and precision-recall curves, and a small table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from fedkd_flwr.metrics import SCORE_BINS, Metrics
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.report import results
from fedkd_flwr.report.canvas import GREY, Canvas, Plot
from fedkd_flwr.report.formatting import plain, share
from fedkd_flwr.report.html import Table
from fedkd_flwr.report.model_plots import LOOKS

__all__ = ["Point", "curves_plot", "points", "threshold_table", "thresholds_explained"]

_SHOWN = range(5, SCORE_BINS, 5)  # bins at whose edges the table stands: 0.1, 0.2, ...


class Point(NamedTuple):
    """What one threshold does. Precision is 1 where no row is answered positive: there no answer is wrong."""

    threshold: float
    answered: float  # share of all rows that is answered positive
    precision: float
    recall: float  # of positive rows
    false_alarms: float  # share of negative rows that is answered positive
    balanced: float  # balanced accuracy


def points(measured: Iterable[Metrics | None]) -> list[Point]:
    """Return what each threshold does, of several models together, from 0; [] where not both classes have rows.

    A row is answered positive where the probability of class 1 is the threshold or more.

    >>> found = points([Metrics(n=4, score_counts=[(10, 2, 0), (40, 0, 2)]), None])
    >>> found[0].precision, found[11].balanced, found[50].recall
    (0.5, 1.0, 0.0)
    """
    counts = np.zeros((SCORE_BINS + 1, 2))
    for found in measured:
        for k, *rows in found.score_counts if found is not None else []:
            counts[k] += rows
    false, true = counts[::-1].cumsum(axis=0)[::-1].T  # rows of each class whose probability is the threshold or more
    if not false[0] or not true[0]:
        return []
    alarms, recall, answered = false / false[0], true / true[0], false + true
    precision = np.where(answered, true / np.maximum(answered, 1), 1.0)
    columns = (answered / answered[0], precision, recall, alarms, (recall + 1.0 - alarms) / 2.0)
    return [Point(k / SCORE_BINS, *row) for k, row in enumerate(np.stack(columns, axis=1).tolist())]


def _positive(record: RunRecord) -> str:
    return plain(results.class_name(record.classes, 1), 30)


def curves_plot(record: RunRecord) -> Plot:
    """Draw ROC and precision-recall curves: all parties alone, all with the federation, the server's model.

    Parameters and errors are those of `accuracy_plot`. Nothing is drawn, or said, of more than two classes.
    """
    lines = results.of_kinds(record, points)
    if not lines:
        return Plot()
    with Canvas(3.0) as canvas:
        roc, precision = canvas.figure.subplots(1, 2)
        roc.plot([0, 1], [0, 1], color=GREY, linewidth=1.0, linestyle=":")
        for name, curve in lines.items():
            colour, style = LOOKS[name]
            look = {"color": colour, "linestyle": style, "linewidth": 1.6, "label": name}
            roc.plot([p.false_alarms for p in curve], [p.recall for p in curve], **look)
            kept = [p for p in curve if p.answered]
            precision.plot([p.recall for p in kept], [p.precision for p in kept], **look)
        for axes, x, y in ((roc, "false alarms", "recall"), (precision, "recall", "precision")):
            axes.set(xlabel=x, ylabel=y, xlim=(-0.03, 1.03), ylim=(-0.03, 1.05))
            axes.set_aspect("equal")
            axes.grid()
        canvas.figure.legend(*roc.get_legend_handles_labels(), loc="outside upper left", ncols=len(lines))
        svg = canvas.svg("curves")
    name, best = list(lines)[-1], _best(list(lines.values())[-1])
    found = f"{best.recall:.0%} of {_positive(record)}, with {best.false_alarms:.0%} false alarms"
    caption = (
        f"All such models together, on {results.ROWS[results.rows_used(record)]}. Left the ROC curve, right precision "
        f"against recall, of class {_positive(record)}, from counts in {SCORE_BINS} bins of its probability. False "
        "alarms are the share of the other class's rows that is answered positive. The dotted line is guessing."
    )
    return Plot(title=f"At the best threshold ({name}): {found}", svg=svg, caption=caption)


def _best(curve: list[Point]) -> Point:
    """Return the point of the highest balanced accuracy; of equal ones that nearest to 0.5."""
    return max(curve, key=lambda p: (round(p.balanced, 9), -abs(p.threshold - 0.5)))


def threshold_table(record: RunRecord) -> Table:
    """Return what some thresholds do, and the best one; no rows where no model has `points`."""
    header = ["threshold", "answered positive", "precision", "recall", "balanced accuracy"]
    curve = list(lines.values())[-1] if (lines := results.of_kinds(record, points)) else []
    shown = [p for k, p in enumerate(curve) if k in _SHOWN or p == _best(curve)]
    figures = [(p.answered, p.precision if p.answered else None, p.recall, p.balanced) for p in shown]
    cells = [(f"{p.threshold:.2f}", *map(share, found)) for p, found in zip(shown, figures, strict=True)]
    return Table("What a threshold does", header, cells, range(5))


def thresholds_explained(record: RunRecord) -> str:
    """Return whose thresholds these are, and which is best."""
    name, curve = list(results.of_kinds(record, points).items())[-1]
    whose = {"server's model": "the server's model", "alone (SOLO)": "all parties' models alone, together"}
    moved = f" (of models that carry class shares with --class-shares {'taught' if record.claims else 'common'})"
    moved = moved if name == "with the federation" and results.rows_used(record) == "common" else ""
    return (
        f"Of {whose.get(name, 'all parties together, with the federation')}: a row is answered {_positive(record)} "
        f"where its probability is the threshold or more, as with fedkd predict --threshold{moved}. Balanced "
        f"accuracy is highest at {_best(curve).threshold:.2f}; chosen on these test rows, so expect less on new ones."
    )

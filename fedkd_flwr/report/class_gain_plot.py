"""The picture of each class's recall, alone and with the federation."""

from __future__ import annotations

import statistics

from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.report import derived
from fedkd_flwr.report.dumbbells import dumbbells
from fedkd_flwr.report.figure import Canvas, Plot
from fedkd_flwr.report.formatting import count, plain

__all__ = ["ClassGain", "class_gain_plot", "class_gains"]

_MOST_CLASSES = 30  # of more classes those that changed most are drawn

ClassGain = tuple[int, float, float, int]
"""A class, its recall alone and with the federation, and the test rows behind them (all parties' together)."""


def class_gains(record: RunRecord, rows: str) -> list[ClassGain]:
    """Return each class's recall alone and with the federation, over the test rows of all parties.

    A party's recall of a class counts by its test rows of that class; parties that hold either figure back, or have no
    such row, do not count. The class with the lowest recall alone comes first.
    """
    sums: dict[int, list[float]] = {}
    for party in record.parties:
        alone, after = party.solo.get(rows), party.federated.get(rows)
        if alone is None or after is None:
            continue
        for c, (one, two, n) in enumerate(zip(alone.recall, after.recall, alone.support, strict=False)):
            if one is not None and two is not None and n:
                total = sums.setdefault(c, [0.0, 0.0, 0.0])
                for i, value in enumerate((one * n, two * n, n)):
                    total[i] += value
    return sorted(((c, a / n, b / n, int(n)) for c, (a, b, n) in sums.items()), key=lambda item: (item[1], item[0]))


def class_gain_plot(record: RunRecord) -> Plot:
    """Draw the recall of each class alone and with the federation, from the worst alone to the best alone.

    Parameters and errors are those of `accuracy_plot`.
    """
    rows = derived.rows_used(record)
    found = class_gains(record, rows)
    if not found:
        return Plot(title="Recall of each class", svg="", caption="Not drawn: the parties' recalls are not known.")
    lost = [item for item in found if item[2] < item[1]]
    before, after = statistics.fmean(a for _, a, _, _ in found), statistics.fmean(b for _, _, b, _ in found)
    title = (
        f"Recall, mean of {count(len(found), 'class', 'classes')}: {before:.2f} alone, {after:.2f} with the "
        f"federation; {len(lost)} lost"
    )
    drawn = found
    if len(found) > _MOST_CLASSES:
        kept = set(sorted(found, key=lambda item: -abs(item[2] - item[1]))[:_MOST_CLASSES])
        drawn = [item for item in found if item in kept]
    with Canvas(1.55 + 0.235 * len(drawn)) as canvas:
        axes = canvas.figure.add_subplot()
        names = [f"{plain(derived.class_name(record.classes, c), 24)} ({n:,})" for c, _, _, n in drawn]
        dumbbells(axes, names, [a for _, a, _, _ in drawn], [b for _, _, b, _ in drawn])
        axes.set_xlabel(f"recall: share of a class's rows that are found, on {derived.ROWS[rows]}")
        axes.set_ylabel("class (rows, once for each party)" if rows == "common" else "class (rows)")
        axes.set_xlim(-0.03, 1.03)
        axes.grid(axis="x")
        canvas.title(title)
        canvas.legend(axes)
        svg = canvas.svg("classes")
    caption = (
        f"Each line is one class. It goes from the parties' recall alone (hollow circle) to their recall with the "
        f"federation (full circle), on {derived.ROWS[rows]}. An orange line means that the class "
        f"lost, a hollow circle alone that both are equal. {derived.rows_counted(rows)}"
    )
    if len(drawn) < len(found):
        caption += f" Of {len(found)} classes the {len(drawn)} that changed most are drawn."
    return Plot(title=title, svg=svg, caption=caption)

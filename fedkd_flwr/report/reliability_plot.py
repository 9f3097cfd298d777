"""The picture of calibration: how often a model is right where it says it is sure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from fedkd_flwr.metrics import BINS, Metrics
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.report import derived
from fedkd_flwr.report.figure import BLUE, GREEN, GREY, INK, Canvas, Plot

__all__ = ["merged", "reliability_plot"]

Bin = tuple[float, float, float]
"""Rows, their mean confidence, and the share of them that is right."""


def merged(measured: Iterable[Metrics | None]) -> list[Bin]:
    """Return the bins of several models together, from the lowest confidence.

    >>> merged([Metrics(n=4, reliability=[[4, 0.5, 0.25]]), Metrics(n=4, reliability=[[4, 0.52, 0.75]]), None])
    [(8.0, 0.51, 0.5)]
    """
    sums: dict[int, list[float]] = {}
    for found in measured:
        for n, sure, right in found.reliability if found is not None else []:
            place = min(max(math.ceil(sure * BINS - 1e-9) - 1, 0), BINS - 1)
            total = sums.setdefault(place, [0.0, 0.0, 0.0])
            for i, value in enumerate((n, n * sure, n * right)):
                total[i] += value
    return [(n, sure / n, right / n) for _, (n, sure, right) in sorted(sums.items())]


def reliability_plot(record: RunRecord) -> Plot:
    """Draw the share of right answers over confidence: all parties alone, all with the federation, the server's model.

    Parameters and errors are those of `accuracy_plot`.
    """
    rows = derived.rows_used(record)
    candidates = [
        ("alone (SOLO)", merged(p.solo.get(rows) for p in record.parties), INK, "o", "--"),
        ("with the federation", merged(p.federated.get(rows) for p in record.parties), BLUE, "s", "-"),
        ("server's model", merged([record.server.get(rows)]), GREEN, "D", "-."),
    ]
    lines = [line for line in candidates if line[1]]
    if not lines:
        caption = "Not drawn: no model gave probabilities, or they are not in the record."
        return Plot(title="How sure, and how right", svg="", caption=caption)
    name, bins = lines[-1][0], lines[-1][1]
    error, gap = _errors(bins)
    how = "too sure of itself" if gap > 0 else "not sure enough"
    title = f"Confidence and truth differ by {error:.2f} on average ({name}); on balance it is {how}, by {abs(gap):.2f}"
    if abs(gap) < 0.005:
        title = f"Confidence and truth differ by {error:.2f} on average ({name}), in both directions"
    with Canvas(3.6) as canvas:
        axes = canvas.figure.add_subplot()
        axes.plot([0, 1], [0, 1], color=GREY, linewidth=1.0, linestyle=":", label="as sure as right")
        for label, found, colour, marker, style in lines:
            most = max(n for n, _, _ in found)
            x, y = [sure for _, sure, _ in found], [right for _, _, right in found]
            axes.plot(x, y, color=colour, linestyle=style, linewidth=1.5, label=label)
            axes.scatter(x, y, s=[8 + 60 * n / most for n, _, _ in found], color=colour, marker=marker, zorder=3)
        axes.set_xlabel("confidence: the probability that the model gives to its answer")
        axes.set_ylabel("share of answers that are right")
        axes.set_xlim(-0.02, 1.02)
        axes.set_ylim(-0.02, 1.05)
        axes.grid()
        canvas.title(title)
        canvas.legend(axes)
        svg = canvas.svg("reliability")
    whose = derived.whose(record, rows, lambda found: found.reliability, server=bool(candidates[2][1]))
    caption = (
        f"{whose}, on {derived.ROWS[rows]}, in {BINS} bins of confidence; a larger mark "
        "holds more rows. Below the dotted line a model is right less often than it says."
    )
    return Plot(title=title, svg=svg, caption=caption)


def _errors(bins: Sequence[Bin]) -> tuple[float, float]:
    """Return the expected calibration error, and by how much confidence exceeds truth on balance."""
    total = sum(n for n, _, _ in bins)
    error = sum(n * abs(sure - right) for n, sure, right in bins) / total
    return error, sum(n * (sure - right) for n, sure, right in bins) / total

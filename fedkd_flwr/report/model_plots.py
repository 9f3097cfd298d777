"""The pictures of classes that are mistaken for each other, and of predicted over true numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from fedkd_flwr.metrics import Metrics
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.report import results
from fedkd_flwr.report.canvas import BLUE, GREEN, GREY, INK, Canvas, Plot
from fedkd_flwr.report.formatting import plain

__all__ = ["LOOKS", "added", "confusion_plot", "numbers_plot", "pooled"]

_NAMED_IN_MATRIX = 15
_WRITTEN = 12  # of more classes the shares are not written

LOOKS = {"alone (SOLO)": (INK, "--"), "with the federation": (BLUE, "-"), "server's model": (GREEN, "-.")}
"""Colour and line of each kind of models in a picture."""


def pooled(measured: Iterable[Metrics | None]) -> list[list[int]]:
    """Return the sum of confusion matrices that are known as a whole; [] if none is.

    >>> pooled([Metrics(n=3, confusion=[[1, 1], [0, 1]]), Metrics(n=1, confusion=[[0, 1], [0, 0]]), None])
    [[1, 2], [0, 1]]
    """
    total: list[list[int]] = []
    for found in measured:
        if found is None or not _is_whole(found):
            continue
        whole = [row for row in found.confusion if row is not None]
        total = total or [[0] * len(whole) for _ in whole]
        if len(total) == len(whole):
            total = [[a + b for a, b in zip(x, y, strict=True)] for x, y in zip(total, whole, strict=True)]
    return total


def _is_whole(found: Metrics) -> bool:
    return bool(found.confusion) and None not in found.confusion


def confusion_plot(record: RunRecord) -> Plot:
    """Draw confusion matrices side by side: all parties alone, all with the federation, or the server's model.

    Parameters and errors are those of `accuracy_plot`. Nothing is drawn where classes are bins of a number.
    """
    rows = results.rows_used(record)
    if results.figure_used(record, rows) == "r2":
        return Plot()
    shown = results.of_kinds(record, pooled)
    if "with the federation" in shown and "alone (SOLO)" in shown:
        shown.pop("server's model", None)  # two panels can be read on a narrow page, three cannot
    if not shown:
        return Plot(title="Which classes are confused", caption="Not drawn: no confusion matrix is known.")
    last, matrix = list(shown.items())[-1]
    title = _title(last, matrix, record)
    classes = len(matrix)
    with Canvas(3.1 if len(shown) > 1 else 4.6) as canvas:
        all_axes = canvas.figure.subplots(1, len(shown), squeeze=False, sharey=True)[0]
        for axes, (name, counts) in zip(all_axes, shown.items(), strict=True):
            _draw(canvas, axes, counts, record, size=6.5 if len(shown) > 1 and classes > 5 else 8.5)
            axes.set_title(name, fontsize=9.5, weight="normal")
            axes.set_xlabel("predicted class" if classes <= _NAMED_IN_MATRIX else f"predicted: {classes} classes")
        all_axes[0].set_ylabel("true class")
        svg = canvas.svg("confusion")
    caption = (
        f"All such models together, on {results.ROWS[rows]}. Each line is a true class and adds up to 1, the fullest "
        "colour; the diagonal is its recall. A full column off the diagonal is a class that swallows others."
    )
    return Plot(title=title, svg=svg, caption=caption)


def _draw(canvas: Canvas, axes: Any, counts: list[list[int]], record: RunRecord, *, size: float) -> None:
    shares = [[n / sum(row) if sum(row) else float("nan") for n in row] for row in counts]
    words = [[_short(value) for value in row] for row in shares if len(counts) <= _WRITTEN]
    canvas.heatmap(axes, shares, top=1.0, words=words, size=size)
    axes.set_aspect("equal")
    ticks = range(len(counts)) if len(counts) <= _NAMED_IN_MATRIX else []
    names = [plain(results.class_name(record.classes, c), 14) for c in ticks]
    axes.set_xticks(ticks)
    axes.set_yticks(ticks)
    axes.set_yticklabels(names, parse_math=False, fontsize=8)
    turned = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if max(map(len, names), default=0) > 2 else {}
    axes.set_xticklabels(names, parse_math=False, fontsize=8, **turned)


def _short(share: float) -> str:
    """Return a share for a cell; "" if it is 0 or not known.

    >>> _short(0.5), _short(1.0), _short(0.004), _short(float("nan"))
    ('.50', '1', '', '')
    """
    if not share >= 0.005:
        return ""
    return f"{share:.2f}".removeprefix("0") if share < 0.995 else "1"


def _title(whose: str, counts: list[list[int]], record: RunRecord) -> str:
    """Return the largest confusion in words: the pair of classes with the most wrong rows of one class."""
    wrong = [(n / sum(row), n, i, j) for i, row in enumerate(counts) for j, n in enumerate(row) if i != j and n]
    if not wrong:
        return f"Nothing is confused ({whose})"
    share, n, i, j = max(wrong)
    true, taken = (plain(results.class_name(record.classes, c), 30) for c in (i, j))
    return f"Most confused ({whose}): {share:.0%} of {true} is taken for {taken}, {n:,} of {sum(counts[i]):,} rows"


def added(measured: Iterable[Metrics | None]) -> Counter[tuple[float, float]]:
    """Return how many test rows have each pair of true and predicted number, of several models together.

    >>> dict(added([Metrics(n=3, pairs=[[1.0, 2.0, 3]]), Metrics(n=1, pairs=[[1.0, 2.0, 1]]), None]))
    {(1.0, 2.0): 4}
    """
    total: Counter[tuple[float, float]] = Counter()
    for one in measured:
        for true, predicted, rows in one.pairs if one is not None else []:
            total[true, predicted] += int(rows)
    return total


def numbers_plot(record: RunRecord) -> Plot:
    """Draw predicted over true numbers: all parties alone, all with the federation, or the server's model.

    Nothing is drawn, or said, where models answer with classes. Errors are those of `accuracy_plot`.
    """
    shown = results.of_kinds(record, added)
    if not shown:
        return Plot()
    shown = {name: found for name, found in shown.items() if name in (next(iter(shown)), list(shown)[-1])}
    rows = results.rows_used(record)
    ends = [f([value for found in shown.values() for pair in found for value in pair]) for f in (min, max)]
    with Canvas(3.2) as canvas:
        panels = canvas.figure.subplots(1, len(shown), squeeze=False, sharey=True)[0]
        for axes, (name, found) in zip(panels, shown.items(), strict=True):
            most = max(found.values())
            axes.plot(ends, ends, color=GREY, linewidth=1.0, linestyle=":")
            true, predicted = zip(*found, strict=True)
            sizes = [3 + 50 * count / most for count in found.values()]
            axes.scatter(true, predicted, s=sizes, color=LOOKS[name][0], alpha=0.6, linewidths=0)
            axes.set_title(name, fontsize=9.5, weight="normal")
            axes.set_xlabel("true number")
            axes.grid()
        panels[0].set_ylabel("predicted number")
        svg = canvas.svg("numbers")
    caption = (
        f"All such models together, on {results.ROWS[rows]}. A larger mark holds more rows, on a grid. On the dotted "
        "line the prediction is true; a cloud flatter than it is drawn to the mean."
    )
    return Plot(title="What is predicted, and what is true", svg=svg, caption=caption)

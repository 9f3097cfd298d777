"""The pictures of classes that are mistaken for each other, and of predicted over true numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from fedkd_flwr.metrics import Metrics
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.report import results
from fedkd_flwr.report.canvas import BLUE, GREEN, GREY, INK, Canvas, Plot
from fedkd_flwr.report.formatting import plain

__all__ = ["LOOKS", "added", "confusion_plot", "numbers_plot", "pooled"]

_NAMED_IN_MATRIX = 15
_WRITTEN = 12  # of more classes the shares are not written
_PALEST = 0.005  # paler cells cannot be seen
_DARK_BLUE = (0.03, 0.32, 0.61)  # of the fullest cells, in light and dark pages alike

LOOKS = {"alone (SOLO)": (INK, "--"), "with the federation": (BLUE, "-"), "server's model": (GREEN, "-.")}
"""Colour and line of each kind of models in a picture."""


def pooled(measured: Iterable[Metrics | None]) -> list[list[int]]:
    """Return the sum of confusion matrices that are known as a whole; [] if none is.

    >>> pooled([Metrics(n=3, confusion=[[1, 1], [0, 1]]), Metrics(n=1, confusion=[[0, 1], [0, 0]]), None])
    [[1, 2], [0, 1]]
    """
    whole = [found.confusion for found in measured if found and found.confusion and None not in found.confusion]
    same = [matrix for matrix in whole if len(matrix) == len(whole[0])]
    total: list[list[int]] = np.sum(np.array(same, dtype=int), axis=0).tolist() if same else []
    return total


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
    classes = len(matrix)
    with Canvas(3.1 if len(shown) > 1 else 4.6) as canvas:
        all_axes = canvas.figure.subplots(1, len(shown), squeeze=False, sharey=True)[0]
        for axes, (name, counts) in zip(all_axes, shown.items(), strict=True):
            _draw(axes, counts, record, size=6.5 if len(shown) > 1 and classes > 5 else 8.5)
            axes.set_title(name, fontsize=9.5, weight="normal")
            axes.set_xlabel("predicted class" if classes <= _NAMED_IN_MATRIX else f"predicted: {classes} classes")
        all_axes[0].set_ylabel("true class")
        svg = canvas.svg("confusion")
    caption = (
        f"All such models together, on {results.ROWS[rows]}. Each line is a true class and adds up to 1, the fullest "
        "colour; the diagonal is its recall. A full column off the diagonal is a class that swallows others."
    )
    return Plot(title=_title(last, matrix, record), svg=svg, caption=caption)


def _draw(axes: Any, counts: list[list[int]], record: RunRecord, *, size: float) -> None:
    """Draw a matrix as vector shapes with words: a page may load no image, and small shares look so on a dark one."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    shares = [(i, j, n / sum(row)) for i, row in enumerate(counts) for j, n in enumerate(row) if n]
    seen = [one for one in shares if one[2] >= _PALEST]
    cells = [Rectangle((j - 0.5, i - 0.5), 1.0, 1.0) for i, j, _ in seen]
    colours = [(*_DARK_BLUE, round(share, 2)) for *_, share in seen]
    axes.add_collection(PatchCollection(cells, linewidth=0, facecolors=colours))
    for i, j, share in seen if len(counts) <= _WRITTEN else []:
        text = f"{share:.2f}".removeprefix("0") if share < 0.995 else "1"
        colour = "#fefefe" if share > 0.65 else INK
        axes.text(j, i, text, ha="center", va="center", fontsize=size, color=colour)
    axes.set(xlim=(-0.5, len(counts) - 0.5), ylim=(len(counts) - 0.5, -0.5), aspect="equal")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    ticks = range(len(counts)) if len(counts) <= _NAMED_IN_MATRIX else []
    names = [plain(results.class_name(record.classes, c), 14) for c in ticks]
    axes.set_yticks(ticks, names, parse_math=False, fontsize=8)
    turned = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if max(map(len, names), default=0) > 2 else {}
    axes.set_xticks(ticks, names, parse_math=False, fontsize=8, **turned)


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

    >>> dict(added([Metrics(n=3, pairs=[(1.0, 2.0, 3)]), Metrics(n=1, pairs=[(1.0, 2.0, 1)]), None]))
    {(1.0, 2.0): 4}
    """
    total: Counter[tuple[float, float]] = Counter()
    for one in measured:
        for true, predicted, rows in one.pairs if one is not None else []:
            total[true, predicted] += rows
    return total


def numbers_plot(record: RunRecord) -> Plot:
    """Draw predicted over true numbers: all parties alone, all with the federation, or the server's model.

    Nothing is drawn, or said, where models answer with classes. Errors are those of `accuracy_plot`.
    """
    shown = results.of_kinds(record, added)
    if not shown:
        return Plot()
    shown = {name: found for name, found in shown.items() if name in (next(iter(shown)), list(shown)[-1])}
    ends = [f(value for found in shown.values() for pair in found for value in pair) for f in (min, max)]
    with Canvas(3.2) as canvas:
        panels = canvas.figure.subplots(1, len(shown), squeeze=False, sharey=True)[0]
        for axes, (name, found) in zip(panels, shown.items(), strict=True):
            axes.plot(ends, ends, color=GREY, linewidth=1.0, linestyle=":")
            true, predicted = zip(*found, strict=True)
            sizes = [3 + 50 * count / max(found.values()) for count in found.values()]
            axes.scatter(true, predicted, s=sizes, color=LOOKS[name][0], alpha=0.6, linewidths=0)
            axes.set_title(name, fontsize=9.5, weight="normal")
            axes.set_xlabel("true number")
            axes.grid()
        panels[0].set_ylabel("predicted number")
        svg = canvas.svg("numbers")
    caption = (
        f"All such models together, on {results.ROWS[results.rows_used(record)]}. A larger mark holds more rows, on a "
        "grid. On the dotted line the prediction is true; a cloud flatter than it is drawn to the mean."
    )
    return Plot(title="What is predicted, and what is true", svg=svg, caption=caption)

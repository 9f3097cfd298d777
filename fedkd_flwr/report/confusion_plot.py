"""The picture of which classes are taken for which, alone and with the federation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fedkd_flwr.metrics import Metrics
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.report import derived
from fedkd_flwr.report.figure import Canvas, Plot
from fedkd_flwr.report.formatting import plain

__all__ = ["confusion_plot", "pooled"]

_NAMED_CLASSES = 15
_WRITTEN = 12  # of more classes the shares are not written


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

    Parameters and errors are those of `accuracy_plot`.
    """
    rows = derived.rows_used(record)
    candidates = {
        "alone (SOLO)": pooled(p.solo.get(rows) for p in record.parties),
        "with the federation": pooled(p.federated.get(rows) for p in record.parties),
        "server's model": pooled([record.server.get(rows)]),
    }
    shown = {name: matrix for name, matrix in candidates.items() if matrix}
    if "with the federation" in shown and "alone (SOLO)" in shown:
        shown.pop("server's model", None)  # two panels can be read on a narrow page, three cannot
    if not shown:
        return Plot(title="Which classes are confused", svg="", caption="Not drawn: no confusion matrix is known.")
    last, matrix = list(shown.items())[-1]
    title = _title(last, matrix, record)
    classes = len(matrix)
    height = 3.9 if len(shown) > 1 else 5.0
    with Canvas(height + 0.3) as canvas:
        all_axes = canvas.figure.subplots(1, len(shown), squeeze=False, sharey=True)[0]
        for axes, (name, counts) in zip(all_axes, shown.items(), strict=True):
            image = _draw(canvas, axes, counts, record, size=7.0 if len(shown) > 1 else 8.5)
            axes.set_title(name, fontsize=9.5, weight="normal")
            axes.set_xlabel("predicted class" if classes <= _NAMED_CLASSES else f"predicted: {classes} classes")
        all_axes[0].set_ylabel("true class")
        canvas.figure.colorbar(image, ax=all_axes.tolist(), label="share of the true class", fraction=0.035, pad=0.02)
        canvas.title(title)
        svg = canvas.svg("confusion")
    whose = derived.whose(record, rows, _is_whole, server="server's model" in shown)
    caption = (
        f"{whose}, on {derived.ROWS[rows]}. {derived.rows_counted(rows)} Each line is a true "
        "class and adds up to 1; "
        "the diagonal is its recall. A dark column off the diagonal is a class that swallows others."
    )
    return Plot(title=title, svg=svg, caption=caption)


def _draw(canvas: Canvas, axes: Any, counts: list[list[int]], record: RunRecord, *, size: float) -> Any:
    shares = [[n / sum(row) if sum(row) else float("nan") for n in row] for row in counts]
    image = canvas.heatmap(axes, shares, top=1.0)
    axes.set_aspect("equal")
    if len(counts) <= _WRITTEN:
        for i, row in enumerate(shares):
            for j, value in enumerate(row):
                if value == value and value >= 0.005:
                    words = f"{value:.2f}".removeprefix("0") if value < 0.995 else "1"
                    colour = "white" if value > 0.5 else "#222222"
                    axes.text(j, i, words, ha="center", va="center", fontsize=size, color=colour)
    ticks = range(len(counts)) if len(counts) <= _NAMED_CLASSES else []
    names = [plain(derived.class_name(record.classes, c), 14) for c in ticks]
    axes.set_xticks(ticks)
    axes.set_yticks(ticks)
    axes.set_yticklabels(names, parse_math=False, fontsize=8)
    turned = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if max(map(len, names), default=0) > 2 else {}
    axes.set_xticklabels(names, parse_math=False, fontsize=8, **turned)
    return image


def _title(whose: str, counts: list[list[int]], record: RunRecord) -> str:
    """Return the largest confusion in words: the pair of classes with the most wrong rows of one class."""
    wrong = [(n / sum(row), n, i, j) for i, row in enumerate(counts) for j, n in enumerate(row) if i != j and n]
    if not wrong:
        return f"Nothing is confused ({whose})"
    share, n, i, j = max(wrong)
    true, taken = (plain(derived.class_name(record.classes, c), 30) for c in (i, j))
    return f"Most confused ({whose}): {share:.0%} of {true} is taken for {taken}, {n:,} of {sum(counts[i]):,} rows"

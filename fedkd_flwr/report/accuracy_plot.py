"""The picture of each party's accuracy, alone and with the federation."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import Any

from fedkd_flwr.report import derived
from fedkd_flwr.report.figure import BLUE, GREEN, INK, ORANGE, PINK, Canvas, Plot
from fedkd_flwr.report.formatting import count, is_number, plain, share
from fedkd_flwr.run_record import RunRecord

__all__ = ["accuracy_plot"]

_NAMED_PARTIES = 25  # more parties than this are drawn side by side, without names


def accuracy_plot(record: RunRecord, *, prefix: str = "accuracy") -> Plot:
    """Draw each party's accuracy alone and with the federation, from the worst alone to the best alone.

    If only the server's model profits, the parties' accuracies alone are drawn beside that of the server's model.

    Parameters
    ----------
    record : RunRecord
        The record of the run. Parties without both accuracies are not drawn.
    prefix : str
        Put before every id in the SVG, so that one page can hold several pictures.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    """
    rows = derived.rows_used(record)
    both = derived.pairs(record, rows)
    server = is_number(record.server_accuracy)
    if not both and server:
        alone_only = [(p, derived.known(p.solo, rows)) for p in record.parties]
        both = sorted(((p, value, math.nan) for p, value in alone_only if value is not None), key=lambda item: item[1])
    if not both:
        caption = "Not drawn: no party's accuracy is known both alone and with the federation."
        return Plot(title="Accuracy of each party", svg="", caption=caption)
    gain = sum(after > alone for _, alone, after in both)
    alone_mean, after_mean = derived.means(both)
    title = (
        f"With the federation {after_mean:.2f} on average, alone {alone_mean:.2f}: "
        f"{gain} of {count(len(both), 'party gains', 'parties gain')}"
    )
    after_too = not math.isnan(after_mean)
    if not after_too:
        better = sum(alone < (record.server_accuracy or 0.0) for _, alone, _ in both)
        title = (
            f"The server's model reaches {record.server_accuracy:.2f}, a party alone {alone_mean:.2f} on average: "
            f"it is better than {better} of {count(len(both), 'party', 'parties')}"
        )
    named = len(both) <= _NAMED_PARTIES
    with Canvas(1.75 + 0.235 * len(both) if named else 3.9) as canvas:
        axes = canvas.figure.add_subplot()
        _dumbbells(axes, both, named=named)
        mark = axes.axvline if named else axes.axhline
        if server:
            label = f"server's model {share(record.server_accuracy)}"
            mark(record.server_accuracy, color=GREEN, linestyle="--", linewidth=1.6, label=label)
        if is_number(record.centralised_accuracy):
            label = f"centralised {share(record.centralised_accuracy)}"
            mark(record.centralised_accuracy, color=PINK, linestyle=":", linewidth=1.9, label=label)
        words = f"accuracy: share of {derived.ROWS[rows]} that are right"
        axes.grid(axis="x" if named else "y")
        if named:
            axes.set_xlabel(words)
        else:
            axes.set_ylabel("\n".join(textwrap.wrap(words, 34)))
            axes.set_xlabel(f"{len(both)} parties, from the worst alone to the best alone")
        canvas.title(title)
        canvas.legend(axes)
        svg = canvas.svg(prefix)
    caption = (
        f"Each line is one party. It goes from the party's accuracy alone (hollow circle) to its accuracy with the "
        f"federation (full circle), on the {derived.ROWS[rows]}. An orange line means that the party lost."
        if after_too
        else f"Each circle is one party's accuracy alone, on the {derived.ROWS[rows]}."
    )
    if derived.simulation_only(record):
        caption += f" The parties' accuracies are {derived.SIMULATION_ONLY}."
    if is_number(record.centralised_accuracy):
        caption += " Centralised is one model trained on all private rows pooled, which a federation avoids."
    return Plot(title=title, svg=svg, caption=caption)


def _dumbbells(axes: Any, both: Sequence[tuple[Any, float, float]], *, named: bool) -> None:
    """Draw one dumbbell per party: as rows with names, or side by side without names.

    The two kinds of points differ in shape as well as in colour, so that a black-and-white print can be read.
    """
    places = list(range(len(both)))
    alone, after = [item[1] for item in both], [item[2] for item in both]
    colours = [ORANGE if b < a else "#9cc3dd" for a, b in zip(alone, after, strict=True)]
    area = 40.0 if named else max(7.0, 900.0 / len(both))
    edge = {"edgecolors": INK, "linewidths": 1.2 if named else 0.9}
    hollow = {"s": area, "facecolors": "white", "label": "alone (SOLO)", **edge}
    full = {"s": area, "color": BLUE}
    if not all(map(math.isnan, after)):  # NaN is not drawn, so the legend must not name it.
        full["label"] = "with the federation"
    lines, width = (axes.hlines, 2.4) if named else (axes.vlines, max(1.0, 140 / len(both)))
    lines(places, alone, after, colors=colours, linewidth=width, zorder=1)
    for values, zorder, look in ((alone, 3, hollow), (after, 2, full)):
        axes.scatter(*((values, places) if named else (places, values)), zorder=zorder, **look)
    if named:
        axes.set_yticks(places)
        # A party's name may hold dollar signs, which matplotlib would read as mathematics.
        axes.set_yticklabels([plain(p.name, 24) for p, _, _ in both], parse_math=False)
        axes.set_ylim(-0.7, len(both) - 0.3)
        axes.tick_params(axis="y", length=0)
    else:
        axes.set_xticks([])
        axes.set_xlim(-1, len(both))

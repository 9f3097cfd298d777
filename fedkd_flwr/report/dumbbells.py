"""Pairs of values before and after, each drawn as a line with a hollow and a full circle."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fedkd_flwr.report.canvas import BLUE, INK, ORANGE

__all__ = ["dumbbells"]


def dumbbells(
    axes: Any, names: Sequence[str], alone: Sequence[float], after: Sequence[float], *, named: bool = True
) -> None:
    """Draw one dumbbell per name: as rows with names, or side by side without names. An orange line is a loss.

    The two kinds of points differ in shape as well as in colour, so that a black-and-white print can be read.

    Parameters
    ----------
    axes : matplotlib Axes
        Where to draw.
    names : sequence of str
        What each dumbbell is about; safe to print (`fedkd_flwr.report.formatting.plain`).
    alone, after : sequence of float
        The values without and with the federation; NaN is not drawn.
    named : bool
        Whether to write the names.
    """
    places = list(range(len(names)))
    colours = [ORANGE if b < a else "#9cc3dd" for a, b in zip(alone, after, strict=True)]
    area = 40.0 if named else max(7.0, 900.0 / len(names))
    edge = {"edgecolors": INK, "linewidths": 1.2 if named else 0.9}
    hollow = {"s": area, "facecolors": "white", "label": "alone (SOLO)", **edge}
    full: dict[str, Any] = {"s": area, "color": BLUE}
    if not all(map(math.isnan, after)):  # NaN is not drawn, so the legend must not name it.
        full["label"] = "with the federation"
    lines, width = (axes.hlines, 2.4) if named else (axes.vlines, max(1.0, 140 / len(names)))
    lines(places, alone, after, colors=colours, linewidth=width, zorder=1)
    for values, zorder, look in ((alone, 3, hollow), (after, 2, full)):
        axes.scatter(*((values, places) if named else (places, values)), zorder=zorder, **look)
    if named:
        axes.set_yticks(places)
        # A name may hold dollar signs, which matplotlib would read as mathematics.
        axes.set_yticklabels(names, parse_math=False)
        axes.set_ylim(-0.7, len(names) - 0.3)
        axes.tick_params(axis="y", length=0)
    else:
        axes.set_xticks([])
        axes.set_xlim(-1, len(names))

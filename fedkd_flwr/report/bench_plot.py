"""The picture of a benchmark table: our means with their deviations beside what the papers print."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedkd_flwr.report.bench import BenchTable, Line
from fedkd_flwr.report.figure import BLUE, GREEN, GREY, ORANGE, PINK, Canvas

__all__ = ["draw_bench"]

_NO_SHARES = ("up-kb", "down-kb", "seconds")
_STYLES = ((BLUE, "o"), (GREEN, "s"), (PINK, "^"), (GREY, "v"))


def draw_bench(found: BenchTable, path: Path) -> bool:
    """Draw the shares of a table to a file (``.svg``, ``.png`` or ``.pdf``); return whether there was one to draw.

    A table whose figures follow the rounds is drawn as curves, any other with one line for each row and figure.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    OSError
        If the file cannot be written.
    """
    lines = [
        one for one in found.lines if one.values and one.figure not in _NO_SHARES and "rounds-to" not in one.figure
    ]
    if not lines:
        return False
    curves = all("@" in line.figure for line in lines)
    with Canvas(4.2 if curves else 1.3 + 0.27 * len(lines)) as canvas:
        axes = canvas.figure.add_subplot()
        _curves(axes, lines) if curves else _dots(axes, lines)
        canvas.title(found.title)
        canvas.legend(axes, columns=2 if curves else 1)  # long names of rows leave little room beside them
        canvas.save(path)
    return True


def _dots(axes: Any, lines: Sequence[Line]) -> None:
    places = range(len(lines))
    means = [line.mean for line in lines]
    bars = [line.spread or 0.0 for line in lines]
    axes.errorbar(means, places, xerr=bars, fmt="o", color=BLUE, capsize=3, label="here: mean ± standard deviation")
    known = [(line, i) for i, line in enumerate(lines) if line.printed is not None]
    if known:
        axes.errorbar(
            [line.printed for line, _ in known],
            [i for _, i in known],
            xerr=[line.deviation or 0.0 for line, _ in known],
            fmt="D",
            color=ORANGE,
            markerfacecolor="none",
            capsize=3,
            label="printed in the paper",
        )
    axes.set_yticks(list(places))
    axes.set_yticklabels([f"{line.row}, {line.figure}" for line in lines], parse_math=False)
    axes.set_ylim(len(lines) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")
    shown = {"AUC of the attack" if line.figure == "auc" else "accuracy" for line in lines}
    axes.set_xlabel(" and ".join(sorted(shown, reverse=True)))


def _curves(axes: Any, lines: Sequence[Line]) -> None:
    for (colour, marker), row in zip(_STYLES * len(lines), dict.fromkeys(line.row for line in lines), strict=False):
        mine = [(int(line.figure.partition("@")[2]), line) for line in lines if line.row == row]
        rounds = [at for at, _ in mine]
        bars = [line.spread or 0.0 for _, line in mine]
        axes.errorbar(
            rounds, [line.mean for _, line in mine], yerr=bars, color=colour, marker=marker, capsize=3, label=row
        )
        known = [(at, line.printed) for at, line in mine if line.printed is not None]
        if known:
            at, printed = zip(*known, strict=True)
            axes.plot(at, printed, "D", color=ORANGE, markerfacecolor="none", label=f"{row}, printed")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel("round")
    axes.set_ylabel("accuracy of the server's model")
    axes.grid(axis="both")

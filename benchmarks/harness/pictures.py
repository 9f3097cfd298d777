"""The picture of a benchmark table: our means with their deviations beside what the papers print."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedkd_flwr.report.canvas import BLUE, GREEN, GREY, ORANGE, PINK, Canvas

from .results import BenchTable, Line

__all__ = ["draw_bench"]

_NO_SHARES = ("up-kb", "down-kb", "seconds")
_STYLES = ((BLUE, "o"), (GREEN, "s"), (PINK, "^"), (GREY, "v"))
_AT_EPSILON = re.compile(r"(.+), epsilon ([0-9.]+)(?:, (.+))?")
_LEAST_EPSILONS = 3  # of a series that is drawn over epsilon
_HALF = 0.36  # of the figure's width: axes that have others beside them


class _Panel(NamedTuple):
    """What is drawn over epsilon in one pair of axes: a series of rows, others of the same data, and rows without."""

    by_epsilon: list[tuple[float, Line]]
    others: list[tuple[float, str, Line]]
    levels: list[tuple[str, Line]]


def _epsilon_axis(axes: Any, epsilons: Sequence[float], *, width: float = 1.0) -> None:
    """Make the x axis logarithmic, and label each of ``epsilons`` for which there is room.

    ``width`` is that of the axes, as a share of the figure's.
    """
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axes.set_xscale("log")
    least, most = min(epsilons), max(epsilons)
    margin = max((most / least) ** 0.06, 1.15)
    axes.set_xlim(least / margin, most * margin)
    written: list[float] = []
    for epsilon in sorted(epsilons):
        if not written or epsilon / written[-1] > max((most / least) ** (0.045 / width), 1.02):
            written.append(epsilon)
    axes.xaxis.set_major_locator(FixedLocator(written))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))


def draw_bench(found: BenchTable, path: Path) -> bool:
    """Draw the shares of a table to a file (``.svg``, ``.png`` or ``.pdf``); return whether there was one to draw.

    A table whose figures follow the rounds is drawn as curves; one whose rows differ in epsilon ("X, epsilon 2",
    "X, epsilon 4", ..., beside "X, no noise") over epsilon, with axes for each X; any other with one line for each row
    and figure.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    OSError
        If the file cannot be written.
    """
    lines = [one for one in found.lines if one.values and one.figure not in _NO_SHARES]
    if not lines:
        return False
    curves = all("@" in line.figure for line in lines)
    if panels := _panels(lines):
        _draw_panels(panels, found.title, path)
        return True
    with Canvas(4.2 if curves else 1.3 + 0.27 * len(lines), width=6.8) as canvas:
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


def _panels(lines: Sequence[Line]) -> Mapping[str, _Panel]:
    """Return what is drawn over epsilon, by what its rows share; nothing if most rows are not of this kind."""
    panels: dict[str, _Panel] = {}
    for line in lines:
        if at := _AT_EPSILON.fullmatch(line.row):
            panel = panels.setdefault(at[1], _Panel([], [], []))
            if at[3] is None and line.figure == "server":
                panel.by_epsilon.append((float(at[2]), line))
            elif at[3] is not None:
                panel.others.append(
                    (float(at[2]), at[3] if line.figure == "server" else f"{at[3]}, {line.figure}", line)
                )
    for line in lines:
        series, _, rest = line.row.rpartition(", ")
        if series in panels and not _AT_EPSILON.fullmatch(line.row):
            panels[series].levels.append(("alone" if line.figure == "solo" else rest, line))
    return panels if panels and all(len(one.by_epsilon) >= _LEAST_EPSILONS for one in panels.values()) else {}


def _draw_panels(panels: Mapping[str, _Panel], title: str, path: Path) -> None:
    rows = (len(panels) + 1) // 2
    with Canvas(1.0 + 2.7 * rows, width=6.8) as canvas:
        drawn = canvas.figure.subplots(rows, 2 if len(panels) > 1 else 1, squeeze=False).flatten()
        for axes in drawn[len(panels) :]:
            axes.set_visible(False)
        for axes, (name, panel) in zip(drawn, panels.items(), strict=False):
            known = sorted(panel.by_epsilon, key=lambda one: one[0])
            epsilons, means = [at for at, _ in known], [line.mean for _, line in known]
            bars = [line.spread or 0.0 for _, line in known]
            words = "here: mean ± standard deviation"
            axes.errorbar(epsilons, means, yerr=bars, color=BLUE, marker="o", capsize=3, label=words)
            printed = [(at, line.printed) for at, line in known if line.printed is not None]
            if printed:
                axes.plot(*zip(*printed, strict=True), "D", color=ORANGE, markerfacecolor="none", label="printed")
            for at, what, line in panel.others:
                axes.errorbar([at], [line.mean], yerr=[line.spread or 0.0], color=GREEN, marker="s", label=what)
            for style, (what, line) in zip((":", "--", "-.") * len(panel.levels), panel.levels, strict=False):
                axes.axhline(line.mean, color=GREY, linestyle=style, label=f"{what}, here")
            _epsilon_axis(axes, epsilons, width=_HALF if len(panels) > 1 else 1.0)
            axes.set_title(name, loc="left", parse_math=False)
            axes.set_xlabel("epsilon")
            axes.set_ylabel("accuracy")
            axes.grid(axis="y")
        handles = {
            label: handle
            for axes in drawn[: len(panels)]
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        canvas.figure.legend(handles.values(), handles.keys(), loc="outside lower left", ncols=3, frameon=False)
        canvas.title(title)
        canvas.save(path)

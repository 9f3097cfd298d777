"""The pictures of each party's accuracy, alone and with the federation: on common test rows, and on its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fedkd_flwr.record.run_record import PartyRecord, RunRecord
from fedkd_flwr.report import results
from fedkd_flwr.report.canvas import BLUE, GREEN, INK, ORANGE, PALE, PINK, Canvas, Plot
from fedkd_flwr.report.formatting import count, plain, share
from fedkd_flwr.report.paired import paired

__all__ = ["accuracy_plot", "own_rows_plot"]

_NAMED_PARTIES = 25  # of more parties the names are not written
_AVERAGED = 3  # of fewer parties no interval is drawn


def own_rows_plot(record: RunRecord) -> Plot:
    """Draw each party's accuracy on its own test rows: a party that gains on common rows may lose on its own.

    Parameters and errors are those of `accuracy_plot`. Nothing is drawn, or said, where that plot shows own rows.
    """
    if results.rows_used(record) == "own":
        return Plot()
    return _plot(record, "own", "own")


def accuracy_plot(record: RunRecord) -> Plot:
    """Draw each party's accuracy alone and with the federation, from the worst alone to the best alone.

    Where classes are imbalanced it is the balanced accuracy (`fedkd_flwr.report.results.figure_used`).
    If only the server's model profits, the parties' accuracies alone are drawn beside that of the server's model.

    ``record``: the record of the run. Parties without both accuracies are not drawn.

    Raises `MissingExtraError` if matplotlib is not installed.
    """
    return _plot(record, results.rows_used(record), "accuracy")


def _plot(record: RunRecord, rows: str, prefix: str) -> Plot:
    figure = results.figure_used(record, rows)
    name, both = results.figure_name(figure), results.pairs(record, rows, figure)
    server, central = (results.known(one, rows, figure) for one in (record.server, record.centralised))
    if (rows, figure) == ("own", "balanced_accuracy"):  # a party's is the mean of its own classes alone: no comparison
        server = central = None
    if not both and server is not None:
        alone_only = [(p, results.known(p.solo, rows, figure)) for p in record.parties]
        both = sorted(((p, value, math.nan) for p, value in alone_only if value is not None), key=lambda item: item[1])
    if not both:
        where = "" if rows == results.rows_used(record) else " on its own rows"
        caption = f"Not drawn: no party's {name}{where} is known both alone and with the federation."
        return Plot(title=f"{name.capitalize()} of each party{where}", caption=caption)
    alone_mean, after_mean = results.means(both)
    gain, lost = sum(after > alone for _, alone, after in both), sum(after < alone for _, alone, after in both)
    title = (
        f"{'At home, with' if rows == 'own' else 'With'} the federation {'' if figure == 'accuracy' else f'{name} '}"
        f"{after_mean:.2f} on average, alone {alone_mean:.2f}: "
        f"{gain} of {count(len(both), 'party gains', 'parties gain')}, {count(lost, 'loses', 'lose')}"
    )
    caption = (
        f"Each line is one party: hollow its {name} alone, full with the federation; orange where it lost. A bar is "
        "the 95 % confidence interval of the mean over the parties, by Student's t."
    )
    if math.isnan(after_mean) and server is not None:
        better = sum(alone < server for _, alone, _ in both)
        title = (
            f"The server's model reaches {server:.2f}, a party alone {alone_mean:.2f} on average: "
            f"it is better than {better} of {count(len(both), 'party', 'parties')}"
        )
    if rows == "own":
        caption += " In brackets stand a party's test rows."
    if results.simulation_only(record):
        caption += f" The parties' accuracies are {results.SIMULATION_ONLY}."
    if central is not None:
        caption += " Centralised is one model trained on all private rows pooled."
    what = {"accuracy": "share that is right", "r2": "share of the variance explained"}.get(figure)
    words = f"{name}: {what or 'mean recall of the classes'}, on {rows} test rows"
    lines = {"server's model": (server, GREEN, "--"), "centralised": (central, PINK, ":")}
    named = len(both) <= _NAMED_PARTIES
    with Canvas(1.7 + 0.235 * len(both) if named else 4.2) as canvas:
        axes = canvas.figure.add_subplot()
        _draw(
            axes, [_label(p, rows) for p, _, _ in both], *zip(*((a, b) for _, a, b in both), strict=True), named=named
        )
        for label, (value, colour, style) in lines.items():
            if value is not None:
                axes.axvline(value, color=colour, linestyle=style, linewidth=1.7, label=f"{label} {share(value)}")
        axes.grid(axis="x")
        axes.set_xlabel(words)
        canvas.legend(axes)
        return Plot(title=title, svg=canvas.svg(prefix), caption=caption)


def _label(party: PartyRecord, rows: str) -> str:
    name = plain(party.name, 24)
    return f"{name} ({party.solo[rows].n:,})" if rows == "own" else name


def _draw(axes: Any, names: Sequence[str], alone: Sequence[float], after: Sequence[float], *, named: bool) -> None:
    """Draw a line for each party, from its figure alone to that with the federation; an orange line is a loss.

    The two kinds of points differ in shape as well as in colour, so that a black-and-white print can be read. The means
    are below the parties. NaN is not drawn.
    """
    places, step = list(range(len(names))), max(1.0, len(names) / 40)
    colours = [ORANGE if b < a else PALE for a, b in zip(alone, after, strict=True)]
    area = 40.0 if named else 12.0
    axes.hlines(places, alone, after, colors=colours, linewidth=2.4 if named else max(0.6, 140 / len(names)), zorder=1)
    hollow = {"s": area, "facecolors": "white", "edgecolors": INK, "linewidths": 1.2 if named else 0.7}
    for label, values, zorder, look in (
        ("alone (SOLO)", alone, 3, hollow),
        ("with the federation", after, 2, {"s": area, "color": BLUE}),
    ):
        if not all(map(math.isnan, values)):  # else the legend must not name it
            axes.scatter(values, places, zorder=zorder, label=label, **look)
    mean = -1.3 * step
    for values, colour, inside in ((after, BLUE, BLUE), (alone, INK, "white")):
        if len(names) < _AVERAGED or math.isnan(values[0]):
            continue
        found = paired(values, [0.0] * len(values))
        half = found.half if math.isfinite(found.half) else 0.0
        low = half if found.mean < 0 else min(half, found.mean)  # only R2 is below 0
        bar = [[low], [min(half, 1.0 - found.mean)]]  # no figure is above 1
        look = {"fmt": "D", "markersize": 5.5, "capsize": 3, "elinewidth": 1.4, "zorder": 4}
        axes.errorbar(found.mean, mean, xerr=bar, color=colour, markerfacecolor=inside, **look)
    shown = [(mean, "mean")] if len(names) >= _AVERAGED else []
    shown += list(zip(places, names, strict=True)) if named else []
    # A name may hold dollar signs, which matplotlib would read as mathematics.
    axes.set_yticks([place for place, _ in shown], [name for _, name in shown], parse_math=False)
    axes.set_ylim((mean if len(names) >= _AVERAGED else 0) - 0.7 * step, len(names) - 0.3)
    axes.tick_params(axis="y", length=0)
    if not named:
        axes.set_ylabel(f"{len(names)} parties, the best alone on top")

"""The pictures of each party's accuracy, alone and with the federation: on common test rows, and on its own."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import Any

from fedkd_flwr.record.run_record import PartyRecord, RunRecord
from fedkd_flwr.report import results
from fedkd_flwr.report.canvas import BLUE, GREEN, INK, ORANGE, PALE, PINK, Canvas, Plot
from fedkd_flwr.report.formatting import count, plain, share
from fedkd_flwr.report.paired import paired

__all__ = ["accuracy_plot", "own_rows_plot"]

_NAMED_PARTIES = 25  # more parties than this are drawn side by side, without names
_AVERAGED = 3  # of fewer parties no interval is drawn


def own_rows_plot(record: RunRecord) -> Plot:
    """Draw each party's accuracy on its own test rows: a party that gains on common rows may lose on its own.

    Parameters and errors are those of `accuracy_plot`. Nothing is drawn, or said, where that plot shows own rows.
    """
    if results.rows_used(record) == "own":
        return Plot(title="", svg="", caption="")
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
        return Plot(title=f"{name.capitalize()} of each party{where}", svg="", caption=caption)
    alone_mean, after_mean = results.means(both)
    gain, lost = sum(after > alone for _, alone, after in both), sum(after < alone for _, alone, after in both)
    title = (
        f"{'At home, with' if rows == 'own' else 'With'} the federation {'' if figure == 'accuracy' else f'{name} '}"
        f"{after_mean:.2f} on average, alone {alone_mean:.2f}: "
        f"{gain} of {count(len(both), 'party gains', 'parties gain')}, {count(lost, 'loses', 'lose')}"
    )
    caption = (
        f"Each line is one party. It goes from the party's {name} alone (hollow circle) to its {name} with the "
        f"federation (full circle), on {results.ROWS[rows]}. An orange line means that the party lost, a hollow "
        "circle alone that both are equal."
    )
    if math.isnan(after_mean) and server is not None:
        better = sum(alone < server for _, alone, _ in both)
        title = (
            f"The server's model reaches {server:.2f}, a party alone {alone_mean:.2f} on average: "
            f"it is better than {better} of {count(len(both), 'party', 'parties')}"
        )
        caption = f"Each circle is one party's {name} alone, on {results.ROWS[rows]}."
    if len(both) >= _AVERAGED:
        caption += " The mean has a bar: its 95 % confidence interval over the parties, by Student's t."
    if rows == "own":
        caption += " Behind a party's name stand its test rows; of few rows a difference may be noise."
    if results.simulation_only(record):
        caption += f" The parties' accuracies are {results.SIMULATION_ONLY}."
    if central is not None:
        caption += " Centralised is one model trained on all private rows pooled, which a federation avoids."
    what = "share that is right" if figure == "accuracy" else "mean recall of the classes"
    what = "share of the variance explained" if figure == "r2" else what
    words = f"{name}: {what}, on {results.ROWS[rows]}"
    svg = _svg(both, rows, words, server=server, central=central, prefix=prefix)
    return Plot(title=title, svg=svg, caption=caption)


def _svg(
    both: Sequence[tuple[PartyRecord, float, float]],
    rows: str,
    words: str,
    *,
    server: float | None,
    central: float | None,
    prefix: str,
) -> str:
    """Draw the parties; few of them below each other with their names, many side by side."""
    named = len(both) <= _NAMED_PARTIES
    with Canvas(1.7 + 0.235 * len(both) if named else 3.3) as canvas:
        axes = canvas.figure.add_subplot()
        names = [_label(p, rows) for p, _, _ in both]
        _draw(axes, names, [a for _, a, _ in both], [b for _, _, b in both], named=named)
        mark = axes.axvline if named else axes.axhline
        if server is not None:
            mark(server, color=GREEN, linestyle="--", linewidth=1.6, label=f"server's model {share(server)}")
        if central is not None:
            mark(central, color=PINK, linestyle=":", linewidth=1.9, label=f"centralised {share(central)}")
        axes.grid(axis="x" if named else "y")
        if named:
            axes.set_xlabel(words)
        else:
            axes.set_ylabel("\n".join(textwrap.wrap(words, 34)))
            axes.set_xlabel(f"{len(both)} parties, from the worst alone to the best alone")
        canvas.legend(axes)
        return canvas.svg(prefix)


def _label(party: PartyRecord, rows: str) -> str:
    name = plain(party.name, 24)
    return f"{name} ({party.solo[rows].n:,})" if rows == "own" else name


def _draw(
    axes: Any, names: Sequence[str], alone: Sequence[float], after: Sequence[float], *, named: bool = True
) -> None:
    """Draw a line for each party, from its figure alone to that with the federation; an orange line is a loss.

    The two kinds of points differ in shape as well as in colour, so that a black-and-white print can be read.
    """
    places = list(range(len(names)))
    colours = [ORANGE if b < a else PALE for a, b in zip(alone, after, strict=True)]
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
    mean = -1.3 if named else len(names) * 1.03 + 0.5
    if averaged := len(names) >= _AVERAGED:
        for values, look in ((after, {"color": BLUE}), (alone, {"color": INK, "markerfacecolor": "white"})):
            if math.isnan(values[0]):  # the parties have no such model
                continue
            found = paired(values, [0.0] * len(values))
            half = found.half if math.isfinite(found.half) else 0.0
            low = half if found.mean < 0 else min(half, found.mean)  # only R2 is below 0
            bar = [[low], [min(half, 1.0 - found.mean)]]  # no figure is above 1
            at, error = ((found.mean, mean), "xerr") if named else ((mean, found.mean), "yerr")
            axes.errorbar(*at, **{error: bar}, fmt="D", markersize=5.5, capsize=3, elinewidth=1.4, zorder=4, **look)
    if named:
        axes.set_yticks([mean, *places] if averaged else places)
        # A name may hold dollar signs, which matplotlib would read as mathematics.
        axes.set_yticklabels(["mean", *names] if averaged else names, parse_math=False)
        axes.set_ylim(mean - 0.7 if averaged else -0.7, len(names) - 0.3)
        axes.tick_params(axis="y", length=0)
    else:
        axes.set_xticks([])
        axes.set_xlim(-1, mean + 0.02 * len(names) if averaged else len(names))

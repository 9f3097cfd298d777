"""Pictures of a run: each party's accuracy, alone and with the federation, and what changed over the rounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.report import results
from fedkd_flwr.report.canvas import BLUE, GREEN, INK, ORANGE, PALE, PINK, Canvas, Plot
from fedkd_flwr.report.formatting import count, is_number, plain, share
from fedkd_flwr.report.paired import paired

__all__ = ["accuracy_plot", "own_rows_plot", "rounds_plot"]

_NAMED_PARTIES = 25  # of more parties the names are not written
_AVERAGED = 3  # of fewer parties no interval is drawn


def own_rows_plot(record: RunRecord) -> Plot:
    """Draw each party's accuracy on its own test rows: a party that gains on common rows may lose on its own.

    Parameters and errors are those of `accuracy_plot`. Nothing is drawn, or said, where that plot shows own rows.
    """
    return Plot() if results.rows_used(record) == "own" else _plot(record, "own", "own")


def accuracy_plot(record: RunRecord) -> Plot:
    """Draw each party's accuracy alone and with the federation, from the worst alone to the best alone.

    Where classes are imbalanced it is the balanced accuracy (`fedkd_flwr.report.results.figure_used`). Parties without
    both are not drawn. Raises `MissingExtraError` if matplotlib is not installed.
    """
    return _plot(record, results.rows_used(record), "accuracy")


def _plot(record: RunRecord, rows: str, prefix: str) -> Plot:
    figure = results.figure_used(record, rows)
    name, both = results.figure_name(figure), results.pairs(record, rows, figure)
    if not both:
        where = "" if rows == results.rows_used(record) else " on its own rows"
        caption = f"Not drawn: no party's {name}{where} is known both alone and with the federation."
        return Plot(title=f"{name.capitalize()} of each party{where}", caption=caption)
    alone, after = results.means(both)
    gain, lost = sum(b > a for _, a, b in both), sum(b < a for _, a, b in both)
    title = (
        f"{'At home, with' if rows == 'own' else 'With'} the federation {'' if figure == 'accuracy' else f'{name} '}"
        f"{after:.2f} on average, alone {alone:.2f}: "
        f"{gain} of {count(len(both), 'party gains', 'parties gain')}, {count(lost, 'loses', 'lose')}"
    )
    caption = (
        f"Each line is one party: hollow its {name} alone, full with the federation; orange where it lost. A bar is "
        "the 95 % confidence interval of the mean over the parties, by Student's t."
    )
    caption += " In brackets stand a party's test rows." if rows == "own" else ""
    if results.simulation_only(record):
        caption += f" The parties' accuracies are {results.SIMULATION_ONLY}."
    what = {"accuracy": "share that is right", "r2": "share of the variance explained"}.get(figure)
    named = len(both) <= _NAMED_PARTIES
    with Canvas(1.7 + 0.235 * len(both) if named else 4.2) as canvas:
        axes = canvas.figure.add_subplot()
        names = [plain(p.name, 24) + (f" ({p.solo[rows].n:,})" if rows == "own" else "") for p, _, _ in both]
        _draw(axes, names, [a for _, a, _ in both], [b for *_, b in both], named=named)
        for label, measured, colour, style in (
            ("server's model", record.server, GREEN, "--"),
            ("centralised", record.centralised, PINK, ":"),
        ):
            value = results.known(measured, rows, figure)
            # of own rows a party's balanced accuracy is the mean of its own classes alone: no comparison
            if value is not None and (rows, figure) != ("own", "balanced_accuracy"):
                axes.axvline(value, color=colour, linestyle=style, linewidth=1.7, label=f"{label} {share(value)}")
        axes.grid(axis="x")
        axes.set_xlabel(f"{name}: {what or 'mean recall of the classes'}, on {rows} test rows")
        canvas.legend(axes)
        return Plot(title=title, svg=canvas.svg(prefix), caption=caption)


def _draw(axes: Any, names: Sequence[str], alone: Sequence[float], after: Sequence[float], *, named: bool) -> None:
    """Draw a line for each party, orange for a loss, and the means below; print without colours can be read too."""
    places, step = list(range(len(names))), max(1.0, len(names) / 40)
    colours = [ORANGE if b < a else PALE for a, b in zip(alone, after, strict=True)]
    area = 40.0 if named else 12.0
    axes.hlines(places, alone, after, colors=colours, linewidth=2.4 if named else max(0.6, 140 / len(names)), zorder=1)
    hollow = {"facecolors": "white", "edgecolors": INK, "linewidths": 1.2 if named else 0.7}
    axes.scatter(alone, places, s=area, zorder=3, label="alone (SOLO)", **hollow)
    axes.scatter(after, places, s=area, zorder=2, label="with the federation", color=BLUE)
    shown: list[tuple[float, str]] = list(zip(places, names, strict=True)) if named else []
    lowest = 0.0
    if len(names) >= _AVERAGED:
        lowest = -1.3 * step
        shown.append((lowest, "mean"))
        for values, colour, inside in ((after, BLUE, BLUE), (alone, INK, "white")):
            found = paired(values, [0.0] * len(values))
            half = found.half if math.isfinite(found.half) else 0.0
            low = half if found.mean < 0 else min(half, found.mean)  # only R2 is below 0
            bar = [[low], [min(half, 1.0 - found.mean)]]  # no figure is above 1
            look = {"fmt": "D", "markersize": 5.5, "capsize": 3, "elinewidth": 1.4, "zorder": 4}
            axes.errorbar(found.mean, lowest, xerr=bar, color=colour, markerfacecolor=inside, **look)
    # A name may hold dollar signs, which matplotlib would read as mathematics.
    axes.set_yticks([place for place, _ in shown], [name for _, name in shown], parse_math=False)
    axes.set_ylim(lowest - 0.7 * step, len(names) - 0.3)
    axes.tick_params(axis="y", length=0)
    if not named:
        axes.set_ylabel(f"{len(names)} parties, the best alone on top")


_PARTY_LINES = 25  # of more parties only the range is drawn
_Line = tuple[str, Sequence[float | None], str, str, str]  # label, values, colour, marker, line style


def rounds_plot(record: RunRecord) -> Plot:
    """Draw agreement, labelled share and accuracies, round by round. A panel without values is left out.

    Parameters and errors are those of `accuracy_plot`.
    """
    rounds, heading = record.rounds, "Over the rounds"
    if len(rounds) < 2:
        some = "one round of exchange" if rounds else "no finished round"
        return Plot(title=heading, caption=f"Not drawn: this run has {some}.")
    spreads = [results.spread(r.accuracy.values()) for r in rounds]
    upper: list[_Line] = [
        ("agreement with the consensus", [r.agreement for r in rounds], BLUE, "o", "-"),
        ("public rows with a label", [r.labelled_share for r in rounds], ORANGE, "s", "--"),
    ]
    lower: list[_Line] = [
        ("parties' mean", [one and one.mean for one in spreads], BLUE, "o", "-"),
        ("consensus labels", [r.consensus_accuracy for r in rounds], GREEN, "^", "--"),
        ("server's model", [r.server_accuracy for r in rounds], INK, "D", "-."),
    ]
    panels = [
        (words, shown)
        for lines, words in ((upper, "share"), (lower, "accuracy (share right)"))
        if (shown := [line for line in lines if any(map(is_number, line[1]))])
    ]
    if not panels:
        return Plot(title=heading, caption="Not drawn: nothing was recorded per round, or it is withheld.")
    x = [r.server_round for r in rounds]
    caption = "Agreement: share of labelled public rows on which a party's label is the consensus, on average."
    with Canvas(0.6 + 2.25 * len(panels)) as canvas:
        all_axes = canvas.figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
        for axes, (words, lines) in zip(all_axes, panels, strict=True):
            if words != "share":
                caption += _draw_parties(axes, record)
            for label, values, colour, marker, style in lines:
                y = [v if v is not None and is_number(v) else math.nan for v in values]
                marks = {"marker": marker, "markersize": 4.5} if len(x) <= 40 else {}
                axes.plot(x, y, color=colour, linestyle=style, linewidth=1.7, label=label, **marks)
            if words == "share":
                axes.set_ylim(-0.03, 1.05)
            axes.set_ylabel(words)
            axes.grid(axis="y")
            canvas.legend(axes)
        all_axes[-1].set_xlabel("round")
        all_axes[-1].xaxis.get_major_locator().set_params(integer=True)
        svg = canvas.svg("rounds")
    if any(spreads) and results.simulation_only(record):
        caption += f" The parties' accuracies are {results.SIMULATION_ONLY}."
    return Plot(title=heading, svg=svg, caption=caption)


def _draw_parties(axes: Any, record: RunRecord) -> str:
    """Draw each party's accuracies, of many the band around them, and one fixed answer's; return a caption."""
    x = [r.server_round for r in record.rounds]
    names = sorted({name for r in record.rounds for name in r.accuracy})
    tested = names or any(is_number(r.server_accuracy) for r in record.rounds)
    rows = results.rows_used(record) if names else "common"  # on which a server's model is tested
    if len(names) > _PARTY_LINES:
        bands = [results.spread(r.accuracy.values()) for r in record.rounds]
        ends = [[b.lowest if b else math.nan for b in bands], [b.highest if b else math.nan for b in bands]]
        axes.fill_between(x, *ends, color=BLUE, alpha=0.15, linewidth=0, label=f"{len(names)} parties")
        names = []
    labels = {PALE: "a party", ORANGE: "a party that fell"}
    for name in names:
        y = [r.accuracy.get(name, math.nan) for r in record.rounds]
        told = [value for value in y if is_number(value)]
        colour, style = (ORANGE, "--") if told and told[-1] < told[0] else (PALE, "-")
        axes.plot(x, y, label=labels.pop(colour, None), color=colour, linestyle=style, linewidth=1.1, zorder=1)
    if (fixed := results.baseline(record, rows)) is None or not tested:
        return ""
    axes.axhline(fixed, label=f"always the commonest class {fixed:.3f}", color=PINK, linestyle=":", linewidth=1.9)
    return f" Accuracies of models are on {results.ROWS[rows]}."

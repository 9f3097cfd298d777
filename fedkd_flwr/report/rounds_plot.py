"""The picture of how the votes and the accuracies developed over the rounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.report import results
from fedkd_flwr.report.canvas import BLUE, GREEN, INK, ORANGE, PALE, PINK, Canvas, Plot
from fedkd_flwr.report.formatting import is_number

__all__ = ["rounds_plot"]

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
    upper: list[_Line] = [
        ("agreement with the consensus", [r.agreement for r in rounds], BLUE, "o", "-"),
        ("public rows with a label", [r.labelled_share for r in rounds], ORANGE, "s", "--"),
    ]
    lower: list[_Line] = [
        ("parties' mean", _party_means(record), BLUE, "o", "-"),
        ("consensus labels", [r.consensus_accuracy for r in rounds], GREEN, "^", "--"),
        ("server's model", [r.server_accuracy for r in rounds], INK, "D", "-."),
    ]
    panels = [
        (lines, words)
        for lines, words in ((upper, "share"), (lower, "accuracy (share right)"))
        if any(_known(values) for _, values, *_ in lines)
    ]
    if not panels:
        return Plot(title=heading, caption="Not drawn: nothing was recorded per round, or it is withheld.")
    on, fixed = _fixed_answer(record)
    x = [r.server_round for r in rounds]
    with Canvas(0.6 + 2.25 * len(panels)) as canvas:
        all_axes = canvas.figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
        for axes, (lines, words) in zip(all_axes, panels, strict=True):
            if lines is lower:
                _draw_parties(axes, record)
            for label, values, colour, marker, style in lines:
                if _known(values):
                    y = [v if v is not None and is_number(v) else math.nan for v in values]
                    marks = {"marker": marker, "markersize": 4.5} if len(x) <= 40 else {}
                    axes.plot(x, y, color=colour, linestyle=style, linewidth=1.7, label=label, **marks)
            if lines is lower and fixed is not None:
                look = {"color": PINK, "linestyle": ":", "linewidth": 1.9}
                axes.axhline(fixed, label=f"always the commonest class {fixed:.3f}", **look)
            if lines is upper:
                axes.set_ylim(-0.03, 1.05)
            axes.set_ylabel(words)
            axes.grid(axis="y")
            canvas.legend(axes, columns=2)  # three of these names side by side are too wide
        all_axes[-1].set_xlabel("round")
        all_axes[-1].xaxis.get_major_locator().set_params(integer=True)
        svg = canvas.svg("rounds")
    caption = "Agreement: share of labelled public rows on which a party's label is the consensus, on average."
    if fixed is not None:
        caption += f" Accuracies of models are on {results.ROWS[on]}."
    if _known(_party_means(record)) and results.simulation_only(record):
        caption += f" The parties' accuracies are {results.SIMULATION_ONLY}."
    return Plot(title=heading, svg=svg, caption=caption)


def _known(values: Sequence[float | None]) -> list[float]:
    return [v for v in values if v is not None and is_number(v)]


def _party_means(record: RunRecord) -> list[float | None]:
    return [known.mean if (known := results.spread(r.accuracy.values())) else None for r in record.rounds]


def _fixed_answer(record: RunRecord) -> tuple[str, float | None]:
    """Return on which test rows accuracies were measured, and that of one fixed answer; None where none is drawn."""
    of_parties = _known(_party_means(record))
    rows = results.rows_used(record) if of_parties else "common"  # on which a server's model is tested
    drawn = of_parties or _known([r.server_accuracy for r in record.rounds])
    return rows, results.baseline(record, rows) if drawn else None


def _draw_parties(axes: Any, record: RunRecord) -> None:
    """Draw a thin line for each party, an orange one where it fell; of many the band from the lowest to the highest."""
    x = [r.server_round for r in record.rounds]
    names = sorted({name for r in record.rounds for name in r.accuracy})
    if len(names) > _PARTY_LINES:
        bands = [results.spread(r.accuracy.values()) for r in record.rounds]
        ends = [[b.lowest if b else math.nan for b in bands], [b.highest if b else math.nan for b in bands]]
        axes.fill_between(x, *ends, color=BLUE, alpha=0.15, linewidth=0, label=f"{len(names)} parties")
        return
    labels = {PALE: "a party", ORANGE: "a party that fell"}
    for name in names:
        told = _known(y := [r.accuracy.get(name, math.nan) for r in record.rounds])
        colour, style = (ORANGE, "--") if told and told[-1] < told[0] else (PALE, "-")
        axes.plot(x, y, label=labels.pop(colour, None), color=colour, linestyle=style, linewidth=1.1, zorder=1)

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

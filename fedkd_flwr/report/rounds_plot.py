"""The picture of how the votes and the accuracies developed over the rounds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fedkd_flwr.metrics import Metrics
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
    rounds = record.rounds
    heading = "Over the rounds"
    if len(rounds) < 2:
        some = "one round of exchange" if rounds else "no finished round"
        return Plot(title=heading, svg="", caption=f"Not drawn: this run has {some}.")
    upper: list[_Line] = [
        ("agreement with the consensus", [r.agreement for r in rounds], BLUE, "o", "-"),
        ("public rows with a label", [r.labelled_share for r in rounds], ORANGE, "s", "--"),
    ]
    bands = [results.spread(r.accuracy.values()) for r in rounds]
    lower: list[_Line] = [
        ("parties' mean accuracy", [b.mean if b else None for b in bands], BLUE, "o", "-"),
        ("accuracy of the consensus labels", [r.consensus_accuracy for r in rounds], GREEN, "^", "--"),
        ("accuracy of the server's model", [r.server_accuracy for r in record.rounds], INK, "D", "-."),
    ]
    panels = [
        (lines, words)
        for lines, words in ((upper, "share"), (lower, "accuracy (share right)"))
        if any(_known(line[1]) for line in lines)
    ]
    if not panels:
        return Plot(title=heading, svg="", caption="Not drawn: nothing was recorded per round, or it is withheld.")
    title, fixed = _rounds_title(record, bands), _fixed_answer(record, bands)
    x = [r.server_round for r in rounds]
    with Canvas(0.6 + 2.25 * len(panels)) as canvas:
        all_axes = canvas.figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
        for axes, (lines, words) in zip(all_axes, panels, strict=True):
            if lines is lower and any(bands):
                _draw_parties(axes, record)
            for label, values, colour, marker, style in lines:
                if _known(values):
                    y = [v if v is not None and is_number(v) else float("nan") for v in values]
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
    return Plot(title=title, svg=svg, caption=" ".join(_caption(record, bands, fixed)))


def _caption(record: RunRecord, bands: Sequence[results.Spread | None], fixed: float | None) -> Iterator[str]:
    """Yield what the lines are, in sentences."""
    rounds, on = record.rounds, _accuracy_rows(record, bands)
    if _known([r.agreement for r in rounds]):
        words = "labelled public rows on which a party's label equals the consensus, on average."
        yield f"Agreement is the share of {words}"
    if _known([r.labelled_share for r in rounds]):
        yield "The share of public rows with a label shows how often the vote reached a decision."
    if fixed is not None:
        yield (
            f"Accuracies of models are on {results.ROWS[on]}. The dotted line is the accuracy of always answering the "
            f"commonest class, {fixed:.3f}: a model at or below it may find no other class."
        )
        if results.figure_used(record, on) == "balanced_accuracy":
            yield "A class is rare, so that accuracy says little of it; a record has no other figure of a round."
    judged = [found for r in rounds if _known([r.consensus_accuracy]) and (found := results.consensus_rows(record, r))]
    if judged:
        (least, words), (most, _) = min(judged), max(judged)
        if least != most:
            bound = any(said.startswith("at most") for _, said in judged)
            words = f"at most {most:,} rows" if bound else f"{least:,} to {most:,} rows"
        yield f"The accuracy of the consensus labels is of {words} in a round."
    if any(bands) and results.simulation_only(record):
        yield f"The parties' accuracies are {results.SIMULATION_ONLY}."


def _known(values: Sequence[float | None]) -> list[float]:
    return [v for v in values if v is not None and is_number(v)]


def _draw_parties(axes: Any, record: RunRecord) -> None:
    """Draw a thin line for each party; of many parties the band from the lowest to the highest."""
    x = [r.server_round for r in record.rounds]
    names = sorted({name for r in record.rounds for name in r.accuracy})
    if len(names) > _PARTY_LINES:
        bands = [results.spread(r.accuracy.values()) for r in record.rounds]
        low = [b.lowest if b else math.nan for b in bands]
        high = [b.highest if b else math.nan for b in bands]
        label = f"lowest to highest of {len(names)} parties"
        axes.fill_between(x, low, high, color=BLUE, alpha=0.15, linewidth=0, label=label)
        return
    labels = {False: "a party", True: "a party that fell"}
    for name in names:
        y = [r.accuracy.get(name, math.nan) for r in record.rounds]
        told = [value for value in y if is_number(value)]
        fell = bool(told) and told[-1] < told[0]
        look = {"color": ORANGE if fell else PALE, "linewidth": 1.1, "zorder": 1.5 if fell else 1}
        axes.plot(x, y, label=labels.pop(fell, None), linestyle="--" if fell else "-", **look)


def _accuracy_rows(record: RunRecord, bands: Sequence[results.Spread | None]) -> str:
    """Return on which test rows the rounds' accuracies were measured: a server's model is tested on common rows."""
    return results.rows_used(record) if any(bands) else "common"


def _fixed_answer(record: RunRecord, bands: Sequence[results.Spread | None]) -> float | None:
    """Return the accuracy of one fixed answer on the rows of the accuracies; None where no accuracy is drawn."""
    drawn = any(bands) or _known([r.server_accuracy for r in record.rounds])
    return results.baseline(record, _accuracy_rows(record, bands)) if drawn else None


def _beside(reached: float, fixed: float | None) -> str:
    """Return what a fixed answer reaches, as the end of a title.

    >>> _beside(0.9, 0.9), _beside(0.9, None)
    (', not above the 0.900 of always answering the commonest class', '')
    """
    if fixed is None:
        return ""
    word = "not above the" if reached <= fixed + 5e-4 else "against"
    return f", {word} {fixed:.3f} of always answering the commonest class"


def _balanced(
    record: RunRecord, measured: Sequence[Mapping[str, Metrics]], bands: Sequence[results.Spread | None]
) -> str:
    """Return the balanced accuracy at the end where it leads, as a sentence: a rising accuracy may hide a loss."""
    rows = _accuracy_rows(record, bands)
    figure = results.figure_used(record, rows)
    found = results.spread(results.known(one, rows, figure) for one in measured)
    return f". Balanced accuracy at the end: {found.mean:.3f}" if found and figure == "balanced_accuracy" else ""


def _rounds_title(record: RunRecord, bands: Sequence[results.Spread | None]) -> str:
    last, fixed = record.rounds[-1].server_round, _fixed_answer(record, bands)
    model = _known([r.server_accuracy for r in record.rounds])
    for who, values, measured in (
        ("The parties' mean accuracy", [b.mean for b in bands if b], [p.federated for p in record.parties]),
        ("The accuracy of the server's model", model, [record.server]),
    ):
        if len(values) > 1:
            change = values[-1] - values[0]
            word = "rises" if change > 0 else "falls"
            said = f"{who} {word} from {values[0]:.3f} to {values[-1]:.3f} in {last} rounds"
            if abs(change) <= 5e-4:
                said = f"{who} stays at {values[-1]:.3f} over {last} rounds"
            return said + _beside(values[-1], fixed) + _balanced(record, measured, bands)
    agreement = _known([r.agreement for r in record.rounds])
    if len(agreement) > 1:
        return f"Agreement goes from {agreement[0]:.2f} to {agreement[-1]:.2f} in {last} rounds"
    return f"The vote over {last} rounds"

"""The page's pictures, drawn as SVG text from a run record.

Shapes and line styles differ as colours do, so a grey print can be read. Importing this imports no matplotlib.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fedkd_flwr.report import facts
from fedkd_flwr.report.canvas import BLUE, GREEN, INK, ORANGE, PINK, Canvas
from fedkd_flwr.report.facts import plain, share, size
from fedkd_flwr.run_record import RunRecord

__all__ = ["Plot", "accuracy_plot", "bytes_plot", "rounds_plot"]

_NAMED_PARTIES = 25  # more than these stand side by side, without names


@dataclass(frozen=True, kw_only=True)
class Plot:
    """One picture: its finding, its SVG ("" where it was left out), and the sentence below it."""

    title: str
    svg: str
    caption: str


def accuracy_plot(record: RunRecord, *, prefix: str = "accuracy") -> Plot:
    """Draw each party's accuracy alone and with the federation, worst alone first.

    Parameters
    ----------
    record : RunRecord
        Parties without both accuracies are not drawn.
    prefix : str
        Goes before every id in the SVG, so that several fit in one page.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    """
    rows = facts.rows_used(record)
    both = facts.pairs(record, rows)
    if not both:
        return Plot(
            title="Accuracy of each party",
            svg="",
            caption="Not drawn: no party's accuracy is known both alone and with the federation.",
        )
    gain = sum(after > alone for _, alone, after in both)
    alone_mean, after_mean = facts.means(both)
    title = (
        f"With the federation {after_mean:.2f} on average, alone {alone_mean:.2f}: "
        f"{gain} of {facts.count(len(both), 'party gains', 'parties gain')}"
    )
    named = len(both) <= _NAMED_PARTIES
    with Canvas(1.75 + 0.235 * len(both) if named else 3.9) as canvas:
        axes = canvas.figure.add_subplot()
        _dumbbells(axes, both, named=named)
        mark = axes.axvline if named else axes.axhline
        if facts.is_number(record.server_accuracy):
            label = f"server's model {share(record.server_accuracy)}"
            mark(record.server_accuracy, color=GREEN, linestyle="--", linewidth=1.6, label=label)
        if facts.is_number(record.centralised):
            label = f"centralised {share(record.centralised)}"
            mark(record.centralised, color=PINK, linestyle=":", linewidth=1.9, label=label)
        words = f"accuracy: share of {facts.ROWS[rows]} that are right"
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
        f"Each line is one party: from its accuracy alone (hollow circle) to its accuracy with the federation "
        f"(full circle), on the {facts.ROWS[rows]}. An orange line means that the party lost."
    )
    if facts.is_number(record.centralised):
        caption += " Centralised: one model on all private rows pooled, which a federation exists to avoid."
    return Plot(title=title, svg=svg, caption=caption)


def _dumbbells(axes: Any, both: Sequence[tuple[Any, float, float]], *, named: bool) -> None:
    """Draw the parties: as rows with names where there are few, side by side where there are many."""
    places = list(range(len(both)))
    alone, after = [item[1] for item in both], [item[2] for item in both]
    colours = [ORANGE if b < a else "#9cc3dd" for a, b in zip(alone, after, strict=True)]
    area = 40.0 if named else max(7.0, 900.0 / len(both))
    hollow = {"s": area, "facecolors": "white", "edgecolors": INK, "linewidths": 1.2 if named else 0.9}
    full = {"s": area, "color": BLUE}
    labels = {"label": "alone (SOLO)"}, {"label": "with the federation"}
    if named:
        axes.hlines(places, alone, after, colors=colours, linewidth=2.4, zorder=1)
        axes.scatter(alone, places, zorder=3, **hollow, **labels[0])
        axes.scatter(after, places, zorder=2, **full, **labels[1])
        axes.set_yticks(places)
        # parse_math is off everywhere: a party's name may hold dollar signs
        axes.set_yticklabels([plain(p.name, 24) for p, _, _ in both], parse_math=False)
        axes.set_ylim(-0.7, len(both) - 0.3)
        axes.tick_params(axis="y", length=0)
    else:
        axes.vlines(places, alone, after, colors=colours, linewidth=max(1.0, 140 / len(both)), zorder=1)
        axes.scatter(places, alone, zorder=3, **hollow, **labels[0])
        axes.scatter(places, after, zorder=2, **full, **labels[1])
        axes.set_xticks([])
        axes.set_xlim(-1, len(both))


def rounds_plot(record: RunRecord, *, prefix: str = "rounds") -> Plot:
    """Draw agreement, labelled share, consensus accuracy and the parties' accuracy over rounds.

    Parameters and errors as in `accuracy_plot`.
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
    bands = [facts.spread(r.accuracy.values()) for r in rounds]
    lower: list[_Line] = [
        ("mean of the parties", [b.mean if b else None for b in bands], BLUE, "o", "-"),
        ("consensus labels", [r.consensus_accuracy for r in rounds], GREEN, "^", "--"),
    ]
    panels = [
        (lines, words)
        for lines, words in ((upper, "share"), (lower, "accuracy (share right)"))
        if any(_known(line[1]) for line in lines)
    ]
    if not panels:
        return Plot(title=heading, svg="", caption="Not drawn: nothing was recorded per round, or it is withheld.")
    title = _rounds_title(record, bands)
    x = [r.server_round for r in rounds]
    with Canvas(0.6 + 2.25 * len(panels)) as canvas:
        all_axes = canvas.figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
        for axes, (lines, words) in zip(all_axes, panels, strict=True):
            if lines is lower and any(bands):
                low = [b.lowest if b else float("nan") for b in bands]
                high = [b.highest if b else float("nan") for b in bands]
                label = "lowest to highest party"
                axes.fill_between(x, low, high, color=BLUE, alpha=0.15, linewidth=0, label=label)
            for label, values, colour, marker, style in lines:
                if _known(values):
                    y = [v if v is not None and facts.is_number(v) else float("nan") for v in values]
                    marks = {"marker": marker, "markersize": 4.5} if len(x) <= 40 else {}
                    axes.plot(x, y, color=colour, linestyle=style, linewidth=1.7, label=label, **marks)
            if lines is upper:
                axes.set_ylim(-0.03, 1.05)
            axes.set_ylabel(words)
            axes.grid(axis="y")
            canvas.legend(axes)
        all_axes[-1].set_xlabel("round")
        all_axes[-1].xaxis.get_major_locator().set_params(integer=True)
        canvas.title(title)
        svg = canvas.svg(prefix)
    caption = "The share of public rows with a label shows how often the vote decided."
    if _known([r.agreement for r in rounds]):
        caption = (
            "Agreement: on how many of the labelled public rows a party gives the consensus, on average. " + caption
        )
    return Plot(title=title, svg=svg, caption=caption)


_Line = tuple[str, Sequence[float | None], str, str, str]


def _known(values: Sequence[float | None]) -> list[float]:
    return [v for v in values if v is not None and facts.is_number(v)]


def _rounds_title(record: RunRecord, bands: Sequence[facts.Spread | None]) -> str:
    last = record.rounds[-1].server_round
    means = [b.mean for b in bands if b]
    if len(means) > 1:
        word = "rises" if means[-1] > means[0] + 5e-4 else "falls" if means[-1] < means[0] - 5e-4 else "stays"
        if word == "stays":
            return f"The parties' mean accuracy stays at {means[-1]:.3f} over {last} rounds"
        return f"The parties' mean accuracy {word} from {means[0]:.3f} to {means[-1]:.3f} in {last} rounds"
    agreement = _known([r.agreement for r in record.rounds])
    if len(agreement) > 1:
        return f"Agreement goes from {agreement[0]:.2f} to {agreement[-1]:.2f} in {last} rounds"
    return f"How the vote went over {last} rounds"


def bytes_plot(record: RunRecord, *, prefix: str = "bytes") -> Plot:
    """Draw what labels weighed per party and round, beside what sharing the model would have.

    Parameters and errors as in `accuracy_plot`.
    """
    sent = facts.traffic(record)
    model, averageable = facts.model_sharing(record)
    rival = "the model (FedAvg)" if averageable else "the model itself"
    bars: list[tuple[str, float | None, str]] = [("labels down", sent.down, BLUE)]
    if sent.up_later is None:
        bars.insert(0, ("labels up", sent.up, BLUE))
    else:
        bars.insert(0, ("labels up, later rounds", sent.up_later, BLUE))
        bars.insert(0, ("labels up, first round", sent.up_first, BLUE))
    bars += [(f"{rival}, up", model, ORANGE), (f"{rival}, down", model, ORANGE)]
    drawn = [(words, value, colour) for words, value, colour in bars if value is not None and value > 0]
    if not any(colour == BLUE for _, _, colour in drawn):
        return Plot(title="Bytes", svg="", caption="Not drawn: no bytes of labels were recorded.")
    title = _bytes_title(sent, model, averageable)
    with Canvas(1.25 + 0.36 * len(drawn)) as canvas:
        axes = canvas.figure.add_subplot()
        places = list(range(len(drawn)))[::-1]
        values = [value for _, value, _ in drawn]
        left = min(values) / 4
        axes.set_xscale("log")
        axes.set_xlim(left, max(values) * (max(values) / left) ** 0.18)
        axes.hlines(places, left, values, colors=[c for _, _, c in drawn], linewidth=2.2)
        for place, (_, value, colour) in zip(places, drawn, strict=True):
            marker = "o" if colour == BLUE else "D"
            axes.plot([value], [place], marker=marker, markersize=7, color=colour)
            axes.annotate(size(value), (value, place), (9, 0), textcoords="offset points", va="center")
        axes.set_yticks(places, [words for words, _, _ in drawn])
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(-0.6, len(drawn) - 0.4)
        canvas.byte_axis(axes)
        axes.set_xlabel("bytes per party and round (each grid line is ten times the one before)")
        axes.grid(axis="x")
        canvas.title(title)
        svg = canvas.svg(prefix)
    caption = "Array bytes with their header, without Flower's envelope; 1 KB is 1,000 bytes."
    if model is None:
        caption += " What sharing models would weigh is not known for this run."
    elif averageable:
        caption += " FedAvg would send the same model up and down in every round; its size is the parties' mean."
    else:
        caption += (
            " FedAvg does not exist for these models: they have no weights to average, or differ between parties."
            " Shown instead is what sending the model itself once would weigh (the parties' mean)."
        )
    return Plot(title=title, svg=svg, caption=caption)


def _bytes_title(sent: facts.Traffic, model: float | None, averageable: bool) -> str:
    labels = (sent.up or 0.0) + (sent.down or 0.0)
    if model is None or not labels > 0:
        return f"A party sends {size(sent.up)} of labels a round and receives {size(sent.down)}"
    ratio = 2 * model / labels
    other = "FedAvg of the same model" if averageable else "sending the model itself"
    if ratio >= 1:
        return f"Labels need {facts.number(ratio)} times fewer bytes than {other}"
    return f"Labels need {facts.number(1 / ratio)} times as many bytes as {other}"

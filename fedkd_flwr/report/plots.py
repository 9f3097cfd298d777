"""The pages' pictures, drawn as SVG text from a run record, or from the results of a sweep.

Shapes and line styles differ as colours do, so a grey print can be read. Importing this imports no matplotlib.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedkd_flwr.report import facts
from fedkd_flwr.report.bytes_plot import bytes_plot
from fedkd_flwr.report.canvas import BLUE, GREEN, INK, ORANGE, PINK, Canvas, Plot
from fedkd_flwr.report.claims import bound_text, claim_words
from fedkd_flwr.report.facts import plain, share
from fedkd_flwr.report.sweep import Sweep
from fedkd_flwr.run_record import RunRecord

__all__ = ["Plot", "accuracy_against_epsilon", "accuracy_plot", "bytes_plot", "rounds_plot"]

_NAMED_PARTIES = 25  # more than these stand side by side, without names


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
    server = facts.is_number(record.server_accuracy)
    if not both and server:  # the result is the server's model: parties stand beside it alone
        ranked = sorted((p for p in record.parties if facts.is_number(p.solo.get(rows))), key=lambda p: p.solo[rows])
        both = [(p, p.solo[rows], math.nan) for p in ranked]
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
    after_too = not math.isnan(after_mean)
    if not after_too:
        better = sum(alone < (record.server_accuracy or 0.0) for _, alone, _ in both)
        title = (
            f"The server's model reaches {record.server_accuracy:.2f}, a party alone {alone_mean:.2f} on average: "
            f"it is better than {better} of {facts.count(len(both), 'party', 'parties')}"
        )
    named = len(both) <= _NAMED_PARTIES
    with Canvas(1.75 + 0.235 * len(both) if named else 3.9) as canvas:
        axes = canvas.figure.add_subplot()
        _dumbbells(axes, both, named=named)
        mark = axes.axvline if named else axes.axhline
        if server:
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
        if after_too
        else f"Each circle is one party's accuracy alone, on the {facts.ROWS[rows]}."
    )
    if facts.simulation_only(record):
        caption += f" The parties' accuracies: {facts.SIMULATION_ONLY}."
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
    # an accuracy that is not known is not drawn, nor named in the legend
    labels = {"label": "alone (SOLO)"}, {} if all(map(math.isnan, after)) else {"label": "with the federation"}
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
        ("server's model", facts.server_accuracies(record), INK, "D", "-."),
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
    caption = ""
    if _known([r.labelled_share for r in rounds]):
        caption = "The share of public rows with a label shows how often the vote decided."
    if any(bands) and facts.simulation_only(record):
        caption += f" The parties' accuracies: {facts.SIMULATION_ONLY}."
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
    model = _known(facts.server_accuracies(record))
    if len(model) > 1:
        word = "rises" if model[-1] > model[0] + 5e-4 else "falls" if model[-1] < model[0] - 5e-4 else "goes"
        return f"The server's model {word} from {model[0]:.3f} to {model[-1]:.3f} in {last} rounds"
    agreement = _known([r.agreement for r in record.rounds])
    if len(agreement) > 1:
        return f"Agreement goes from {agreement[0]:.2f} to {agreement[-1]:.2f} in {last} rounds"
    return f"How the vote went over {last} rounds"


def accuracy_against_epsilon(sweep: Sweep, *, prefix: str = "sweep", picture: Path | None = None) -> Plot:
    """Draw what accuracy each epsilon leaves: mean over seeds with lowest and highest, beside no noise and SOLO.

    Parameters
    ----------
    sweep : Sweep
        The results of runs that differ in their noise.
    prefix : str
        As in `accuracy_plot`.
    picture : Path, optional
        A file to draw it to as well; its name ends in ``.svg``, ``.png`` or ``.pdf``.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    """
    points = sorted(sweep.points, key=lambda point: point.epsilon)
    means = [math.fsum(point.accuracies) / len(point.accuracies) for point in points]
    epsilons = [point.epsilon for point in points]
    title = _sweep_title(sweep, epsilons, means)
    with Canvas(4.1) as canvas:
        axes = canvas.figure.add_subplot()
        low = [mean - min(point.accuracies) for mean, point in zip(means, points, strict=True)]
        high = [max(point.accuracies) - mean for mean, point in zip(means, points, strict=True)]
        runs = f"with noise: {sweep.measure}"
        axes.errorbar(epsilons, means, yerr=[low, high], color=BLUE, marker="o", markersize=6, capsize=4, label=runs)
        lines = (
            (sweep.without_noise, "without noise", GREEN, "--"),
            (sweep.alone, "a party alone (SOLO)", ORANGE, ":"),
        )
        for values, words, colour, style in lines:
            if values:
                mean = math.fsum(values) / len(values)
                axes.axhspan(min(values), max(values), color=colour, alpha=0.10, linewidth=0)
                axes.axhline(mean, color=colour, linestyle=style, linewidth=1.8, label=f"{words} {share(mean)}")
        canvas.epsilon_axis(axes, epsilons)
        axes.set_xlabel("\n".join(textwrap.wrap(f"epsilon of {claim_words(sweep.claim)}", 88)), parse_math=False)
        axes.set_ylabel("accuracy on common test rows")
        axes.grid(axis="both")
        canvas.title(title)
        canvas.legend(axes, columns=2)
        svg = canvas.svg(prefix)
        if picture is not None:
            canvas.save(picture)
    seeds = facts.count(len(sweep.seeds), "seed")
    caption = (
        f"Each point is the mean over {seeds}, its bar the lowest and the highest run; bands do so for the lines. "
        "The axis is logarithmic: further right is less privacy. Each point is a run of its own: the epsilon covers "
        "that run alone, and running all of them on the same data costs more than any of them."
    )
    return Plot(title=title, svg=svg, caption=caption)


def _sweep_title(sweep: Sweep, epsilons: Sequence[float], means: Sequence[float]) -> str:
    first = f"{means[0]:.3f} at epsilon {bound_text(epsilons[0])}"
    last = f"{means[-1]:.3f} at {bound_text(epsilons[-1])}"
    measure = sweep.measure[:1].upper() + sweep.measure[1:]
    title = f"{measure}: {first}" + (f", {last}" if len(means) > 1 else "")
    if sweep.without_noise:
        title += f", {math.fsum(sweep.without_noise) / len(sweep.without_noise):.3f} without noise"
    return title if sweep.claim.get("basis") == "proven" else f"{title} (NOT proven)"

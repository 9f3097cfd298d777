"""The picture of a sweep: accuracy against epsilon."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from pathlib import Path

from fedkd_flwr.report.canvas import BLUE, GREEN, ORANGE, Canvas, Plot
from fedkd_flwr.report.claims import bound_text, claim_words
from fedkd_flwr.report.formatting import count, share

from .pictures import epsilon_axis
from .sweep import Sweep

__all__ = ["accuracy_against_epsilon"]


def accuracy_against_epsilon(sweep: Sweep, *, picture: Path | None = None) -> Plot:
    """Draw the accuracy at each epsilon: the mean over seeds, with the lowest and the highest run.

    Lines show the accuracy without noise, and that of a party alone (SOLO), if the sweep has them.

    Parameters
    ----------
    sweep : Sweep
        The results of runs that differ in their noise.
    picture : Path, optional
        A file to write the picture to as well. Its name ends in ``.svg``, ``.png`` or ``.pdf``.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    """
    points = sorted(sweep.points, key=lambda point: point.epsilon)
    means = [math.fsum(point.accuracies) / len(point.accuracies) for point in points]
    epsilons = [point.epsilon for point in points]
    title = _sweep_title(sweep, epsilons, means)
    with Canvas(4.1, width=6.8) as canvas:
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
        epsilon_axis(axes, epsilons)
        axes.set_xlabel("\n".join(textwrap.wrap(f"epsilon of {claim_words(sweep.claim)}", 88)), parse_math=False)
        axes.set_ylabel("accuracy on common test rows")
        axes.grid(axis="both")
        canvas.title(title)
        canvas.legend(axes, columns=2)
        svg = canvas.svg("sweep")
        if picture is not None:
            canvas.save(picture)
    seeds = count(len(sweep.seeds), "seed")
    caption = (
        f"Each point is the mean over {seeds}; its bar reaches from the lowest to the highest run, as do the bands "
        "around the lines. The axis is logarithmic, and further right means less privacy. Each epsilon covers one run "
        "alone: running all of them on the same data costs more than any one of them."
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

"""The page of a sweep: accuracy against epsilon, and what the epsilons protect."""

from __future__ import annotations

from pathlib import Path

from fedkd_flwr.errors import MissingExtraError
from fedkd_flwr.report import claims, results, run_privacy
from fedkd_flwr.report.formatting import count, share
from fedkd_flwr.report.html import Html, save_document, table, tag

from .sweep import Sweep
from .sweep_plot import accuracy_against_epsilon

__all__ = ["write_sweep_page"]


def write_sweep_page(sweep: Sweep, path: Path) -> Path:
    """Write the page of a sweep and return its path. Without matplotlib it has its tables but no picture, and says so.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    try:
        plot = accuracy_against_epsilon(sweep)
        heading = plot.title
        picture = tag("div", Html(plot.svg), class_="plot", tabindex="0", role="img", aria_label=plot.title)
        figure = tag("figure", picture, tag("figcaption", plot.caption))
    except MissingExtraError as error:
        heading, figure = "Accuracy against epsilon", tag("p", str(error), class_="warn")
    seeds = count(len(sweep.seeds), "seed")
    return save_document(
        path,
        f"Sweep of {sweep.name}: {heading}",
        tag("p", f"sweep of {sweep.name} over {sweep.varied} · {seeds} · simulation", class_="soft"),
        tag("h1", heading),
        *(tag("p", warning, class_="bad") for warning in run_privacy.unproven([sweep.claim])),
        figure,
        tag("section", tag("h2", "Each epsilon"), _points(sweep)),
        tag("section", tag("h2", "What the epsilons are about"), *_about(sweep)),
        tag("section", tag("h2", "How to run this again"), tag("pre", tag("code", sweep.command or "not recorded"))),
    )


def _points(sweep: Sweep) -> Html:
    def row(name: str, epsilon: str, values: list[float]) -> list[str]:
        found = results.spread(values)
        cells = [share(found.mean), share(found.lowest), share(found.highest)] if found else ["–"] * 3
        return [name, epsilon, *cells, str(len(values))]

    body = [
        row(f"{sweep.varied} = {point.value}", claims.bound_text(point.epsilon), point.accuracies)
        for point in sorted(sweep.points, key=lambda point: point.epsilon)
    ]
    if sweep.without_noise:
        body.append(row("without noise", "no bound", sweep.without_noise))
    if sweep.alone:
        body.append(row("a party alone (SOLO, mean)", "nothing is released", sweep.alone))
    header = ["", "epsilon", f"accuracy: {sweep.measure}", "lowest", "highest", "runs"]
    return table(header, body, numbers=range(1, 6), label="Each epsilon")


def _about(sweep: Sweep) -> list[Html]:
    cells = claims.claim_cells(sweep.claim) | {"epsilon": "as in the table above"}
    # The noise differs from point to point, so the first point's description does not fit the others.
    cells.pop("noise", None)
    sentences = [
        *run_privacy.trust([sweep.claim]),
        "Each epsilon is that of one run, computed without looking at private data. All runs of the sweep together "
        "cost more. Choosing the setting that did best also looks at private data, and no claim covers that choice.",
        "The accuracies are those of simulated parties. At real silos such a picture itself would cost privacy.",
    ]
    body = [[heading, value] for heading, value in cells.items()]
    return [*(tag("p", text) for text in sentences), table(["", "claim"], body, label="Privacy claim")]

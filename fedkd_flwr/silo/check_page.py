"""The page of ``fedkd check`` at a silo: its findings, and how private and public rows differ, for the silo alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fedkd_flwr.errors import MissingExtraError
from fedkd_flwr.report.figure import BLUE, Canvas, Plot
from fedkd_flwr.report.formatting import plain
from fedkd_flwr.report.html import Html, save_document, table, tag
from fedkd_flwr.silo.check import Level
from fedkd_flwr.silo.check_silo import Looked

__all__ = ["shift_plot", "write_check_page"]

_MOST_COLUMNS = 25
_WORDS = {Level.READY: "ready", Level.WARNING: "warning", Level.FAULT: "not ready"}


def shift_plot(looked: Looked, *, prefix: str = "shift") -> Plot:
    """Draw how differently each column is filled in private and in public rows, the most different on top."""
    columns = list(looked.columns[:_MOST_COLUMNS])[::-1]
    if looked.shift is None or not columns:
        return Plot(title="", svg="", caption="")
    title = f"Private rows are told from public ones with an AUC of {looked.shift.auc:.2f}"
    with Canvas(1.2 + max(0.235 * len(columns), 0.7)) as canvas:
        axes = canvas.figure.add_subplot()
        places = list(range(len(columns)))
        axes.barh(places, [distance for _, distance in columns], height=0.6, color=BLUE)
        axes.set_xlim(0.0, 1.05)
        axes.set_yticks(places)
        axes.set_yticklabels([plain(name, 24) for name, _ in columns], parse_math=False)
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel("difference of the two distributions: 0 none, 1 nothing in common")
        axes.grid(axis="x")
        canvas.title(title)
        svg = canvas.svg(prefix)
    caption = (
        "For numbers the largest difference of the distribution functions, for categories half the sum of the "
        "differences of shares. A column near 1 often has another unit, other codes, or another span of time."
    )
    return Plot(title=title, svg=svg, caption=caption)


def _class_plot(looked: Looked, *, prefix: str = "classes") -> Plot:
    """Draw how many private rows there are of each class."""
    counts = list(looked.class_counts.items())[:_MOST_COLUMNS][::-1]
    if not counts:
        return Plot(title="", svg="", caption="")
    title = f"{sum(looked.class_counts.values()):,} rows to learn from"
    with Canvas(1.2 + max(0.235 * len(counts), 0.7)) as canvas:
        axes = canvas.figure.add_subplot()
        places = list(range(len(counts)))
        axes.barh(places, [count for _, count in counts], height=0.6, color=BLUE)
        axes.set_yticks(places)
        axes.set_yticklabels([plain(name, 24) for name, _ in counts], parse_math=False)
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel("private rows of the class")
        axes.grid(axis="x")
        canvas.title(title)
        svg = canvas.svg(prefix)
    return Plot(title=title, svg=svg, caption="A class that this party does not hold it cannot vote for.")


def write_check_page(looked: Looked, path: Path) -> Path:
    """Write what a look at a silo gave as a page; return its path. It shows private rows' distributions."""
    body = [[_WORDS[one.level], one.subject, one.what, one.why, one.way_out] for one in looked.findings]
    worst = max((one.level for one in looked.findings), default=Level.READY)
    headline = {Level.READY: "Ready", Level.WARNING: "Ready, with warnings", Level.FAULT: "Not ready"}[worst]
    note = "This page is for the owner of this silo. It was computed from private rows: do not pass it on."
    return save_document(
        path,
        f"fedkd check: {headline}",
        tag("header", tag("h1", headline), tag("p", note, class_="soft")),
        tag("section", tag("h2", "Pictures"), *_drawn(looked, shift_plot, _class_plot)),
        tag(
            "section",
            tag("h2", "Findings"),
            table(["", "about", "what", "why it matters", "what to do"], body, label="Findings"),
        ),
    )


def _drawn(looked: Looked, *plots: Callable[[Looked], Plot]) -> list[Html]:
    try:
        made = [plot(looked) for plot in plots]
    except MissingExtraError as error:
        return [tag("p", str(error), class_="warn")]
    return [
        tag(
            "figure",
            tag("div", Html(plot.svg), class_="plot", tabindex="0", role="img", aria_label=plot.title),
            tag("figcaption", plot.caption),
        )
        for plot in made
        if plot.svg
    ] or [tag("p", "Nothing could be drawn: the rows could not be read.")]

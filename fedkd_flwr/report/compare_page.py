"""The page and the picture of a comparison of runs."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from fedkd_flwr.errors import MissingExtraError
from fedkd_flwr.report.compare import WHOSE, Comparison, Gap, Group, verdict
from fedkd_flwr.report.compare_text import figure_rows, figure_title, gap_sentence, group_title, how, setting_rows
from fedkd_flwr.report.derived import ROWS
from fedkd_flwr.report.figure import BLUE, GREY, INK, ORANGE, Canvas, Plot
from fedkd_flwr.report.formatting import count, plain
from fedkd_flwr.report.html import Html, save_document, table, tag

__all__ = ["comparison_plot", "write_compare_page"]


def write_compare_page(found: Comparison, path: Path) -> Path:
    """Write the page of a comparison and return its path. Without matplotlib it has no picture, and says so.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    heading = _heading(found)
    try:
        plot = comparison_plot(found)
        picture = tag("div", Html(plot.svg), class_="plot", tabindex="0", role="img", aria_label=plot.title)
        figure = tag("figure", picture, tag("figcaption", plot.caption))
    except MissingExtraError as error:
        figure = tag("p", str(error), class_="warn")
    letters = [group.letter for group in found.groups]
    parts = [
        tag("p", f"comparison of {count(sum(len(g.records) for g in found.groups), 'run')}", class_="soft"),
        tag("h1", heading),
        *(tag("p", warning, class_="bad") for warning in found.warnings),
        tag("ul", *(tag("li", tag("b", f"{group.letter}: "), group_title(group)) for group in found.groups)),
        figure,
    ]
    if found.gaps:
        items = tag("ul", *(tag("li", gap_sentence(found, gap)) for gap in found.gaps))
        parts.append(tag("section", tag("h2", "Differences"), items))
    head = [f"{group.letter} ({count(len(group.records), 'run')})" for group in found.groups]
    figures = table(
        [figure_title(found), *head], figure_rows(found), numbers=range(1, len(head) + 1), label="What was reached"
    )
    parts.append(tag("section", tag("h2", "What was reached"), figures))
    if found.differs:
        settings = table(["", *letters], setting_rows(found), label="Settings that differ")
        parts.append(tag("section", tag("h2", "Settings that differ"), settings))
    parts.append(tag("section", tag("h2", "How to read this"), *(tag("p", line) for line in how(found))))
    parts.append(tag("p", "This page shows numbers computed from private rows: it is for the operator.", class_="soft"))
    return save_document(path, f"Comparison: {heading}", *parts)


def _heading(found: Comparison) -> str:
    """Return the finding in a sentence."""
    if not found.gaps:
        return f"{count(len(found.groups), 'group')} of runs beside each other"
    best = max(found.gaps, key=lambda gap: (gap.difference.clear, abs(gap.difference.mean)))
    others = f"; {count(len(found.gaps) - 1, 'other difference')} below" if len(found.gaps) > 1 else ""
    figure = found.figure.replace("_", " ")
    change = f"{best.second} minus {best.first}: {best.difference.mean:+.3f} {figure} of {WHOSE[best.whose]}"
    return f"{change}, {verdict(best)}{others}"


def comparison_plot(found: Comparison) -> Plot:
    """Draw what each group reached, run by run, and the paired differences with their intervals.

    Parameters
    ----------
    found : Comparison
        The runs.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    """
    rows = len(found.groups)
    gaps = [gap for gap in found.gaps if gap.difference.known]
    title = _heading(found)
    with Canvas(1.5 + 0.42 * rows + (0.9 + 0.36 * len(gaps) if gaps else 0)) as canvas:
        ratios = [rows + 1, len(gaps) + 1] if gaps else [1]
        axes = canvas.figure.subplots(len(ratios), 1, height_ratios=ratios, squeeze=False)[:, 0]
        _draw_groups(found, axes[0], canvas)
        if gaps:
            _draw_gaps(found, gaps, axes[1])
        canvas.title(title)
        svg = canvas.svg("compare")
    caption = (
        f"Small circles are single runs, of parties the mean of a run; large ones are the means over runs. All on "
        f"{ROWS[found.rows]}."
    )
    if gaps:
        caption += " Below: differences paired by seed. Blue is more than noise, grey is not."
    return Plot(title=title, svg=svg, caption=caption)


_LOOKS = {
    "alone": ("parties alone", ORANGE, "D"),
    "federated": ("parties, federated", BLUE, "o"),
    "server": ("server's model", INK, "s"),
}


def _draw_groups(found: Comparison, axes: Any, canvas: Canvas) -> None:
    shown = [whose for whose in _LOOKS if any(group.values(found.value(whose)) for group in found.groups)]
    for i, whose in enumerate(shown):
        words, colour, marker = _LOOKS[whose]
        shift = 0.22 * (i - (len(shown) - 1) / 2)
        for place, group in enumerate(found.groups):
            values = group.values(found.value(whose))
            if not values:
                continue
            height = place + shift
            label = words if place == _first(found, whose) else None
            if len(values) > 1:
                axes.scatter(values, [height] * len(values), s=14, color=GREY, zorder=2)
            mean = [statistics.fmean(values)]
            axes.scatter(mean, [height], s=52, color=colour, marker=marker, label=label, zorder=3)
    _name_rows(axes, [f"{group.letter}  {_short(group)}" for group in found.groups])
    axes.set_xlabel(figure_title(found))
    axes.grid(axis="x")
    canvas.legend(axes)


def _draw_gaps(found: Comparison, gaps: list[Gap], axes: Any) -> None:
    places = list(range(len(gaps)))
    for place, gap in zip(places, gaps, strict=True):
        colour = BLUE if gap.difference.clear else GREY
        axes.errorbar(
            [gap.difference.mean],
            [place],
            xerr=[gap.difference.half],
            color=colour,
            marker="o",
            markersize=6,
            capsize=4,
        )
    axes.axvline(0.0, color=INK, linewidth=1.0)
    server = {gap.whose for gap in gaps} == {"federated", "server"}
    names = [f"{g.second} − {g.first}" + (" (server)" if server and g.whose == "server" else "") for g in gaps]
    _name_rows(axes, names)
    axes.set_xlabel(f"difference of {found.figure.replace('_', ' ')}")
    axes.grid(axis="x")


def _name_rows(axes: Any, names: list[str]) -> None:
    """Write a name at each row, the first row on top."""
    axes.set_yticks(range(len(names)))
    axes.set_yticklabels(names, parse_math=False)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)


def _first(found: Comparison, whose: str) -> int:
    return next(i for i, group in enumerate(found.groups) if group.values(found.value(whose)))


def _short(group: Group) -> str:
    """Return a group's name, else the settings in which it differs, cut off where they are long."""
    known = {key.rpartition(".")[2]: value for key, value in group.settings.items() if value is not None}
    return plain(group.name or ", ".join(v if isinstance(v, str) else f"{k} {v}" for k, v in known.items()), 24)

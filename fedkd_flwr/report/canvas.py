"""A matplotlib figure in the style of the pages, written as SVG text: by `Figure` alone, so no global state remains.

The colours are those of Okabe and Ito (https://jfly.uni-koeln.de/color/), which people with any common form of colour
blindness can tell apart, two of them darkened. In a page they are CSS variables, which a dark page sets to others.
"""

from __future__ import annotations

import io
import re
import textwrap
import warnings
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from fedkd_flwr.errors import MissingExtraError

__all__ = ["BLUE", "GREEN", "GREY", "INK", "ORANGE", "PALE", "PINK", "Canvas", "Plot"]

BLUE, ORANGE, GREEN, PINK, INK, GREY = "#0072b2", "#d55e00", "#007a5a", "#aa4488", "#222222", "#8a8a8a"
PALE = "#9cc3dd"  # blue
_WIDTH = 5.2  # inches: text is still large enough where a phone shows it smaller
_IN_PAGE = {
    INK: "currentColor",
    GREY: "var(--soft,#8a8a8a)",
    "#dddddd": "var(--line,#ddd)",
    "#ffffff": "var(--back,#fff)",
    BLUE: "var(--blue,#0072b2)",
    ORANGE: "var(--orange,#d55e00)",
    GREEN: "var(--green,#007a5a)",
    PINK: "var(--pink,#a48)",
}
_STYLE = {
    "font.family": "sans-serif",
    "font.size": 9.5,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "svg.fonttype": "none",  # keep text as text, so that a reader can search it and a screen reader can speak it
    "svg.hashsalt": "fedkd-flwr",  # fixed, so that the same record always gives the same SVG
}


@dataclass(frozen=True, kw_only=True)
class Plot:
    """A picture for a page."""

    title: str = ""  # the finding in one sentence
    svg: str = ""  # an ``<svg>`` element, or "" if the record holds nothing to draw
    caption: str = ""  # what the picture shows, or why there is none; "" where nobody would look for it


class Canvas:
    """A context manager that holds one figure in this module's style, and restores matplotlib's settings at the end.

    Height and width are in inches. Raises `MissingExtraError` if matplotlib is not installed.
    """

    def __init__(self, height: float, width: float = _WIDTH) -> None:
        try:
            import matplotlib
            import matplotlib.style
            from matplotlib.backends.backend_svg import FigureCanvasSVG
            from matplotlib.figure import Figure
        except ImportError as error:
            raise MissingExtraError(
                'Plots need matplotlib, which is not installed. Run: pip install "fedkd-flwr[report]"'
            ) from error
        self._settings = ExitStack()
        # Start from matplotlib's defaults: the user's own settings may ask for LaTeX or other fonts.
        self._settings.enter_context(matplotlib.style.context(["default", _STYLE]))
        self.figure: Any = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasSVG(self.figure)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._settings.close()

    def title(self, text: str) -> None:
        """Write the title above the axes, left-aligned and wrapped; a page writes its pictures' titles itself."""
        lines = "\n".join(textwrap.wrap(text, int(11.5 * self.figure.get_figwidth())))
        self.figure.suptitle(lines, x=0.01, ha="left", fontsize=10.5, weight="bold", parse_math=False)

    def legend(self, axes: Any, *, columns: int = 2) -> None:
        """Place the legend above the axes, where it covers no data."""
        look = {"borderaxespad": 0.2, "columnspacing": 1.2, "handletextpad": 0.5}
        axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=columns, **look)

    def save(self, path: Path) -> None:
        """Write the figure to a file, in the format of the file name's ending (``.svg``, ``.png`` or ``.pdf``)."""
        self.figure.savefig(path, dpi=150)

    def svg(self, prefix: str) -> str:
        """Return the figure as an ``<svg>`` element without outside references, whose ids start with ``prefix``."""
        target = io.StringIO()
        # Without a date, two drawings of one record are equal.
        nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
        with warnings.catch_warnings():
            # A name may use letters that matplotlib's font lacks; the browser draws text with its own fonts.
            warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
            self.figure.savefig(target, format="svg", metadata=nothing)
        return _for_page(target.getvalue(), prefix)


def _for_page(svg: str, prefix: str) -> str:
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<style\b.*?</style>", "", svg, flags=re.DOTALL)  # an SVG's style sheet would apply to the whole page

    def inside_tag(match: re.Match[str]) -> str:
        tag = re.sub(r'\bid="', f'id="{prefix}-', match[0])
        tag = re.sub(r'\b(?:xlink:)?href="#', f'href="#{prefix}-', tag)
        tag = re.sub(r"(?<=: )#[0-9a-f]{6}\b", lambda colour: _IN_PAGE.get(colour[0], colour[0]), tag)
        return tag.replace("url(#", f"url(#{prefix}-")

    svg = re.sub(r"<[^<>]+>", inside_tag, svg)  # text is escaped, so each bracket belongs to a tag
    opening, rest = svg.split(">", 1)
    opening = re.sub(r'\s(?:width|height|xmlns(?::\w+)?|version)="[^"]*"', "", opening)
    return f'{opening} xmlns="http://www.w3.org/2000/svg" aria-hidden="true" focusable="false">{rest}'

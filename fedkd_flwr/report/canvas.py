"""One figure to draw on, and its way into a page as SVG text.

matplotlib is used through `Figure` alone: no pyplot, no window, no state left behind. Colours are Okabe and Ito's
(https://jfly.uni-koeln.de/color/), two of them darkened to be read on white: told apart by every common kind of
colour blindness.
"""

from __future__ import annotations

import io
import re
import textwrap
import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from fedkd_flwr.errors import MissingExtraError
from fedkd_flwr.report.facts import size

__all__ = ["BLUE", "GREEN", "GREY", "INK", "ORANGE", "PINK", "Canvas", "Plot"]

BLUE, ORANGE, GREEN, PINK, INK, GREY = "#0072B2", "#D55E00", "#007A5A", "#AA4488", "#222222", "#8a8a8a"
_WIDTH = 6.8  # inches
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
    "svg.fonttype": "none",  # text stays text: searchable, and read out
    "svg.hashsalt": "fedkd-flwr",  # the same record gives the same bytes
}


@dataclass(frozen=True, kw_only=True)
class Plot:
    """One picture: its finding, its SVG ("" where it was left out), and the sentence below it."""

    title: str
    svg: str
    caption: str


class Canvas:
    """One figure under this module's style; matplotlib's settings are as before when it closes."""

    def __init__(self, height: float) -> None:
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
        # the user's matplotlibrc may ask for LaTeX or other fonts: start from the defaults
        self._settings.enter_context(matplotlib.style.context(["default", _STYLE]))
        self.figure: Any = Figure(figsize=(_WIDTH, height), layout="constrained")
        FigureCanvasSVG(self.figure)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._settings.close()

    def title(self, text: str) -> None:
        """Write the finding above the axes, from the left edge of the figure, wrapped."""
        self.figure.suptitle("\n".join(textwrap.wrap(text, 78)), x=0.01, ha="left", fontsize=10.5, weight="bold")

    def legend(self, axes: Any, *, columns: int = 0) -> None:
        """Place the legend above the axes, where no data can lie beneath it."""
        handles, _ = axes.get_legend_handles_labels()
        axes.legend(
            loc="lower left",
            bbox_to_anchor=(0.0, 1.0),
            ncols=columns or (len(handles) if len(handles) < 4 else 2),
            borderaxespad=0.2,
            columnspacing=1.2,
            handletextpad=0.5,
        )

    def byte_axis(self, axes: Any) -> None:
        """Write the decades of a logarithmic axis as B, KB, MB."""
        from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

        axes.xaxis.set_major_locator(LogLocator(base=10, numticks=12))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: size(value).replace(".0 ", " ")))

    def epsilon_axis(self, axes: Any, epsilons: Sequence[float]) -> None:
        """Make the x axis logarithmic and write each epsilon that was run, where there is room for it."""
        from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

        axes.set_xscale("log")
        least, most = min(epsilons), max(epsilons)
        margin = max((most / least) ** 0.06, 1.15)
        axes.set_xlim(least / margin, most * margin)
        written: list[float] = []
        for epsilon in sorted(epsilons):
            if not written or epsilon / written[-1] > max((most / least) ** 0.045, 1.02):
                written.append(epsilon)
        axes.xaxis.set_major_locator(FixedLocator(written))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))

    def save(self, path: Path) -> None:
        """Write the figure to a file of its own, in the format its name ends with (``.svg``, ``.png``, ``.pdf``)."""
        self.figure.savefig(path, dpi=150)

    def svg(self, prefix: str) -> str:
        """Return the figure as an ``<svg>`` element for a page: ids prefixed, nothing outside named."""
        target = io.StringIO()
        # a date would make two drawings of one record differ
        nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
        with warnings.catch_warnings():
            # a name may be in a script matplotlib's font lacks; the browser's font has it
            warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
            self.figure.savefig(target, format="svg", metadata=nothing)
        return _for_page(target.getvalue(), prefix)


def _for_page(svg: str, prefix: str) -> str:
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<style\b.*?</style>", "", svg, flags=re.DOTALL)  # it would style the whole page

    def inside_tag(match: re.Match[str]) -> str:
        tag = re.sub(r'\bid="', f'id="{prefix}-', match[0])
        tag = re.sub(r'\b(?:xlink:)?href="#', f'href="#{prefix}-', tag)
        return tag.replace("url(#", f"url(#{prefix}-")

    svg = re.sub(r"<[^<>]+>", inside_tag, svg)  # text is escaped: a bracket is always a tag's
    opening, rest = svg.split(">", 1)
    opening = re.sub(r'\s(?:width|height|xmlns(?::\w+)?|version)="[^"]*"', "", opening)
    return f'{opening} xmlns="http://www.w3.org/2000/svg" aria-hidden="true" focusable="false">{rest}'

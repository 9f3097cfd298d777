"""Draws the pictures of docs/understand/votes.md from the figures on record, in a clone."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # so that a test can import this file from its path, too
from evidence_tables import liar_rows, vote_rows

from fedkd_flwr.report.canvas import BLUE, GREEN, GREY, INK, ORANGE, PINK, Canvas

ROOT = Path(__file__).parents[1]
_LABELS = ("majority", "dawid-skene", "density-ratio")
_RULES = (
    ("fedct majority", "majority of labels", ORANGE),
    ("density-ratio", "density ratios", BLUE),
    ("density-ratio known-rows", "the same, the server knows 200 rows", GREEN),
)


def worst_lies() -> list[tuple[str, dict[str, tuple[float, float, str]]]]:
    """Return for each kind of federation and rule: share right where nobody lies, under the worst lie, and that lie."""
    rows = []
    for case, right, _ in liar_rows(ROOT):
        shares = {}
        for rule, _, _ in _RULES:
            worst = min(right[rule], key=lambda lie: right[rule][lie])
            shares[rule] = (right[rule]["none"], right[rule][worst], worst)
        rows.append((case, shares))
    return rows


def draw_rules(path: Path) -> None:
    """Draw the share of public rows that each rule labels right, a line for each kind of federation."""
    rows = [(name, {rule: round(means[rule][0], 3) for rule in _LABELS}, auto) for name, means, auto in vote_rows(ROOT)]
    styles = {
        "majority": (ORANGE, "o", "majority"),
        "dawid-skene": (PINK, "s", "Dawid-Skene"),
        "density-ratio": (BLUE, "D", "density ratios"),
    }
    with Canvas(1.5 + 0.25 * len(rows), width=6.8) as canvas:
        axes = canvas.figure.add_subplot()
        for place, (_, shares, _) in enumerate(rows):
            axes.plot([min(shares.values()), max(shares.values())], [place, place], color=GREY, linewidth=1, zorder=1)
        for rule, (colour, marker, label) in styles.items():
            right = [shares[rule] for _, shares, _ in rows]
            axes.scatter(right, range(len(rows)), color=colour, marker=marker, s=24, label=label, zorder=2)
        taken = [shares[auto] for _, shares, auto in rows]
        axes.scatter(taken, range(len(rows)), facecolors="none", edgecolors=INK, s=90, label="auto takes it", zorder=3)
        for place, (_, shares, auto) in enumerate(rows):
            where = (max(shares.values()), place)
            axes.annotate(f"{shares[auto]:.2f}", where, (7, 0), textcoords="offset points", va="center", fontsize=7)
        axes.set_yticks(range(len(rows)))
        axes.set_yticklabels([name for name, _, _ in rows], parse_math=False)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlim(-0.02, 1.08)
        axes.grid(axis="x")
        axes.set_xlabel("share of public rows labelled right")
        canvas.title(
            "Density ratios are mostly right where a majority is not, unless the public rows come from elsewhere"
        )
        canvas.legend(axes, columns=2)
        canvas.save(path)


def draw_liars(path: Path) -> None:
    """Draw what the worst lie of three of ten parties takes from three rules, a group of lines for each federation."""
    rows = worst_lies()
    with Canvas(1.5 + 0.62 * len(rows), width=6.8) as canvas:
        axes = canvas.figure.add_subplot()
        for place, (_, shares) in enumerate(rows):
            for shift, (rule, label, colour) in zip((-0.25, 0.0, 0.25), _RULES, strict=True):
                honest, lied, lie = shares[rule]
                at, first = place + shift, label if place == 0 else None
                axes.plot([lied, honest], [at, at], color=colour, linewidth=2, zorder=1)
                axes.scatter([honest], [at], color=colour, s=26, zorder=2, label=first)
                axes.scatter([lied], [at], facecolors="white", edgecolors=colour, s=26, zorder=2)
                axes.annotate(
                    f"{lie} {lied:.2f}",
                    (lied, at),
                    (-5, 0),
                    textcoords="offset points",
                    ha="right",
                    va="center",
                    fontsize=7,
                )
        axes.set_yticks(range(len(rows)))
        axes.set_yticklabels([case for case, _ in rows], parse_math=False)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlim(-0.16, 1.02)
        axes.set_xticks([0, 0.2, 0.4, 0.6, 0.8, 1.0])
        axes.grid(axis="x")
        axes.set_xlabel("share of the public rows right: nobody lies (filled), the worst lie (open)")
        canvas.title("What the worst of seven lies costs: least where the server knows the labels of some public rows")
        canvas.legend(axes, columns=2)
        canvas.save(path)


def main() -> None:
    """Write both pictures to a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=ROOT / "docs" / "pictures")
    folder = parser.parse_args().folder
    draw_rules(folder / "votes.svg")
    draw_liars(folder / "liars.svg")


if __name__ == "__main__":
    main()

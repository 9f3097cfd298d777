"""Compare the accuracy of the server's model, round by round, of up to three runs; print the figures and draw them.

    python benchmarks/curves.py RUNS/<fedkt-prox>/record.json RUNS/<fedprox>/record.json --picture curve.svg
    python benchmarks/curves.py RUNS/<privatekt>/record.json --published 5:0.207 10:0.298 30:0.61 100:0.892

To compare FedKT-Prox with FedProx from fresh weights, run ``simulations/fedkt-prox-cifar10.toml`` and
``fedprox-cifar10.toml`` with the same seed, so that parties and rows are the same. FedKT's exchange of labels counts as
round 1. A run reaches an accuracy in the first round after which its model has it on the common test rows. Bytes are
those of one party, up and down, up to and including that round. Published points are drawn, and printed beside the
accuracy of the first run after the same round.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from fedkd_flwr.errors import DataError, explain
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.report.canvas import BLUE, GREY, ORANGE, Canvas
from fedkd_flwr.report.formatting import size

STYLES = ((BLUE, "o", "-"), (ORANGE, "s", "--"), (GREY, "^", "-."))
MANY = 40  # with this many rounds or more, the points are not marked
NAMES = {"fedkt-prox": "FedKT-Prox", "fedprox": "FedProx from fresh weights", "privatekt": "PrivateKT"}


def curve(record: RunRecord) -> list[tuple[int, float]]:
    """Return (round, accuracy of the server's model) for each round in which it was measured.

    Raises
    ------
    DataError
        If it was measured in no round.
    """
    points = [(r.server_round, r.server_accuracy) for r in record.rounds if r.server_accuracy is not None]
    if not points:
        rule = "say how accurate the server's model was after each round"
        raise DataError(explain(f"record of {record.algorithm}", rule, "no such round", "Name a run with test rows."))
    return points


def rounds_to(points: Sequence[tuple[int, float]], accuracy: float) -> int | None:
    """Return the first round that reaches an accuracy, None if no round does.

    >>> rounds_to([(1, 0.2), (2, 0.31), (3, 0.3)], 0.3)
    2
    """
    return next((server_round for server_round, reached in points if reached >= accuracy), None)


def bytes_to(record: RunRecord, last: int) -> int:
    """Return the bytes of one party, up and down, in the rounds up to ``last``."""
    parties = max(record.rounds[0].asked, 1)
    return sum(r.bytes_up + r.bytes_down for r in record.rounds if r.server_round <= last) // parties


def targets_of(records: Sequence[RunRecord]) -> list[float]:
    """Return the accuracies at which to compare: three steps up to the best accuracy that all runs reached."""
    curves = [curve(record) for record in records]
    least = max(points[0][1] for points in curves)
    best = min(max(accuracy for _, accuracy in points) for points in curves)
    return [best] if best <= least else [least + (best - least) * step / 3 for step in (1, 2, 3)]


def compare(records: Sequence[RunRecord], targets: Sequence[float]) -> list[dict[str, object]]:
    """Return, for each accuracy, how many rounds and bytes a party each run needed."""
    lines = []
    for target in targets:
        line: dict[str, object] = {"accuracy": round(target, 4)}
        for record in records:
            needed = rounds_to(curve(record), target)
            line[f"{record.algorithm} rounds"] = needed
            line[f"{record.algorithm} bytes a party"] = None if needed is None else bytes_to(record, needed)
        lines.append(line)
    return lines


def beside(points: Sequence[tuple[int, float]], published: Sequence[tuple[int, float]]) -> list[dict[str, object]]:
    """Return each published point with the run's accuracy after the same round, if the run has that round.

    >>> beside([(1, 0.2), (2, 0.3)], [(2, 0.25), (9, 0.8)])
    [{'round': 2, 'published': 0.25, 'here': 0.3}]
    """
    here = dict(points)
    return [{"round": r, "published": p, "here": round(here[r], 4)} for r, p in published if r in here]


def title_of(records: Sequence[RunRecord], names: Sequence[str], targets: Sequence[float]) -> str:
    """Return the title of the picture: its finding in one line."""
    if len(records) == 1:
        last, accuracy = curve(records[0])[-1]
        return f"{names[0]}: {accuracy:.1%} after round {last}"
    fewest = [rounds_to(curve(record), targets[-1]) for record in records]
    needed = [f"{name} {'never' if n is None else n}" for name, n in zip(names, fewest, strict=True)]
    return f"Rounds to {targets[-1]:.1%} accuracy: {', '.join(needed)}"


def draw(
    records: Sequence[RunRecord], targets: Sequence[float], published: Sequence[tuple[int, float]], path: Path
) -> str:
    """Draw the curves, with a line from each accuracy to the rounds that reach it; return the title."""
    names = [NAMES.get(record.algorithm, record.algorithm) for record in records]
    if len(set(names)) < len(names):
        names = [f"{name}, run {record.run_id}" for name, record in zip(names, records, strict=True)]
    title = title_of(records, names, targets)
    with Canvas(3.6, width=6.8) as canvas:
        axes = canvas.figure.add_subplot()
        for record, name, (colour, marker, line) in zip(records, names, STYLES, strict=False):
            rounds, accuracies = zip(*curve(record), strict=True)
            size_ = 4.5 if len(rounds) < MANY else 0
            axes.plot(rounds, accuracies, color=colour, marker=marker, linestyle=line, markersize=size_, label=name)
            for target in targets:
                if (reached := rounds_to(curve(record), target)) is not None:
                    axes.vlines(reached, 0, target, color=colour, linewidth=0.8, linestyle=":")
        for target in targets:
            axes.axhline(target, color=GREY, linewidth=0.7, zorder=0)
            axes.annotate(f"{target:.1%}", (1.0, target), xycoords=("axes fraction", "data"), fontsize=8, va="bottom")
        if published:
            axes.plot(*zip(*published, strict=True), "D", color=ORANGE, markersize=6, label="published")
        if records[0].algorithm == "fedkt-prox":
            first = curve(records[0])[0]
            axes.annotate("FedKT's round", first, xytext=(8, -12), textcoords="offset points", fontsize=8.5)
        axes.set_ylim(0, None)
        axes.set_xlim(0.5, None)
        axes.xaxis.get_major_locator().set_params(integer=True)
        both = any(record.algorithm == "fedkt-prox" for record in records)
        axes.set_xlabel("round (FedKT's exchange of labels is round 1)" if both else "round")
        axes.set_ylabel("accuracy on the common test rows")
        axes.grid(axis="x")
        canvas.title(title)
        canvas.legend(axes)
        canvas.save(path)
    return title


def _point(text: str) -> tuple[int, float]:
    number, _, accuracy = text.partition(":")
    return int(number), float(accuracy)


def main() -> None:
    """Parse the command line, print the comparison, and draw it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", nargs="+", type=Path, metavar="RECORD", help="record.json of up to three runs")
    parser.add_argument("--targets", nargs="*", type=float, default=[], help="accuracies (default: three, by the runs)")
    parser.add_argument("--published", nargs="*", type=_point, default=[], metavar="ROUND:ACCURACY")
    parser.add_argument("--picture", type=Path, help="file for the picture: .svg, .png or .pdf")
    parser.add_argument("--out", type=Path, help="JSON file for the comparison")
    options = parser.parse_args()
    if len(options.records) > len(STYLES):
        parser.error(f"at most {len(STYLES)} records")
    records = [RunRecord.load(path) for path in options.records]
    if differ := [key for key in ("fingerprint", "seed") if len({getattr(r, key) for r in records}) > 1]:
        sys.exit(f"The runs differ in {', '.join(differ)}: their parties and rows are not the same.")
    targets = sorted(options.targets) or (targets_of(records) if len(records) > 1 else [])
    lines, points = compare(records, targets), beside(curve(records[0]), options.published)
    for line in [*lines, *points]:
        said = (f"{k} {size(v) if 'bytes' in k and isinstance(v, int) else v}" for k, v in line.items())
        print("  ".join(said))
    if options.picture:
        print(
            draw(records, targets, [p for p in options.published if p[0] in dict(curve(records[0]))], options.picture)
        )
    if options.out:
        command = shlex.join(["python", "benchmarks/curves.py", *sys.argv[1:]])
        curves = [{"algorithm": record.algorithm, "seed": record.seed, "curve": curve(record)} for record in records]
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(
            json.dumps({"command": command, "curves": curves, "reached": lines, "published": points}) + "\n"
        )


if __name__ == "__main__":
    main()

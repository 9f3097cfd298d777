"""FedKT-Prox against FedProx from fresh weights: accuracy after each round of two runs, and rounds to reach it.

    python benchmarks/prox_curve.py RUNS/<fedkt-prox>/record.json RUNS/<fedprox>/record.json --picture curve.svg

Both runs come from ``simulations/fedkt-prox-cifar10.toml`` and ``fedprox-cifar10.toml`` with one seed, so that parties
and rows are the same. FedKT's exchange of labels counts as round 1. A run reaches an accuracy in the first round whose
model has it on the common test rows; bytes are a party's, both ways, up to and with that round.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from fedkd_flwr.errors import DataError, explain
from fedkd_flwr.report.canvas import BLUE, GREY, ORANGE, Canvas
from fedkd_flwr.report.facts import size
from fedkd_flwr.run_record import RunRecord

STYLES = ((BLUE, "o", "-"), (ORANGE, "s", "--"))
NAMES = {"fedkt-prox": "FedKT-Prox", "fedprox": "FedProx from fresh weights"}


def curve(record: RunRecord) -> list[tuple[int, float]]:
    """Return (round, accuracy of the server's model) of each round that measured it.

    Raises
    ------
    DataError
        If none did.
    """
    points = [(r.server_round, r.server_accuracy) for r in record.rounds if r.server_accuracy is not None]
    if not points:
        rule = "say how accurate the server's model was after each round"
        raise DataError(explain(f"record of {record.algorithm}", rule, "no such round", "Name a run with test rows."))
    return points


def rounds_to(points: Sequence[tuple[int, float]], accuracy: float) -> int | None:
    """Return the first round that reaches an accuracy, None where none does.

    >>> rounds_to([(1, 0.2), (2, 0.31), (3, 0.3)], 0.3)
    2
    """
    return next((server_round for server_round, reached in points if reached >= accuracy), None)


def bytes_to(record: RunRecord, last: int) -> int:
    """Return the bytes of one party, up and down, in the rounds up to ``last``."""
    parties = max(record.rounds[0].asked, 1)
    return sum(r.bytes_up + r.bytes_down for r in record.rounds if r.server_round <= last) // parties


def targets_of(records: Sequence[RunRecord]) -> list[float]:
    """Return accuracies to compare at: three steps up to the best that both runs reached."""
    curves = [curve(record) for record in records]
    least = max(points[0][1] for points in curves)
    best = min(max(accuracy for _, accuracy in points) for points in curves)
    return [best] if best <= least else [least + (best - least) * step / 3 for step in (1, 2, 3)]


def compare(records: Sequence[RunRecord], targets: Sequence[float]) -> list[dict[str, object]]:
    """Return, for each accuracy, the rounds and the bytes a party each run needed."""
    lines = []
    for target in targets:
        line: dict[str, object] = {"accuracy": round(target, 4)}
        for record in records:
            needed = rounds_to(curve(record), target)
            line[f"{record.algorithm} rounds"] = needed
            line[f"{record.algorithm} bytes a party"] = None if needed is None else bytes_to(record, needed)
        lines.append(line)
    return lines


def draw(records: Sequence[RunRecord], targets: Sequence[float], path: Path) -> str:
    """Draw both curves, with a line from each accuracy to the rounds that reach it; return the title."""
    fewest = [rounds_to(curve(record), targets[-1]) for record in records]
    names = [NAMES.get(record.algorithm, record.algorithm) for record in records]
    needed = [f"{name} {'never' if n is None else n}" for name, n in zip(names, fewest, strict=True)]
    title = f"Rounds to {targets[-1]:.1%} accuracy: {', '.join(needed)}"
    with Canvas(3.6) as canvas:
        axes = canvas.figure.add_subplot()
        for record, name, (colour, marker, line) in zip(records, names, STYLES, strict=True):
            rounds, accuracies = zip(*curve(record), strict=True)
            axes.plot(rounds, accuracies, color=colour, marker=marker, linestyle=line, markersize=4.5, label=name)
            for target in targets:
                if (reached := rounds_to(curve(record), target)) is not None:
                    axes.vlines(reached, 0, target, color=colour, linewidth=0.8, linestyle=":")
        for target in targets:
            axes.axhline(target, color=GREY, linewidth=0.7, zorder=0)
            axes.annotate(f"{target:.1%}", (1.0, target), xycoords=("axes fraction", "data"), fontsize=8, va="bottom")
        if records[0].algorithm == "fedkt-prox":
            first = curve(records[0])[0]
            axes.annotate("FedKT's round", first, xytext=(8, -12), textcoords="offset points", fontsize=8.5)
        axes.set_ylim(0, None)
        axes.set_xlim(0.5, None)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_xlabel("round (FedKT's exchange of labels is round 1)")
        axes.set_ylabel("accuracy on the common test rows")
        axes.grid(axis="x")
        canvas.title(title)
        canvas.legend(axes)
        canvas.save(path)
    return title


def main() -> None:
    """Parse the command line, print the comparison, draw it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", nargs=2, type=Path, metavar="RECORD", help="record.json of fedkt-prox, of fedprox")
    parser.add_argument("--targets", nargs="*", type=float, default=[], help="accuracies (default: three, by the runs)")
    parser.add_argument("--picture", type=Path, help="file for the picture: .svg, .png or .pdf")
    parser.add_argument("--out", type=Path, help="JSON file for the comparison")
    options = parser.parse_args()
    records = [RunRecord.load(path) for path in options.records]
    if differ := [key for key in ("fingerprint", "seed") if len({getattr(r, key) for r in records}) > 1]:
        sys.exit(f"The runs differ in {', '.join(differ)}: their parties and rows are not the same.")
    targets = sorted(options.targets) or targets_of(records)
    lines = compare(records, targets)
    for line in lines:
        said = (f"{k} {size(v) if 'bytes' in k and isinstance(v, int) else v}" for k, v in line.items())
        print("  ".join(said))
    if options.picture:
        print(draw(records, targets, options.picture))
    if options.out:
        command = shlex.join(["python", "benchmarks/prox_curve.py", *sys.argv[1:]])
        curves = {record.algorithm: curve(record) for record in records}
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps({"command": command, "curves": curves, "reached": lines}, indent=1) + "\n")


if __name__ == "__main__":
    main()

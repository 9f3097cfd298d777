"""What the bound on parties of nearly one class does to majority votes, on answers that `density_votes.py` keeps.

    python benchmarks/density_votes.py --data-root /data --seeds 71 72 --cache answers
    python benchmarks/steadied_votes.py answers --out benchmarks/results/steadied-votes.json

Each file of the cache is one federation's labels. They are counted as FedCT counts them, with and without the bound
(`fedkd_flwr.labels.trust.steadied_weights`), as they are and with three tenths of the parties lying together. A *kind*
is a data set with its skew and models. Printed are, for each kind in which the bound changes any weight, the mean share
of public rows labelled right and the worst change of a single federation; in the end the means over these kinds.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import statistics
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from liars import lie
from numpy.typing import NDArray

from fedkd_flwr.algorithms import exchange, fedct
from fedkd_flwr.algorithms.fedct import FedCTConfig

ATTACKS = ("none", "flip", "target", "all but one", "most", "random")


def lied(labels: NDArray[np.int16], attack: str, num_classes: int, rng: np.random.Generator) -> NDArray[np.int16]:
    """Return the labels where three tenths of the parties lie; of two classes they name the one that is given less."""
    made = labels.copy()
    target = int(rng.integers(num_classes))
    if num_classes == 2:
        target = int(np.bincount(labels[labels >= 0], minlength=2).argmin())
    for party in rng.choice(len(labels), max(1, round(0.3 * len(labels))), replace=False):
        made[party] = lie(made[party], attack, target, num_classes, rng)
    return made


def right(labels: NDArray[np.int16], truth: NDArray[Any], num_classes: int) -> tuple[float, bool]:
    """Return the share of rows that a majority of these labels gets right, and whether the bound had a say."""
    config, rng = FedCTConfig(consensus="majority"), np.random.default_rng(1)
    found, facts = fedct.aggregate(list(labels), config=config, num_classes=num_classes, rng=rng)
    return float((found.labels == truth).mean()), facts.steadied


def main() -> None:
    """Count every federation of a cache and print what the bound changes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("answers", type=Path)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found: dict[str, dict[str, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    touched: set[str] = set()
    files = [path for path in sorted(options.answers.glob("*.npz")) if "marginal" not in path.stem]
    for path in files:
        kind, kept = re.sub(r"_\d+$", "", path.stem), np.load(path)
        labels, truth, num_classes = kept["labels"], kept["y"], kept["counts"].shape[1]
        rng = np.random.default_rng(5)
        for attack in ATTACKS:
            said = labels if attack == "none" else lied(labels, attack, num_classes, rng)
            with mock.patch.object(exchange, "steadied_weights", return_value=None):
                before, _ = right(said, truth, num_classes)
            after, steadied = right(said, truth, num_classes)
            found[kind][attack].append((before, after))
            if steadied:
                touched.add(kind)
    table = {
        kind: {
            attack: {
                "before": statistics.fmean(b for b, _ in pairs),
                "after": statistics.fmean(a for _, a in pairs),
                "worst change": min(a - b for b, a in pairs),
            }
            for attack, pairs in found[kind].items()
        }
        for kind in sorted(touched)
    }
    for kind, attacks in table.items():
        print(f"{kind} ({len(found[kind]['none'])})")
        for attack, figures in attacks.items():
            print(f"    {attack:12}", *(f"{name} {value:+.3f}" for name, value in figures.items()))
    means = {
        attack: {
            "change": statistics.fmean(one[attack]["after"] - one[attack]["before"] for one in table.values()),
            "worst": min(one[attack]["worst change"] for one in table.values()),
        }
        for attack in ATTACKS
    }
    print(f"{len(files)} federations of {len(found)} kinds, {len(touched)} touched:", json.dumps(means, indent=1))
    if options.out:
        made = {"command": shlex.join(["python", *sys.argv]), "federations": len(files), "kinds": len(found)}
        options.out.write_text(json.dumps({**made, "means": means, "touched": table}, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""What each rule of trust in density ratios does, on answers that `liars.py` and `density_votes.py` keep.

    python benchmarks/liars.py --data-root /data --seeds 601 602 603 604 605 --cache answers
    python benchmarks/density_votes.py --data-root /data --seeds 103 104 105 --cases made3o:one made5:one --cache cache
    python benchmarks/ratio_trust.py answers cache --data-root /data --out benchmarks/results/ratio-trust.json

Each file of the folders is one federation; which cases there were are the kinds of the record. It is counted under
today's rules, without contradictions between classes (``plain``), with contradicted parties kept (``no heads``), and
with contradictions that count everywhere (``always``). Printed is the share of public rows labelled right: where nobody
lies, what today's rules change of it against another rule; and what it is where three of ten parties lie *together* or
*scattered* (`liars.py`), and where the vote knows who lies.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import sys
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from liars import Answers, lied, run_config, vote

from fedkd_flwr.labels import confirmed as confirmed_module
from fedkd_flwr.labels import density
from fedkd_flwr.labels.ratios import density_ratios, ratio_codes
from fedkd_flwr.simulation.rows import simulated_pool

OUTVOTED = confirmed_module.contradicted


def nobody(said: Any, **_: Any) -> Any:
    """Contradict nobody."""
    return np.zeros(len(said), dtype=np.bool_)


# what stands for `confirmed_by_ratios`, and for what it counts heads with
RULES = {
    "today": (confirmed_module.confirmed_by_ratios, OUTVOTED),
    "plain": (confirmed_module.confirmed, OUTVOTED),
    "no heads": (confirmed_module.confirmed_by_ratios, nobody),
    "always": (partial(confirmed_module.confirmed, contradictions=True), OUTVOTED),
}


def federation(path: Path, root: str) -> tuple[Answers, Any, int]:
    """Return the answers, the true classes and the seed."""
    name, kept, seed = path.stem, np.load(path), int(path.stem.rsplit("_", 1)[1])
    if "y" not in kept:
        data, skew, _ = name.split("_")
        pool = simulated_pool(run_config("fedkt", data, skew.replace("-", " "), seed, root))
        return Answers(**kept), pool.public.y, seed
    counts, labels = kept["counts"], kept["labels"]
    codes = [ratio_codes(density_ratios(*one)) for one in zip(kept["probs"], counts, strict=True)]
    return Answers(labels[:, None], labels, np.array(codes), counts), kept["y"], seed


def right(answers: Answers, truth: Any, seed: int, rule: str) -> float:
    """Return the share of public rows that the consensus labels right."""
    if rule == "none":
        return float((vote("density-ratio", answers, "none", seed)[0] == truth).mean())
    confirmed, outvoted = RULES[rule]
    heads = mock.patch.object(density, "contradicted", outvoted)
    with heads, mock.patch.object(density, "confirmed_by_ratios", confirmed):
        return float((vote("density-ratio", answers, "auto", seed)[0] == truth).mean())


def main() -> None:
    """Count every federation under every rule."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("answers", type=Path, nargs="+", help="folders")
    parser.add_argument("--data-root", required=True)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    honest: dict[str, list[float]] = defaultdict(list)
    by_kind: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for path in sorted(path for folder in options.answers for path in folder.glob("*.npz")):
        answers, truth, seed = federation(path, options.data_root)
        kind = path.stem.rsplit("_", 1)[0]
        today = right(answers, truth, seed, "today")
        for rule in ("plain", "always", "no heads"):
            change = today - right(answers, truth, seed, rule)
            honest[rule].append(change)
            by_kind[kind][f"today less {rule}, nobody lies"].append(change)
        parties = len(answers.counts)
        liars = np.sort(np.random.default_rng(seed).choice(parties, max(1, 3 * parties // 10), replace=False))
        seven = answers.only(np.setdiff1d(np.arange(parties), liars))
        by_kind[kind]["liars known"].append(right(seven, truth, seed, "none"))
        for lie in ("together", "scattered"):
            said = lied(answers, lie, liars, np.random.default_rng(seed))
            for rule in ("today", "no heads"):
                by_kind[kind][f"{rule}, {lie}"].append(right(said, truth, seed, rule))
    changed = {
        rule: {
            "federations": len(each),
            "changed": sum(one != 0 for one in each),
            "mean": statistics.fmean(each),
            "worst": min(each),
            "best": max(each),
        }
        for rule, each in honest.items()
    }
    found = {
        kind: {what: {"mean": statistics.fmean(v), "worst": min(v), "n": len(v)} for what, v in each.items()}
        for kind, each in by_kind.items()
    }
    print("today less each rule, where nobody lies:", json.dumps(changed, indent=1))
    for kind, each in found.items():
        print(kind, "; ".join(f"{what} {v['mean']:+.4f} (worst {v['worst']:+.4f})" for what, v in each.items()))
    if options.out:
        command = shlex.join(["python", "benchmarks/ratio_trust.py", *sys.argv[1:]])
        options.out.write_text(json.dumps({"command": command, "honest": changed, "kinds": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()

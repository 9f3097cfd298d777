"""Attack what FedCT, DD, FedMD and FedAvg send, on one setting: five parties, the same nets and the same rows.

    python benchmarks/audit_membership.py fashion-mnist --data-root /data --seeds 1 2 3 --out results.json

The FedCT paper (AAAI 2025, Table 1) prints attack AUCs ("VUL") of .51 to .53 for FedCT, about .6 for DD and .7 and more
for FedAvg, measured with ML Privacy Meter. Here the attack is that of ``fedkd dev audit``. ``--out`` keeps
each run's figures; a further command with the same file adds those that it does not hold.
"""

from __future__ import annotations

import argparse
import json
import logging
import shlex
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Config = dict[str, Any]

FASHION: Config = {
    "dataset": "fashion-mnist",
    "num-parties": 5,
    "num-public": 5000,
    "num-private": 10000,
    "num-test": 2000,
    "partitioner": "iid",
    "num-rounds": 8,
    "model": "mlp(hidden=[128], lr=0.001, batch_size=64)",
}
ADULT: Config = {**FASHION, "dataset": "adult", "num-test": 5000, "num-rounds": 4}
TREES: Config = {**ADULT, "model": "decision-tree"}
# about 150 steps of 64 rows in each round: 10 epochs of a party's 1,000 rows
FEDCT: Config = {"algorithm": "fedct", "paper.stop-when-converged": False}
EXCHANGES: dict[str, Config] = {
    "fedct": {**FEDCT, "steps-per-round": 150, "consensus": "majority"},
    # class counts and how typical each public row is of each class, beside the labels
    "fedct-ratios": {**FEDCT, "steps-per-round": 150, "consensus": "density-ratio"},
    "dd": {"algorithm": "dd", "answer-form": "softmax", "steps-per-round": 150},
    "fedmd": {"algorithm": "fedmd", "answer-form": "logits", "paper.initial-epochs": 10, "paper.own-rows-epochs": 10},
    "fedavg": {"algorithm": "fedavg", "local-epochs": 10},
}
SETTINGS: dict[str, dict[str, Config]] = {
    "fashion-mnist": {name: {**FASHION, **exchange} for name, exchange in EXCHANGES.items()},
    "adult": {name: {**ADULT, **exchange} for name, exchange in EXCHANGES.items() if name != "fedmd"},
    # trees send labels, or the shares of classes in their leaves
    "adult-trees": {
        "fedct": {**TREES, **FEDCT, "consensus": "majority"},
        "fedct-ratios": {**TREES, **FEDCT, "consensus": "density-ratio"},
        "fedct-probabilities": {**TREES, **FEDCT, "send": "probabilities"},
        "fedmd": {**TREES, "algorithm": "fedmd", "answer-form": "softmax"},
    },
    # what noise on each label does to the same attack: epsilon 1 a label
    "fashion-mnist-noise": {
        "fedct-noise": {
            **FASHION,
            **EXCHANGES["fedct"],
            "label-mechanism": "randomized-response",
            "paper.noise-strength": 1.0,
        }
    },
}


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("setting", choices=SETTINGS)
    parser.add_argument("--only", nargs="*", default=[], help="some of its exchanges")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--shadows", type=int, default=8)
    parser.add_argument("--data-root", default="")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    from fedkd_flwr.audit.run import audit
    from fedkd_flwr.settings.config import parse_run_config

    logging.getLogger("flwr").setLevel(logging.WARNING)
    here = {options.data_root: f"/path/to/{Path(options.data_root).name}"} if options.data_root else {}
    words = ["python", "benchmarks/audit_membership.py", *(here.get(word, word) for word in sys.argv[1:])]
    commands, runs = [shlex.join(words)], []
    if options.out and options.out.is_file():
        before = json.loads(options.out.read_text(encoding="utf-8"))
        if (before["setting"], before["shadows"]) == (options.setting, options.shadows):
            commands, runs = list(dict.fromkeys([*before["commands"], *commands])), before["runs"]
    done = {(run["exchange"], run["seed"]) for run in runs}
    for seed in options.seeds:
        for name, config in SETTINGS[options.setting].items():
            if (name, seed) in done or (options.only and name not in options.only):
                continue
            began = time.monotonic()
            with tempfile.TemporaryDirectory() as folder:
                values = {**config, "seed": seed, "output-dir": folder, "data-root": options.data_root}
                record = audit(parse_run_config(values), shadows=options.shadows)
            means = record.mean_accuracies()
            found = record.as_dict()["audit"]
            found = {**found, "parties": {p: of["auc"] for p, of in found["parties"].items()}}
            accuracy = means.get("federated-common") or record.server_accuracy
            runs.append({"exchange": name, "seed": seed, "accuracy": accuracy, **found})
            auc = {k: round(v, 3) for k, v in found["everybody"]["auc"].items()}
            print(name, seed, auc, f"{time.monotonic() - began:.0f} s", flush=True)
            if options.out:
                made = {"commands": commands, "setting": options.setting, "shadows": options.shadows}
                text = json.dumps({**made, "summary": summary(runs), "runs": runs}, indent=1)
                options.out.write_text(text + "\n", encoding="utf-8")
    print(json.dumps(summary(runs), indent=1))


def _mean(values: Iterable[float]) -> float:
    return round(statistics.fmean(values), 4)


def summary(runs: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return, for each exchange, means over seeds and the range of the AUC."""
    made: dict[str, dict[str, Any]] = {}
    for name in dict.fromkeys(run["exchange"] for run in runs):
        these = [run for run in runs if run["exchange"] == name]
        aucs = [run["everybody"]["auc"] for run in these]
        rates = ("found_at_1_percent", "found_at_1_permille")
        made[name] = {
            "runs": len(these),
            "auc": _mean(a["value"] for a in aucs),
            "auc by seed": [[round(a[key], 4) for key in ("value", "low", "high")] for a in aucs],
            "auc without shadows": _mean(run["without_shadows"]["value"] for run in these),
            **{key: _mean(run["everybody"][key]["value"] for run in these) for key in rates},
            "accuracy": _mean(run["accuracy"] for run in these),
        }
    return made


if __name__ == "__main__":
    main()

"""Attack what FedCT, DD, FedMD and FedAvg send, on one setting: five parties, the same nets and the same rows.

    python benchmarks/audit_membership.py fashion-mnist --data-root /data --seeds 1 2 3 --out results.json

The FedCT paper (AAAI 2025, Table 1) prints attack AUCs ("VUL") of .51 to .53 for FedCT, about .6 for DD and .7 and more
for FedAvg, measured with ML Privacy Meter. Here the attack is that of ``python -m fedkd_flwr.audit``. ``--out`` keeps
each run's figures; a further command with the same file adds those that it does not hold.
"""

from __future__ import annotations

import argparse
import json
import logging
import shlex
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

Config = dict[str, Any]

NET = '{"hidden": [128], "lr": 0.001, "batch_size": 64}'
FASHION: Config = {
    "dataset": "fashion-mnist",
    "num-parties": 5,
    "num-public": 5000,
    "num-private": 10000,
    "num-test": 2000,
    "partitioner": "iid",
    "num-rounds": 8,
    "model": "mlp",
    "model-params": NET,
}
ADULT: Config = {**FASHION, "dataset": "adult", "num-test": 5000, "num-rounds": 4}
TREES: Config = {**ADULT, "model": "decision-tree", "model-params": ""}
# about 150 steps of 64 rows in each round: 10 epochs of a party's 1,000 rows
EXCHANGES: dict[str, Config] = {
    "fedct": {"algorithm": "fedct", "steps-per-round": 150, "fedct.stop-when-converged": False},
    "dd": {"algorithm": "dd", "share": "softmax", "steps-per-round": 150},
    "fedmd": {"algorithm": "fedmd", "share": "logits", "initial-epochs": 10, "revisit-epochs": 10},
    "fedavg": {"algorithm": "fedprox", "fedprox.proximal-mu": 0.0, "local-epochs": 10},
}
SETTINGS: dict[str, dict[str, Config]] = {
    "fashion-mnist": {name: {**FASHION, **exchange} for name, exchange in EXCHANGES.items()},
    "adult": {name: {**ADULT, **exchange} for name, exchange in EXCHANGES.items() if name != "fedmd"},
    # trees send labels, or the shares of classes in their leaves
    "adult-trees": {
        "fedct": {**TREES, "algorithm": "fedct", "fedct.stop-when-converged": False},
        "fedmd": {**TREES, "algorithm": "fedmd", "share": "softmax"},
    },
    # what noise on each label does to the same attack: epsilon 1 a label
    "fashion-mnist-noise": {
        "fedct-noise": {
            **FASHION,
            **EXCHANGES["fedct"],
            "label-mechanism": "randomized-response",
            "label-epsilon": 1.0,
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
    from fedkd_flwr.apps.audit import audit
    from fedkd_flwr.apps.config import parse_run_config

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
            found = {key: value for key, value in record.audit.items() if key not in ("roc", "parties")}
            figures = {"exchange": name, "seed": seed, "accuracy": means.get("federated-common") or record.server_accuracy}
            figures |= found | {"parties-auc": [p["auc"] for p in record.audit["parties"].values()]}
            runs.append(figures)
            print(name, seed, [round(x, 3) for x in found["all"]["auc"]], f"{time.monotonic() - began:.0f} s", flush=True)
            if options.out:
                made = {"commands": commands, "setting": options.setting, "shadows": options.shadows}
                text = json.dumps({**made, "summary": summary(runs), "runs": runs}, indent=1)
                options.out.write_text(text + "\n", encoding="utf-8")
    print(json.dumps(summary(runs), indent=1))


def summary(runs: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return, for each exchange, means over seeds and the range of the AUC."""
    made: dict[str, dict[str, Any]] = {}
    for name in dict.fromkeys(run["exchange"] for run in runs):
        these = [run for run in runs if run["exchange"] == name]
        aucs = [run["all"]["auc"][0] for run in these]
        made[name] = {
            "runs": len(these),
            "AUC": round(float(np.mean(aucs)), 4),
            "AUC by seed": [round(a, 4) for a in aucs],
            "widest interval": [round(min(r["all"]["auc"][1] for r in these), 4), round(max(r["all"]["auc"][2] for r in these), 4)],
            "AUC without shadows": round(float(np.mean([r["without-shadows"][0] for r in these])), 4),
            **{key: round(float(np.mean([r["all"][key][0] for r in these])), 4) for key in ("found-at-1%", "found-at-0.1%")},
            "accuracy": round(float(np.mean([r["accuracy"] for r in these])), 4),
        }
    return made


if __name__ == "__main__":
    main()

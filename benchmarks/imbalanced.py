"""Imbalanced tables through `fedkd simulate`: the rule that is found against majority, by balanced accuracy.

    python benchmarks/imbalanced.py --seeds 1001 1002 1003 1004 1005 --out benchmarks/results/imbalanced.json

Each run is the command itself, in its own process, on a CSV of scikit-learn's `make_classification`: fraud 1 : 200
(24,000 rows) and six classes of 60 to 1 % (12,000 rows), five skewed parties with XGBoost, FedCT. Printed for each
rule: accuracy of the consensus' labels; accuracy and balanced accuracy of the parties' models with the federation and
alone (means over parties, common test rows); parties whose model finds no row of some class; and the table's warning.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from density_votes import MADE
from sklearn.datasets import make_classification

from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.report.model_warnings import model_warnings

TABLES = {"fraud": MADE["fraud"], "six classes": MADE["made6i"]}
RULES = ("majority", "auto")


def run(table: Path, rule: str, alpha: float, seed: int, folder: Path) -> RunRecord:
    """Run one federation; return its record."""
    settings = {
        "dataset": "table", "table": table, "label": "label", "algorithm": "fedct", "consensus": rule,
        "model": "xgboost", "num-parties": 5, "partitioner": "dirichlet", "dirichlet-alpha": alpha, "seed": seed,
        "centralised": "false", "output-dir": folder,
    }  # fmt: skip
    words = [f"{key}={value}" for key, value in settings.items()]
    command = [sys.executable, "-m", "fedkd_flwr.cli", "simulate", *words]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode:
        sys.exit(f"{shlex.join(command)}\n{made.stderr}")
    (path,) = folder.glob("runs/*/record.json")
    return RunRecord.load(path)


def figures(record: RunRecord) -> dict[str, Any]:
    """Return what is compared."""
    accuracy, balanced = record.mean_accuracies(), record.mean_accuracies("balanced_accuracy")
    recalls = [one.federated["common"].recall for one in record.parties if "common" in one.federated]
    return {
        "rule": record.consensus_rule or "majority",
        "consensus": record.rounds[-1].consensus_accuracy,
        "alone": accuracy["solo-common"],
        "federated": accuracy["federated-common"],
        "alone, balanced": balanced["solo-common"],
        "federated, balanced": balanced["federated-common"],
        "parties without some class": sum(any(r == 0 for r in of if r is not None) for of in recalls if of),
        "warning": next(iter(model_warnings(record)), ""),
    }


def main() -> None:
    """Parse the command line, run, and tabulate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1001, 1002, 1003, 1004, 1005])
    parser.add_argument("--alphas", type=float, nargs="+", default=[0.1, 0.5])
    parser.add_argument("--out", type=Path, help="JSON file for the results")
    options = parser.parse_args()
    found: dict[str, Any] = {}
    for name, shape in TABLES.items():
        for alpha in options.alphas:
            ones: dict[str, list[dict[str, Any]]] = {rule: [] for rule in RULES}
            for seed in options.seeds:
                X, y = make_classification(random_state=seed, n_clusters_per_class=2, **shape)
                with tempfile.TemporaryDirectory() as folder:
                    table = Path(folder) / "table.csv"
                    header = ",".join([*(f"x{i}" for i in range(X.shape[1])), "label"])
                    np.savetxt(table, np.column_stack([X, y]), delimiter=",", header=header, comments="", fmt="%.6g")
                    for rule in RULES:
                        made = run(table, rule, alpha, seed, Path(folder) / rule)
                        ones[rule].append({"seed": seed, **figures(made)})
            found[f"{name}, {alpha:g}"] = ones
            for rule, runs in ones.items():
                keys = [key for key, value in runs[0].items() if isinstance(value, float)]
                means = {key: round(statistics.fmean(one[key] for one in runs), 4) for key in keys}
                print(f"{name}, Dirichlet {alpha:g}, {rule}: {means}; {runs[0]['warning']}", flush=True)
            if options.out:
                command = shlex.join(["python", "benchmarks/imbalanced.py", *sys.argv[1:]])
                options.out.write_text(json.dumps({"command": command, "found": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()

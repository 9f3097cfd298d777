"""Who loses by joining: home rows and common rows, alone and with the federation, on parties whose class shares differ.

    python benchmarks/priors.py --data-root ../shared/data --out benchmarks/results/priors.json
    PYTHONPATH=/an/older/tree python benchmarks/priors.py --data-root ../shared/data --name before --out ...

Each run is `fedkd simulate` on a table drawn once: 12,000 rows of Adult, or 12,000 synthetic rows of which 5 % have the
second class. Models are small (40 trees), to measure many federations. At home a party's model meets its own test rows,
on common rows those of all. "lose" counts parties that are less accurate at home with the federation than alone.
``--name`` is the key of the results in the file, which keeps its others: a benchmark that was stopped goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import make_classification

ROWS, PUBLIC, TEST, TREES = 12_000, 3000, 3000, 40
SEEDS = (11, 12, 13, 14, 15)  # no choice was made on them
CASES = [
    *(("adult", "fedkt", "xgboost", 5, alpha) for alpha in (0.5, 0.1, 1)),
    ("rare", "fedkt", "xgboost", 5, 0.5),
    ("adult", "fedkt", "random-forest", 5, 0.5),
    ("adult", "fedkt", "xgboost", 10, 0.5),
    ("adult", "fedct", "xgboost", 5, 0.5),
]


def write_tables(data_root: Path, folder: Path) -> None:
    """Write both tables as CSV."""
    from fedkd_flwr.data.published import read_published

    source = read_published("adult", data_root)
    adult = source.table.assign(label=np.asarray(source.classes)[source.y])
    adult.sample(ROWS, random_state=0).to_csv(folder / "adult.csv", index=False)
    X, y = make_classification(ROWS, 20, n_informative=8, weights=[0.95], flip_y=0.01, random_state=5)
    pd.DataFrame(X, columns=[f"x{i}" for i in range(20)]).round(4).assign(label=y).to_csv(
        folder / "rare.csv", index=False
    )


def run(tables: Path, case: tuple[str, str, str, int, float], seed: int) -> dict[str, Any]:
    """Return the figures of one simulation, means over parties."""
    table, algorithm, model, parties, alpha = case
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "dataset": "table", "table": tables / f"{table}.csv", "label": "label", "algorithm": algorithm,
            "model": f"{model}(n_estimators={TREES})", "num-parties": parties, "seed": seed,
            "partitioner": "dirichlet", "dirichlet-alpha": alpha, "num-public": PUBLIC, "num-test": TEST,
            "centralised": "false", "output-dir": folder,
        }  # fmt: skip
        words = [f"{key}={value}" for key, value in settings.items()]
        command = [sys.executable, "-m", "fedkd_flwr.cli", "simulate", *words, "--processes", "1"]
        made = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
        if made.returncode:
            return {"failed": f"{shlex.join(words)}: {made.stderr[-300:]}"}
        (path,) = Path(folder).glob("runs/*/record.json")
        record = json.loads(path.read_text(encoding="utf-8"))
    home = [
        (party["solo"]["own"]["accuracy"], party["federated"]["own"]["accuracy"])
        for party in record["parties"]
        if "own" in party["federated"]
    ]
    common = [party["federated"]["common"] for party in record["parties"]]
    found = {
        "home alone": statistics.fmean(alone for alone, _ in home),
        "home with": statistics.fmean(after for _, after in home),
        "lose": sum(after < alone for alone, after in home),
        "parties": len(home),
        "commonest class": common[0]["baseline"],
        **{f"common {name}": statistics.fmean(one.get(name, 0.5) for one in common) for name in FIGURES},
        "rule": record["consensus_rule"],
    }
    if server := record["server"].get("common"):
        found |= {f"server {name}": server[name] for name in FIGURES if name in server}
    return found


FIGURES = ("accuracy", "balanced_accuracy", "roc_auc", "log_loss")


def main() -> None:
    """Run every case with every seed that the file lacks, and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", type=Path, required=True)
    parser.add_argument("--name", default="now")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    kept = json.loads(options.out.read_text(encoding="utf-8")) if options.out.is_file() else {}
    words = shlex.join(["python", "benchmarks/priors.py", "--name", options.name])
    found = kept.setdefault(options.name, {"command": words, "cores": os.cpu_count(), "found": {}})["found"]
    wanted = [(case, seed) for case in CASES for seed in SEEDS if str(seed) not in found.get(_key(case), {})]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        write_tables(options.data_root, Path(folder))
        runs = {pool.submit(run, Path(folder), *one): one for one in wanted}
        for made in as_completed(runs):
            case, seed = runs[made]
            found.setdefault(_key(case), {})[str(seed)] = made.result()
            print(case, seed, made.result(), flush=True)
            options.out.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def _key(case: tuple[Any, ...]) -> str:
    return ", ".join(map(str, case))


if __name__ == "__main__":
    main()

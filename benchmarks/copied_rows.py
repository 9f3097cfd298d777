"""How many test rows of the named data sets stand among the private rows too, and what that does to an accuracy.

    python benchmarks/copied_rows.py --data-root /path/to/data --out benchmarks/results/copied-rows.json

For each data set, over five seeds: the share of test rows that equal a private row in all columns and the label
(`copies`), and in all columns (`seen`); the accuracy of one XGBoost that learnt all private rows, on all test rows and
on those that no private row equals (`new`). Rows are chosen by their columns alone, because rows that also have the
label of an equal one are those that are easy to get right.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import sys
from pathlib import Path

import numpy as np

from fedkd_flwr.app.models import model_factory
from fedkd_flwr.data.datasets import Pool, load_pool, row_hashes

SETS = ("adult", "a9a", "cod-rna", "mushroom", "wine-type", "breast-cancer")


def look(pool: Pool, seed: int) -> dict[str, float]:
    """Return the shares and accuracies of one split."""
    seen = np.isin(row_hashes(pool.X_test), row_hashes(pool.X))
    model = model_factory("xgboost", "", pool.public)(seed=seed).fit(pool.X, pool.y)
    right = model.predict(pool.X_test) == pool.y_test
    return {
        "copies": pool.num_copied_test_rows() / len(seen),
        "seen": float(seen.mean()),
        "accuracy": float(right.mean()),
        "accuracy, new rows": float(right[~seen].mean()),
        "difference": float(right.mean() - right[~seen].mean()),
    }


def main() -> None:
    """Look at each data set and print the means."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data-root", default="")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1001, 1002, 1003, 1004, 1005])
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    found = {}
    for name in SETS:
        splits = [look(load_pool(name, seed=seed, data_root=given.data_root), seed) for seed in given.seeds]
        found[name] = {
            key: {"mean": statistics.fmean(values), "deviation": statistics.stdev(values)}
            for key in splits[0]
            if (values := [one[key] for one in splits])
        }
        print(
            name, *(f"{key} {one['mean']:.4f} ({one['deviation']:.4f})" for key, one in found[name].items()), sep="; "
        )
    if given.out is not None:
        words = shlex.join(sys.argv[1:]).replace(given.data_root or "\0", "/path/to/data")
        made = {"command": f"python benchmarks/copied_rows.py {words}", "seeds": given.seeds, **found}
        given.out.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""Numbers and grades: errors of parties alone, with the federation, of the server's model and of all rows pooled.

    FEDKD_DATA=... python benchmarks/regression.py --out benchmarks/results/regression.json

Five parties, PATE, forests of 25 trees, ten bins; a quarter of the rows are public, a quarter test rows. Diabetes is
scikit-learn's (442 rows); wine quality has red and white wines without copies (5,318 rows); age is estimated from the
other columns of 5,200 rows of Adult. "pooled" learns the bins of all private rows together as parties do; "pooled,
exact" is scikit-learn's own forest on the true numbers of the same rows, which no bin and no vote ever touched.
"home": errors on parties' own test rows, a quarter of theirs, and how many of the parties lose there.

Grades: wine quality again, as grades, by default, by the median of the votes and by their majority (mean absolute
error).
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shlex
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor

import fedkd_flwr as fk

SPLITS = {"iid": {"partitioner": "iid"}, "Dirichlet 0.5": {"partitioner": "dirichlet", "dirichlet_alpha": 0.5}}
HOME = {**SPLITS, "Dirichlet 0.1": {"partitioner": "dirichlet", "dirichlet_alpha": 0.1}}
TREES = 25
_ADULT = "age workclass fnlwgt education years marital occupation relationship race sex gain loss hours country income"


def wine(root: Path) -> pd.DataFrame:
    """Return both kinds of wine without copied rows, with their grade as ``y``."""
    read = [pd.read_csv(root / f"wine-quality/winequality-{kind}.csv", sep=";") for kind in ("red", "white")]
    whole = pd.concat([one.assign(white=i) for i, one in enumerate(read)], ignore_index=True).drop_duplicates()
    return whole.rename(columns={"quality": "y"})


def adult(root: Path) -> pd.DataFrame:
    """Return 5,200 rows of Adult, the age as ``y``."""
    with gzip.open(root / "adult/adult.data.gz") as file:
        whole = pd.read_csv(file, names=_ADULT.split(), skipinitialspace=True)
    return whole.sample(5200, random_state=0).drop(columns="fnlwgt").rename(columns={"age": "y"})


def tables(root: Path) -> dict[str, pd.DataFrame]:
    """Return the data sets by name."""
    return {
        "diabetes": load_diabetes(as_frame=True).frame.rename(columns={"target": "y"}),
        "wine quality": wine(root),
        "age (Adult)": adult(root),
    }


def run(table: pd.DataFrame, seed: int, split: str, *, home: bool = False, **settings: Any) -> dict[str, float]:
    """Run one federation; return mean errors by model, as ``rmse, server``; with ``home`` on parties' own rows."""
    order = table.iloc[np.random.default_rng(seed).permutation(len(table))].reset_index(drop=True)
    quarter = len(order) // 4
    test, public, private = order[:quarter], order[quarter : 2 * quarter], order[2 * quarter :]
    with tempfile.TemporaryDirectory() as folder:
        done = fk.simulate(
            private, label="y", parties=5, test=test, public=public.drop(columns="y"), algorithm="pate", seed=seed,
            model=f"random-forest(n_estimators={TREES})", party_test_fraction=0.25 if home else 0.0, output_dir=folder,
            save_party_models=False, progress=False, **HOME[split], **settings,
        )  # fmt: skip
    if home:
        own = done.models[done.models["rows"] == "own"].pivot(index="party", columns="whose", values="rmse")
        lost = float((own["federated"] > own["solo"]).sum())
        return {**{f"rmse, {whose}": float(own[whose].mean()) for whose in ("solo", "federated")}, "lose": lost}
    means = done.models.groupby("whose")[["rmse", "mae", "r2"]].mean()
    found = {f"{figure}, {whose}": float(means.loc[whose, figure]) for whose in means.index for figure in means}
    X = pd.get_dummies(order.drop(columns="y"), dtype=float).to_numpy()
    forest = RandomForestRegressor(TREES, random_state=seed).fit(X[2 * quarter :], private["y"])
    error = forest.predict(X[:quarter]) - test["y"]
    return found | {"rmse, exact": float(np.sqrt((error**2).mean())), "mae, exact": float(error.abs().mean())}


def main() -> None:
    """Parse the command line, run, and tabulate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--only", default="", help="the cases whose names hold this text; other results stay")
    parser.add_argument("--out", type=Path, help="JSON file for the results")
    options = parser.parse_args()
    data = tables(Path(os.environ["FEDKD_DATA"]))
    cases = [(f"{name}, {split}", data[name], split, {"target": "number"}) for name in data for split in SPLITS]
    cases += [
        (f"wine grades by {rule}, {split}", data["wine quality"], split, {"target": "grades", "consensus": rule})
        for split in SPLITS
        for rule in ("auto", "median", "majority")
    ]
    kept = {"target": "number", "home": True}
    cases += [(f"{name} at home, {split}", data[name], split, kept) for name in data for split in HOME]
    command = " ".join(["FEDKD_DATA=... python", *map(shlex.quote, sys.argv)])
    for name, table, split, settings in [one for one in cases if options.only in one[0]]:
        runs = [run(table, seed, split, **settings) for seed in options.seeds]
        means = {key: statistics.fmean(one[key] for one in runs) for key in runs[0]}
        print(name, {key: round(value, 3) for key, value in means.items()}, flush=True)
        if options.out:
            found = json.loads(options.out.read_text()) if options.out.exists() else {}
            found[name] = {"command": command, "rows": len(table), "runs": runs}
            options.out.write_text(json.dumps(dict(sorted(found.items())), indent=1) + "\n")


if __name__ == "__main__":
    main()

"""What class weights do to a model where one class has 1 % of the rows: recall, balanced accuracy, log loss.

    python benchmarks/class_weights.py --out benchmarks/results/class-weights.json

Each seed is another table of scikit-learn's `make_classification`, 4,000 rows of 20 columns, half of them to learn
from, and another model: without weights, and with the weights of docs/howto/rare-classes.md.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import sys
from pathlib import Path

from sklearn.datasets import make_classification

from fedkd_flwr.models.zoo import make_model

MODELS = {
    "random-forest": ({"max_depth": 4}, {"class_weight": "balanced"}),
    "logistic-regression": ({}, {"class_weight": "balanced"}),
    "hist-gradient-boosting": ({}, {"class_weight": "balanced"}),
    "xgboost": ({}, {"scale_pos_weight": 99}),
}


def look(name: str, params: dict[str, object], seed: int) -> dict[str, float]:
    """Return what one model reaches on the other half of one table."""
    X, y = make_classification(4000, weights=[0.99], random_state=seed)
    model = make_model(name, num_classes=2, num_features=X.shape[1], seed=seed, params=params).fit(X[::2], y[::2])
    found = model.metrics(X[1::2], y[1::2])
    return {
        "recall": found.recall[1],
        "balanced accuracy": found.balanced_accuracy,
        "log loss": found.log_loss,
    }


def main() -> None:
    """Fit each model to each table and print the means."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", nargs="+", type=int, default=list(range(1001, 1011)))
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name, (params, weights) in MODELS.items():
        for title, used in ((name, params), (f"{name}, weights", {**params, **weights})):
            tables = [look(name, used, seed) for seed in given.seeds]
            found[title] = {
                key: {"mean": statistics.fmean(values), "deviation": statistics.stdev(values)}
                for key in tables[0]
                if (values := [one[key] for one in tables])
            }
            print(title, *(f"{key} {one['mean']:.2f} ({one['deviation']:.2f})" for key, one in found[title].items()))
    if given.out is not None:
        command = f"python benchmarks/class_weights.py {shlex.join(sys.argv[1:])}"
        said = {"command": command, "tables": len(given.seeds), "found": found}
        given.out.write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

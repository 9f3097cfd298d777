"""What it costs that parties lack columns: Adult with columns taken away, and heart's four hospitals as they are.

    python benchmarks/missing_columns.py --data-root /path/to/data --out benchmarks/results/missing-columns.json

Adult: 10,000 rows (6,000 private, 2,000 public, 2,000 test rows), ten parties, each without 4 of the 14 columns, drawn
by the seed (``lacks=4``). FedKT with one teacher and one student a party, 30 trees each. Beside it the same run with
``all`` columns, and with the ``common`` ones alone, that every party has: what averaging weights could use. Where there
is none, the common columns say nothing, and the commonest class is what is left.

Heart: the four hospitals with FedKT as it is set, ``as they are`` and with the columns ``named`` as lacking of which
they filled in less than a fifth (`NEARLY_EMPTY`).

Figures are accuracies on common test rows: of the server's model, of the parties' models with the federation, and of
those alone (means over the parties). ``Adult, one model of all private rows`` says what a party's columns are worth at
most: that model with all columns, and with a party's own ones (mean over the parties). The same command goes on where
it was stopped.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from fedkd_flwr import simulate
from fedkd_flwr.app.models import model_factory
from fedkd_flwr.settings.config import parse_run_config
from fedkd_flwr.simulation.rows import lacking, simulated_pool

SEEDS = (501, 502, 503, 504, 505)
MODELS = {"forest": "random-forest(n_estimators=30)", "XGBoost": "xgboost(n_estimators=30)"}
SPLITS = {"Dirichlet 1": {"dirichlet_alpha": 1.0}, "iid": {"partitioner": "iid"}}
ADULT: dict[str, Any] = {"num_public": 2000, "num_test": 2000, "num_private": 6000, "parties": 10}
ONE = {"students_per_party": 1, "teachers_per_student": 1}
NEARLY_EMPTY = "hungarian:ca,thal;switzerland:ca;va:ca,thal"


def figures(data: str, root: str, seed: int, model: str, **settings: Any) -> dict[str, float]:
    """Return what one run reached."""
    with tempfile.TemporaryDirectory() as folder:
        own = {"save_party_models": False, "centralised": False, "progress": False, "output_dir": folder}
        record = simulate(
            data, data_root=root, algorithm="fedkt", seed=seed, model=MODELS[model], **own, **settings
        ).record
    means, server = record.mean_accuracies(), record.server["common"]
    found = {"server": server.accuracy, "commonest class": server.baseline}
    found |= {"parties": means["federated-common"], "alone": means["solo-common"]}
    return {key: round(float(value or 0.0), 4) for key, value in found.items()}


def common_columns(root: str, seed: int) -> tuple[list[str], list[str]]:
    """Return the columns that no party lacks, and all others."""
    sizes = {"num-public": 2000, "num-test": 2000, "num-private": 6000}
    config = parse_run_config({"dataset": "adult", "data-root": root, "seed": seed, "lacks": "4", **sizes})
    lacked = {name for i in range(10) for name in lacking(config, i)}
    names = simulated_pool(config).public.schema.column_names
    return [name for name in names if name not in lacked], [name for name in names if name in lacked]


def adult(root: str, seed: int, model: str, split: str) -> dict[str, Any]:
    """Return the figures of all columns, of those that the seed leaves each party, and of the common ones."""
    how = {**ADULT, **SPLITS[split], **ONE}
    common, others = common_columns(root, seed)
    found: dict[str, Any] = {"common columns": common}
    for case, lacks in (("all", ""), ("lacking", "4")):
        found[case] = figures("adult", root, seed, model, lacks=lacks, **how)
    if common:
        everywhere = ";".join(f"party-{i:03d}:{','.join(others)}" for i in range(10))
        found["common"] = figures("adult", root, seed, model, lacks=everywhere, **how)
    else:
        found["common"] = dict.fromkeys(("server", "parties", "alone"), found["all"]["commonest class"])
    return found


def all_rows(root: str, seed: int, model: str, _: str) -> dict[str, Any]:
    """Return the accuracy of one model of all private rows, with all columns and with those that a party has."""
    sizes = {"num-public": 2000, "num-test": 2000, "num-private": 6000}
    config = parse_run_config({"dataset": "adult", "data-root": root, "seed": seed, "lacks": "4", **sizes})
    pool, reached = simulated_pool(config), []
    for public, kept in [(pool.public, slice(None)), *(pool.public.without(lacking(config, i)) for i in range(10))]:
        taught = model_factory(MODELS[model], public)(seed=seed).fit(pool.X[:, kept], pool.y)
        reached.append(round(float((taught.predict(pool.X_test[:, kept]) == pool.y_test).mean()), 4))
    return {"all": {"pooled": reached[0]}, "lacking": {"pooled": round(statistics.fmean(reached[1:]), 4)}}


def heart(root: str, seed: int, model: str, _: str) -> dict[str, Any]:
    """Return the figures of the four hospitals."""
    cases = {"as they are": "", "named": NEARLY_EMPTY}
    return {case: figures("heart", root, seed, model, lacks=lacks) for case, lacks in cases.items()}


def summary(found: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Return means and deviations over the seeds."""
    said = {}
    for name, seeds in found.items():
        cases = [case for case in next(iter(seeds.values())) if case != "common columns"]
        for case in cases:
            for key in ("server", "parties", "alone", "pooled"):
                values = [one[case][key] for one in seeds.values() if key in one[case]]
                if not values:
                    continue
                spread = statistics.stdev(values) if len(values) > 1 else 0.0
                said[f"{name}: {case}: {key}"] = f"{statistics.fmean(values):.4f} ({spread:.4f})"
    return said


def main() -> None:
    """Run what is not in the file yet, and keep the figures after each seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", default="")
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    words = shlex.join(sys.argv[1:]).replace(given.data_root or "\0", "/path/to/data")
    found: dict[str, dict[str, Any]] = json.loads(given.out.read_text())["found"] if given.out.is_file() else {}
    cases = [(f"Adult, {split}", adult, model, split) for split in SPLITS for model in MODELS]
    cases += [("Adult, one model of all private rows", all_rows, model, "") for model in MODELS]
    cases += [("heart", heart, model, "") for model in MODELS]
    jobs = [
        (f"{data}, {model}", str(seed), (run, given.data_root, seed, model, split))
        for seed in given.seeds
        for data, run, model, split in cases
        if str(seed) not in found.get(f"{data}, {model}", {})
    ]
    with ProcessPoolExecutor(given.processes, get_context("spawn")) as pool:
        asked = {pool.submit(*job): (name, seed) for name, seed, job in jobs}
        for done in as_completed(asked):
            name, seed = asked[done]
            found.setdefault(name, {})[seed] = done.result()
            print(name, seed, done.result(), flush=True)
            ordered = {name: dict(sorted(found[name].items())) for name in sorted(found)}
            made = {"command": f"python benchmarks/missing_columns.py {words}", "means": summary(ordered)}
            made |= {"found": ordered}
            given.out.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

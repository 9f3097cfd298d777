"""Trees: share labels, trees or histograms? And four real hospitals.

    nice python benchmarks/trees.py --data-root ../shared/data --out benchmarks/results/trees.json
    nice python benchmarks/trees.py --data-root ../shared/data --hospitals --out benchmarks/results/hospitals.json
    nice python benchmarks/trees.py --data-root ../shared/data --rare --out benchmarks/results/trees-rare.json
    nice python benchmarks/trees.py --data-root ../shared/data --home FOLDER --out benchmarks/results/home.json
    nice python benchmarks/trees.py --data-root ../shared/data --whole --out benchmarks/results/trees-whole.json

Each run is the package's own simulation, in this process. `ROWS` rows of each table are drawn once: 1,500 public rows,
2,000 common test rows, and 3,000 rows that five parties share, iid or by Dirichlet. All methods of a seed meet the same
parties. Boosted models have `TREES` steps, so bagging has as many rounds; forests have 50 trees. "pooled" is one model
of everybody's rows, which distributed XGBoost computes too: it adds up the histograms of the same gradients. "stacked"
and "known rows" have the labels of 200 public rows.

With ``--hospitals`` the parties are those of UCI's heart disease. No public rows are theirs: 150 are drawn first from
noisy sums (`draw-public-epsilon=1`). 150 rows of all four are common test rows; each hospital keeps a fifth of its own
for tests. "without NAME": the common test rows are those of a hospital that took no part. "pooled rows": a forest of
all hospitals' own rows answers at each hospital for its class shares; 150 real rows are public there.

With ``--rare`` one row in a hundred is of the second class, as with fraud: 20,000 rows of Adult and of cod-rna, of
which so many of the rarer class are drawn; 4,000 are public, 8,000 common test rows, and five parties share 8,000.

With ``--home`` 5 and 10 parties of forests learn by FedCT, by Dirichlet: who gains on own rows? FOLDER holds telco.csv,
as for `benchmarks/others.py`.

With ``--whole`` five parties share half of all rows of Adult, iid; a quarter is public, a quarter common test rows.
XGBoost has its default number of steps.

A file that exists is gone on with. Nothing was chosen on seeds 111 and on, nor on 201 and on, which are those of
hospitals and rare classes, nor on 801 and on, those of home rows. Constants of the vote by density ratios were chosen
on other people's tables, seed 31. One thing was chosen on rare classes, seed 201: that densities of classes alone are
given up where a class is thrice as frequent at a party as among public rows.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import shlex
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from flwr.app import Context, RecordDict

from fedkd_flwr.app import client_app, server_app
from fedkd_flwr.app.assembly import make_client
from fedkd_flwr.app.live_run import captured_log
from fedkd_flwr.baselines.tree_exchange import TreeExchange
from fedkd_flwr.data.published import read_published
from fedkd_flwr.errors import FedkdError
from fedkd_flwr.labels.priors import class_shares
from fedkd_flwr.models.populations import Answering
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.settings.config import parse_node_config, parse_run_config
from fedkd_flwr.simulation.grid import InProcessGrid
from fedkd_flwr.simulation.rows import party_name
from fedkd_flwr.simulation.run import with_drawn_rows

ROWS, PUBLIC, TEST, TREES = 6500, 1500, 2000, 30
RARE, RARE_PUBLIC, RARE_TEST, SHARE = 20_000, 4000, 8000, 0.01
RARE_TABLES = ("adult", "cod-rna")
TABLES = ("adult", "cod-rna", "mushroom", "wine")
DEALS = (0, 1, 0.5, 0.1)  # Dirichlet's alpha; 0: iid
FIGURES = ("accuracy", "balanced_accuracy", "roc_auc", "average_precision", "log_loss")
BOOSTED = {"model": f"xgboost(n_estimators={TREES})"}
FOREST = {"model": "random-forest(n_estimators=50)"}
BAGGING = {"algorithm": "fedxgb-bagging", "num-rounds": TREES, **BOOSTED}
METHODS: dict[str, dict[str, Any]] = {
    "FedKT": {"algorithm": "fedkt", "centralised": True, **BOOSTED},
    "FedCT": {"algorithm": "fedct", **BOOSTED},
    "bagging, mean": BAGGING,
    "bagging, sum": {**BAGGING, "paper.leaves": "sum"},
    "pooled forest": {"algorithm": "pooled-forest", **FOREST},
    "stacked": {"algorithm": "stacked", **BOOSTED},
    "FedKT, known rows": {"algorithm": "fedkt", "known-rows": 200, **BOOSTED},
}
HOSPITAL_METHODS: dict[str, dict[str, Any]] = {
    "FedKT, forests": {"algorithm": "fedkt", "centralised": True, **FOREST},
    "FedCT, mixed models": {"algorithm": "fedct", "model": "mixed"},
    "FedCT, forests": {"algorithm": "fedct", **FOREST},
    "FedCT, forests, majority": {"algorithm": "fedct", "consensus": "majority", **FOREST},
    "FedCT, forests, density ratios": {"algorithm": "fedct", "consensus": "density-ratio", **FOREST},
    "noisy sums, epsilon 2": {"algorithm": "noisy-sums", "epsilon": 2.0, **FOREST},
    "FedAvg, mlp": {"algorithm": "fedavg", "model": "mlp"},
    "bagging, mean": BAGGING,
    "pooled forest": {"algorithm": "pooled-forest", **FOREST},
    "stacked": {"algorithm": "stacked", **BOOSTED},
    "FedKT, known rows": {"algorithm": "fedkt", "known-rows": 200, **BOOSTED},
}
HOSPITALS = ("cleveland", "hungarian", "switzerland", "va")


BY_ROUND: list[dict[str, float]] = []  # figures of the server's trees after each round of the present run


def note_rounds() -> None:
    """Have every round of an exchange of trees noted: bagging is judged by its best round too, in its favour."""
    measure = TreeExchange.measure

    def noted(self: TreeExchange) -> Any:
        if (made := measure(self)) is not None:
            BY_ROUND.append(values(self.record.server["common"]))
        return made

    TreeExchange.measure = noted  # type: ignore[method-assign]


class Grid(InProcessGrid):
    """The grid, as `with_drawn_rows` closes it."""

    def close(self) -> None:
        """Do nothing: there are no processes."""


def write_tables(data_root: Path, folder: Path) -> None:
    """Write the tables as CSV: those of the four data sets, and one of each hospital."""
    for name in TABLES:
        if name == "wine":
            found = [
                pd.read_csv(data_root / "wine-quality" / f"winequality-{k}.csv", sep=";") for k in ("red", "white")
            ]
            table = pd.concat(found, ignore_index=True).drop_duplicates(ignore_index=True)
            table["label"] = np.where(table.pop("quality") >= 6, "good", "poor")
        else:
            table = frame(name, data_root)
        table.sample(min(ROWS, len(table)), random_state=0).to_csv(folder / f"{name}.csv", index=False)
    frame("adult", data_root).to_csv(folder / "adult-whole.csv", index=False)
    for name in RARE_TABLES:
        whole = frame(name, data_root)
        common, rare = whole["label"].value_counts().index
        few = int(RARE * SHARE)
        parts = [whole[whole["label"] == c].sample(n, random_state=0) for c, n in ((common, RARE - few), (rare, few))]
        pd.concat(parts).sample(frac=1, random_state=0).to_csv(folder / f"{name}-rare.csv", index=False)
    heart = frame("heart", data_root)
    for hospital, rows in heart.groupby(np.asarray(read_published("heart", data_root).parties, str)):
        rows.to_csv(folder / f"{hospital}.csv", index=False)


def frame(name: str, data_root: Path) -> pd.DataFrame:
    """Return a published data set as a table with its labels."""
    source = read_published(name, data_root)
    table = (
        source.table
        if isinstance(source.table, pd.DataFrame)
        else pd.DataFrame(np.asarray(source.table)).add_prefix("x")
    )
    return table.assign(label=np.asarray(source.classes)[source.y])


def run(settings: dict[str, Any], parties: int, seed: int) -> RunRecord:
    """Run one simulation in this process, and return its record."""
    BY_ROUND.clear()
    with tempfile.TemporaryDirectory() as folder, captured_log():
        rest = {"output-dir": folder, "num-parties": parties, "seed": seed, "save-party-models": False}
        values = {"centralised": False, **settings, **rest}
        config = parse_run_config(values)
        nodes = [{"partition-id": i, "num-partitions": parties, "party": party_name(i, config)} for i in range(parties)]

        def grid_of(given: dict[str, Any], run_id: int = 1) -> Grid:
            return Grid(client_app.app, nodes, given, run_id=run_id)

        scalars = parse_run_config(with_drawn_rows(config, values, grid_of)).as_scalars()
        grid = grid_of(scalars)
        return server_app.federate(grid, Context(1, 1, {}, RecordDict(), scalars), page=False)


def dealt(table: Path, alpha: float) -> dict[str, Any]:
    """Return the settings of the rows."""
    rows = {"dataset": "table", "table": str(table), "label": "label", "num-public": PUBLIC, "num-test": TEST}
    return rows | ({"partitioner": "dirichlet", "dirichlet-alpha": float(alpha)} if alpha else {"partitioner": "iid"})


def figures(record: RunRecord) -> dict[str, Any]:
    """Return what one run has: means over parties, the server's model, bytes of a party."""
    asked = max(record.rounds[0].asked, 1)
    found: dict[str, Any] = {
        "rounds": len(record.rounds),
        "bytes up": sum(one.bytes_up for one in record.rounds) / asked,
        "bytes down": (sum(one.bytes_down for one in record.rounds) + record.final_bytes_down) / asked,
        "failed": [f"{one.party}: {one.code}" for one in record.rounds[-1].rejected],
        "rule": record.consensus_rule,
        "best round": best_round(),
    }
    if server := record.server.get("common"):
        found["server"] = values(server)
    if "common" in record.centralised:
        found["pooled"] = values(record.centralised["common"])
    for name, of in (("alone", "solo"), ("with", "federated")):
        for rows in ("common", "own"):
            measured = [getattr(party, of)[rows] for party in record.parties if rows in getattr(party, of)]
            if measured:
                found[f"{name} {rows}"] = {
                    key: statistics.fmean(known)
                    for key in FIGURES
                    if (known := [value for one in measured if (value := getattr(one, key)) is not None])
                }
    found["home"] = {
        party.name: [party.solo["own"].accuracy, party.federated["own"].accuracy]
        for party in record.parties
        if "own" in party.solo and "own" in party.federated
    }
    return found


def best_round() -> dict[str, float]:
    """Return the best of each figure over the rounds."""
    return {
        key: (min if key == "log_loss" else max)(one[key] for one in BY_ROUND if key in one)
        for key in FIGURES
        if any(key in one for one in BY_ROUND)
    }


def values(measured: Any) -> dict[str, float]:
    """Return the figures that are known."""
    return {key: round(value, 5) for key in FIGURES if (value := getattr(measured, key)) is not None}


def cases(folder: Path, seeds: range) -> Any:
    """Yield the name, settings and number of parties of each run, and its seed."""
    for seed, name, alpha, method in itertools.product(seeds, TABLES, DEALS, METHODS):
        if method == "bagging, sum" and name != "adult":
            continue
        yield (
            f"{name}, {alpha or 'iid'}, {method}",
            {**dealt(folder / f"{name}.csv", alpha), **METHODS[method]},
            5,
            seed,
        )


def rare_cases(folder: Path, seeds: range) -> Any:
    """Yield the same of tables with a rare class."""
    methods = [name for name in METHODS if name not in ("bagging, sum", "FedKT, known rows")]
    for seed, name, alpha, method in itertools.product(seeds, RARE_TABLES, DEALS, methods):
        rows = dealt(folder / f"{name}-rare.csv", alpha) | {"num-public": RARE_PUBLIC, "num-test": RARE_TEST}
        yield f"{name}, {alpha or 'iid'}, {method}", {**rows, **METHODS[method]}, 5, seed


def whole_cases(folder: Path, seeds: range) -> Any:
    """Yield the same of all rows of Adult."""
    rows = dealt(folder / "adult-whole.csv", 0) | {"num-public": 12_209, "num-test": 12_210}
    for seed, method in itertools.product(seeds, ("FedKT", "FedCT")):
        yield f"adult, iid, {method}", {**rows, **METHODS[method], "model": "xgboost"}, 5, seed


def hospital_cases(data_root: Path, folder: Path, seeds: range) -> Any:
    """Yield the same of the hospitals."""
    drawn = {"draw-public-epsilon": 1.0, "num-public": 150}
    of_all = {"dataset": "heart", "data-root": str(data_root), "num-test": 150}
    for seed, (method, settings) in itertools.product(seeds, HOSPITAL_METHODS.items()):
        yield f"drawn rows, {method}", {**of_all, **drawn, **settings}, 4, seed
    for seed in seeds:
        yield "pooled rows, forests", {}, 4, seed
    for left_out, seed, method in itertools.product(HOSPITALS, seeds, LEFT_OUT):
        others = [one for one in HOSPITALS if one != left_out]
        files = ",".join(str(folder / f"{one}.csv") for one in others)
        rows = {"dataset": "table", "tables": files, "label": "label", "test-table": str(folder / f"{left_out}.csv")}
        yield f"without {left_out}, {method}", {**rows, **drawn, **HOSPITAL_METHODS[method]}, 3, seed


LEFT_OUT = ("FedCT, mixed models", "pooled forest")


def pooled_at_home(data_root: Path, seed: int) -> dict[str, Any]:
    """Return accuracy on each hospital's own test rows of its own forest, and of one forest of all hospitals' rows."""
    with tempfile.TemporaryDirectory() as folder:
        settings = {"dataset": "heart", "data-root": str(data_root), "num-test": 150, "num-public": 150, **FOREST}
        config = parse_run_config({**settings, "output-dir": folder, "num-parties": 4, "seed": seed})
        nodes = [{"partition-id": i, "num-partitions": 4, "party": party_name(i, config)} for i in range(4)]
        parties = [make_client(config, parse_node_config(node), "1").party for node in nodes]
    X, y = (np.concatenate(parts) for parts in zip(*((one.X, one.y) for one in parties), strict=True))
    pooled, found = parties[0].model(seed=seed).fit(X, y), {}
    pooled.shares = {"taught": class_shares(np.bincount(y))}
    for one in parties:
        at_home = Answering(pooled, class_shares(np.bincount(one.y, minlength=2)))
        models = one.model(seed=seed).fit(one.X, one.y), at_home
        found[one.name] = [model.metrics(*one.tests["own"][:2]).accuracy for model in models]
    return {"home": found, "failed": []}


def home_cases(data_root: Path, folder: Path, home: Path, seeds: range) -> Any:
    """Yield the same of parties that are measured on their own rows."""
    images = {"num-private": 4000, "num-public": 1500, "num-test": 2000}
    of = {
        "adult": {"dataset": "table", "table": str(folder / "adult.csv"), "label": "label"},
        "telco": {"dataset": "table", "table": str(home / "telco.csv"), "label": "Churn"},
        "digits": {"dataset": "digits", "num-public": 400, "num-test": 400},
        "fashion-mnist": {"dataset": "fashion-mnist", "data-root": str(data_root), **images},
    }
    for name, parties, alpha, seed in itertools.product(of, (5, 10), (0.1, 0.5, 1), seeds):
        rows = of[name] if "num-public" in of[name] else of[name] | {"num-public": PUBLIC, "num-test": TEST}
        dealt = {"partitioner": "dirichlet", "dirichlet-alpha": float(alpha)}
        yield f"{name}, {alpha}, {parties}", {**rows, **dealt, "algorithm": "fedct", **FOREST}, parties, seed


def main() -> None:
    """Run what the file lacks, and keep the figures after each run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", type=Path, required=True)
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--hospitals", action="store_true")
    kinds.add_argument("--rare", action="store_true")
    kinds.add_argument("--home", type=Path, metavar="FOLDER")
    kinds.add_argument("--whole", action="store_true")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default="", help="runs whose name holds this regular expression")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    note_rounds()
    kept = json.loads(options.out.read_text(encoding="utf-8")) if options.out.is_file() else {}
    kind = next((one for one in ("hospitals", "rare", "home", "whole") if getattr(options, one)), "")
    words = ["python benchmarks/trees.py", *([f"--{kind}"] if kind else []), *(["FOLDER"] if options.home else [])]
    words += [f"--seeds {options.seeds}"]
    words += [f"--only {shlex.quote(options.only)}"] if options.only else []
    commands = dict.fromkeys([*filter(None, kept.get("command", "").split("; ")), " ".join(words)])
    kept |= {"command": "; ".join(commands), "cores": os.cpu_count()}
    found = kept.setdefault("found", {})
    first = {"": 111, "home": 801, "whole": 111}.get(kind, 201)
    seeds = range(first, first + options.seeds)
    with tempfile.TemporaryDirectory() as name:
        folder, root = Path(name), options.data_root.absolute()
        write_tables(root, folder)
        made_of = {
            "": lambda: cases(folder, seeds),
            "rare": lambda: rare_cases(folder, seeds),
            "whole": lambda: whole_cases(folder, seeds),
            "hospitals": lambda: hospital_cases(root, folder, seeds),
            "home": lambda: home_cases(root, folder, options.home.absolute(), seeds),
        }
        for name, settings, parties, seed in made_of[kind]():
            if not re.search(options.only, name) or str(seed) in found.get(name, {}):
                continue
            began = time.process_time()
            try:
                made = figures(run(settings, parties, seed)) if settings else pooled_at_home(root, seed)
            except FedkdError as error:
                made = {"failed": [str(error)[:300]]}
            made["cpu seconds"] = round(time.process_time() - began, 2)
            found.setdefault(name, {})[str(seed)] = made
            print(
                name, seed, made.get("server", made.get("with common")), made["failed"], made["cpu seconds"], flush=True
            )
            options.out.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""What a server learns of private rows from labels, from trees, and from one model of all rows.

    nice python benchmarks/tree_leaks.py --data-root ../shared/data --out benchmarks/results/tree-leaks.json

**Members.** `fedkd dev audit`'s attack (LiRA, `SHADOWS` shadow runs), the same for all that leaves: two parties,
iid, hold 600 rows each, of which a coin for each pair puts 300 in; 1,500 rows are public. What counts as evidence is
told in `fedkd_flwr.audit.membership`. "one model of all rows" is bagging with a single party that holds all 1,200 rows:
XGBoost on all members, which is what adding up histograms makes. Histograms themselves say more.

"drawn rows": public rows are as many that were drawn from one release of noisy sums (epsilon 0.5) of all 1,200 rows,
which no coin has touched: what is attacked are the answers alone. "1,200 rows", "4,800": a coin
puts so many of twice as many in; the latter are of all of Adult. "Dirichlet 0.5": parties that differ.

**Values.** What can be read off the trees that one party of 300 rows sends in 30 rounds of bagging (of two parties),
off its forest of 50 trees, off XGBoost on all 600 rows, and off XGBoost taught by the labels that a party's own model
gives the public rows. Nothing is combined over trees, so an attacker finds at least this. A column that has two values
or less is left out. *Exact*: the share of private cells (a row and a column) whose very number is a threshold of that
column, in single precision; XGBoost's thresholds are numbers of the rows it learnt from. *Not public*: the same among
cells whose number no public row has. *Pinned*: the share of cells that some leaf's path holds between two thresholds
(or a threshold and the end of the public rows) that are at most a twentieth of the public rows' range apart, with at
most a twentieth of the public rows between them. Every leaf holds a row, so that somebody has such a value is certain.
*Empty*: the share of leaves with such an interval in which no private row is: 0 where it is certain. *Counted*: the
share of private rows in a leaf of the first tree whose number of rows and of each class follows from what Flower's own
bagging sends (hessian sum and leaf value at even odds; our trees hold no hessian sums); *fewest*: the fewest rows of
any leaf.

A file that exists is gone on with. Nothing was chosen on seeds 201 to 240.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import xgboost
from numpy.typing import NDArray
from trees import BAGGING, BOOSTED, FOREST, TREES, dealt, frame, write_tables

from fedkd_flwr.app.assembly import make_client
from fedkd_flwr.app.client_app import app
from fedkd_flwr.app.live_run import captured_log
from fedkd_flwr.audit import run as audits
from fedkd_flwr.baselines.cards import FedXGBBaggingConfig
from fedkd_flwr.baselines.fedxgb_bagging import aggregate
from fedkd_flwr.baselines.trees import Trees, cut, leaf_values, of_booster, of_forest, together
from fedkd_flwr.settings.config import RunConfig, parse_node_config, parse_run_config
from fedkd_flwr.simulation.grid import InProcessGrid
from fedkd_flwr.simulation.run import with_drawn_rows

TABLES, PARTIES, ROWS, SHADOWS, NARROW = ("adult", "cod-rna", "wine"), 2, 600, 8, 0.05
DRAWN = {"draw-public-epsilon": 0.5}
METHODS: dict[str, dict[str, Any]] = {
    "FedKT: labels": {"algorithm": "fedkt", "consensus": "majority", **BOOSTED},
    "FedKT, t = 5: labels": {"algorithm": "fedkt", "fedkt.teachers-per-student": 5, "consensus": "majority", **BOOSTED},
    "FedCT: labels": {"algorithm": "fedct", "consensus": "majority", **BOOSTED},
    "bagging: trees": BAGGING,
    "pooled forest: trees": {"algorithm": "pooled-forest", **FOREST},
    "one model of all rows": {**BAGGING, "num-parties": 1, "min-parties": 1},
    "FedCT, default forests: labels": {"algorithm": "fedct", "consensus": "majority"},
    "FedCT, default forests: labels, density ratios": {"algorithm": "fedct", "consensus": "density-ratio"},
    "FedCT: labels, density ratios": {"algorithm": "fedct", "consensus": "density-ratio", **BOOSTED},
    "FedKT: probabilities": {"algorithm": "fedkt", "send": "probabilities", **BOOSTED},
    "FedCT: probabilities": {"algorithm": "fedct", "send": "probabilities", **BOOSTED},
    "FedKT: probabilities, drawn rows": {"algorithm": "fedkt", "send": "probabilities", **DRAWN, **BOOSTED},
    "FedCT: probabilities, drawn rows": {"algorithm": "fedct", "send": "probabilities", **DRAWN, **BOOSTED},
    "FedKT: labels, drawn rows": {"algorithm": "fedkt", "send": "labels", **DRAWN, **BOOSTED},
}
LARGE = [name for name in METHODS if re.search("trees|one model|default|ratios", name)]
for rows in (1200, 4800):
    METHODS |= {f"{name}, {rows:,} rows": {**METHODS[name], "num-private": 2 * PARTIES * rows} for name in LARGE}
UNLIKE = {"partitioner": "dirichlet", "dirichlet-alpha": 0.5}
METHODS |= {
    f"{name}{rows}, Dirichlet 0.5": {**METHODS[name + rows], **UNLIKE}
    for rows, name in itertools.product(("", ", 1,200 rows"), LARGE)
    if re.search("bagging|pooled|default|ratios", name)
}
CASES = [(name, method) for name in TABLES for method in ("", *list(METHODS)[:9])]  # "": values
CASES += [("adult", method) for method in list(METHODS)[9:]]


def config_of(table: Path, settings: dict[str, Any], seed: int, output: str) -> RunConfig:
    """Return the settings of one run."""
    rows = dealt(table, 0) | {"num-parties": PARTIES, "num-private": PARTIES * ROWS, "num-test": 100}
    return parse_run_config({**rows, **settings, "seed": seed, "output-dir": output})


def members(table: Path, settings: dict[str, Any], seed: int) -> dict[str, Any]:
    """Return what the membership audit finds."""
    with tempfile.TemporaryDirectory() as folder:
        config = config_of(table, settings, seed, folder)
        nodes = [{"partition-id": i, "num-partitions": config.num_parties} for i in range(config.num_parties)]
        whole = config.model_copy(update={"party_test_fraction": 0.0})
        values = with_drawn_rows(whole, whole.as_scalars(), partial(InProcessGrid, app, nodes))
        config = parse_run_config({key: value for key, value in values.items() if key not in DRAWN})
        found = audits.audit(config, shadows=SHADOWS).as_dict()["audit"]
    everybody = found["everybody"]
    return {
        "sent": found["sent"],
        "members": everybody["members"],
        **{name: [round(everybody[name][end], 4) for end in ("value", "low", "high")] for name in FOUND},
        "auc without shadows": round(found["without_shadows"]["value"], 4),
    }


FOUND = ("auc", "found_at_1_percent")


# ---------------------------------------------------------------- values


def steps(margins: NDArray[np.float64], X: NDArray[np.float32], y: NDArray[np.int16], seed: int) -> Any:
    """Return one step of XGBoost as `FedXGBBaggingClient` makes it."""
    params = {"objective": "binary:logistic", "base_score": 0.5, "seed": seed, "nthread": 1}
    return xgboost.train(params, xgboost.DMatrix(X, y, base_margin=margins), num_boost_round=1)


def boosted(parts: list[tuple[NDArray[np.float32], NDArray[np.int16]]], seed: int) -> list[tuple[Trees, Any]]:
    """Return the trees that each party sends in `TREES` rounds of bagging, and its first booster."""
    config = FedXGBBaggingConfig()
    margins, common, sent = [np.zeros((len(y), 1)) for _, y in parts], {}, []
    firsts: list[Any] = []
    for at in range(TREES):
        made = [steps(margin, *part, seed + at) for margin, part in zip(margins, parts, strict=True)]
        firsts = firsts or made
        sent.append([of_booster(one) for one in made])
        count = len(common["sizes"]) if common else 0
        common = aggregate(common, sent[-1], config=config)
        new = cut(common, count)[1]
        margins = [m + leaf_values(new, X, outputs=1) for m, (X, _) in zip(margins, parts, strict=True)]
    return [(together(list(own)), first) for own, first in zip(zip(*sent, strict=True), firsts, strict=True)]


def boxes(trees: Trees, num_features: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the lowest and the highest value of each column in each leaf: (leaves, num_features) each."""
    nodes = len(trees["left"])
    low = np.full((nodes, num_features), -np.inf, np.float32)
    high = np.full((nodes, num_features), np.inf, np.float32)
    for node in np.flatnonzero(trees["left"]):  # a child stands after its parent
        column, threshold = trees["columns"][node], trees["thresholds"][node]
        below, above = node + int(trees["left"][node]), node + int(trees["right"][node])
        for child in (below, above):
            low[child], high[child] = low[node], high[node]
        high[below, column] = min(high[below, column], np.nextafter(threshold, np.float32(-np.inf)))
        low[above, column] = max(low[above, column], threshold)
    leaves = trees["left"] == 0
    return low[leaves], high[leaves]


def read_off(trees: Trees, X: NDArray[np.float32], public: NDArray[np.float32]) -> dict[str, float]:
    """Return what the trees tell of the cells of ``X``; the docstring above says how."""
    wide = [j for j in range(X.shape[1]) if len(np.unique(public[:, j])) > 2]
    low, high = boxes(trees, X.shape[1])
    inner, thresholds = trees["left"] > 0, trees["thresholds"]
    exact, unknown, pinned, hits, empty, leaves = 0, 0, 0, 0, 0, 0
    inside = np.ones((len(X), len(low)), bool)
    for j in range(X.shape[1]):
        inside &= (X[:, j, None] >= low[:, j]) & (X[:, j, None] <= high[:, j])
    for j in wide:
        told = np.isin(X[:, j], thresholds[inner & (trees["columns"] == j)])
        fresh = ~np.isin(X[:, j], public[:, j])
        exact, unknown, hits = exact + told.sum(), unknown + fresh.sum(), hits + (told & fresh).sum()
        known, ordered = public[:, j], np.sort(public[:, j])
        least, most = np.maximum(low[:, j], known.min()), np.minimum(high[:, j], known.max())
        share = np.searchsorted(ordered, most, "right") - np.searchsorted(ordered, least, "left")
        split = np.isfinite(low[:, j]) | np.isfinite(high[:, j])
        narrow = split & (most - least <= NARROW * np.ptp(known)) & (share <= NARROW * len(known))
        pinned += inside[:, narrow].any(axis=1).sum()
        empty, leaves = empty + (~inside[:, narrow].any(axis=0)).sum(), leaves + narrow.sum()
    cells = len(X) * len(wide)
    return {
        "columns": len(wide),
        "exact": exact / cells,
        "not public": hits / unknown if unknown else 0.0,
        "cells not public": unknown / cells,
        "pinned": pinned / cells,
        "empty": empty / leaves if leaves else 0.0,
        "fewest": int(inside.sum(axis=0).min()),
    }


def counted(first: Any, y: NDArray[np.int16], X: NDArray[np.float32]) -> float:
    """Return the share of rows in leaves whose rows and classes follow from hessian sum and leaf value."""
    model = json.loads(first.save_raw("json"))["learner"]["gradient_booster"]["model"]["trees"][0]
    leaf, rate, penalty = np.array(model["left_children"]) < 0, 0.3, 1.0  # XGBoost's defaults: eta and lambda
    hessian, value = np.array(model["sum_hessian"])[leaf], np.array(model["split_conditions"])[leaf]
    rows = 4 * hessian  # at even odds every row's hessian is 1/4, its gradient 1/2 or -1/2
    positive = rows / 2 + value / rate * (hessian + penalty)
    at, numbers = first.predict(xgboost.DMatrix(X), pred_leaf=True).ravel().astype(int), np.flatnonzero(leaf)
    right = [
        (at == n).sum() == round(float(r)) and y[at == n].sum() == round(float(p))
        for n, r, p in zip(numbers, rows, positive, strict=True)
    ]
    return float(np.isin(at, numbers[right]).mean())


def values(table: Path, seed: int) -> dict[str, dict[str, float]]:
    """Return what is read off each kind of trees, the mean over parties."""
    whole, output = {"party-test-fraction": 0.0}, str(table.parent)
    nodes = [parse_node_config({"partition-id": i, "num-partitions": PARTIES}) for i in range(PARTIES)]
    bagging, pooled = (
        [make_client(config_of(table, {**whole, **METHODS[name]}, seed, output), node, "leaks").party for node in nodes]
        for name in ("bagging: trees", "pooled forest: trees")
    )
    parts = [(np.asarray(p.X[: ROWS // 2], np.float32), p.y[: ROWS // 2]) for p in bagging]
    public = np.asarray(bagging[0].public.X, np.float32)
    rows, labels = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    found: dict[str, list[dict[str, float]]] = {}
    for (X, y), (trees, first) in zip(parts, boosted(parts, seed), strict=True):
        made = read_off(trees, X, public) | {"counted": counted(first, y, X)}
        found.setdefault("bagging: trees", []).append(made)
        model = pooled[0].model(seed=seed).fit(X, y)
        grown = of_forest(model, num_trees=model.template.n_estimators)
        found.setdefault("pooled forest: trees", []).append(read_off(grown, X, public))
        own = bagging[0].model(seed=seed).fit(X, y)
        taught = boosted([(public, own.predict(public).astype(np.int16))], seed)[0][0]
        found.setdefault("labels: trees taught by them", []).append(read_off(taught, X, public))
    found["one model of all rows"] = [read_off(boosted([(rows, labels)], seed)[0][0], rows, public)]
    return {
        name: {key: round(float(np.mean([one[key] for one in some])), 4) for key in some[0]}
        for name, some in found.items()
    }


def main() -> None:
    """Run what the file lacks, and keep the figures after each run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", default="", help="runs whose name holds this regular expression")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    kept = json.loads(options.out.read_text(encoding="utf-8")) if options.out.is_file() else {}
    kept |= {"command": f"python benchmarks/tree_leaks.py --seeds {options.seeds}", "cores": os.cpu_count()}
    of_values, of_members = kept.setdefault("values", {}), kept.setdefault("members", {})
    audits.write_page = lambda *_: None  # which takes longer to draw than the attack
    with tempfile.TemporaryDirectory() as folder:
        write_tables(options.data_root.absolute(), Path(folder))
        frame("adult", options.data_root.absolute()).to_csv(Path(folder) / "whole.csv", index=False)
        for seed, (name, method) in itertools.product(range(201, 201 + options.seeds), CASES):
            found, key = (of_members, f"{name}, {method}") if method else (of_values, name)
            if not re.search(options.only, key) or str(seed) in found.get(key, {}):
                continue
            began, table = time.process_time(), Path(folder) / f"{'whole' if '4,800' in method else name}.csv"
            with captured_log():
                made = members(table, METHODS[method], seed) if method else values(table, seed)
            found.setdefault(key, {})[str(seed)] = made
            print(key, seed, made, round(time.process_time() - began, 1), flush=True)
            options.out.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

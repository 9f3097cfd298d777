"""What it brings to send probabilities in place of labels: FedKT and FedCT, three kinds of models.

    python benchmarks/soft_targets.py --data-root ../shared/data --out benchmarks/results/soft-targets.json

Each federation is run on the same rows with labels and their majority (``consensus=majority``), with the default where
that is another rule (density ratios; on even rows of two classes labels count as much as they do), and with
``send=probabilities``. Tables have 3,000 rows: 750 are public, 750 the common test rows. Figures are means over the
parties' models on common test rows; "home" is their accuracy on own test rows. Models are small, to measure many
federations. A benchmark that was stopped goes on.

    python benchmarks/soft_targets.py --nets --data-root ../shared/data --out benchmarks/results/soft-targets-nets.json

With ``--nets`` parties have the net `mlp`: digits (450 public rows, 450 for tests, the others are the parties') and
Fashion-MNIST (2,500 private, 1,000 public, 1,000 test rows). FedCT makes three rounds of 100 minibatch steps. Figures
are means over the parties' models, as above.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shlex
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import trees

from fedkd_flwr.data.published import read_published

ROWS, PARTIES = 3000, 5  # a quarter of the rows is public, a quarter for common tests
SEEDS = (11, 12, 13, 14, 15)  # no choice was made on them
DEALS = ("iid", "0.1")
MODELS = {"xgboost": "(n_estimators=20)", "random-forest": "(n_estimators=20)", "mlp": ""}
CASES = [
    ("adult", "fedct", "xgboost"),
    ("cod-rna", "fedct", "random-forest"),
    ("adult", "fedkt", "xgboost"),
    ("adult", "fedct", "mlp"),
    ("cod-rna", "fedkt", "mlp"),
    ("cod-rna", "fedkt", "random-forest"),
]
SENDS = {
    "labels": {"consensus": "majority"},
    "default": {},
    "probabilities": {"send": "probabilities"},
}
UNEVEN = (6000, tuple(range(11, 21)))  # rows and seeds of --uneven
NETS: dict[str, dict[str, Any]] = {
    "digits": {"dataset": "digits", "num-public": 450, "num-test": 450},
    "fashion-mnist": {"dataset": "fashion-mnist", "num-private": 2500, "num-public": 1000, "num-test": 1000},
}
NET_SEEDS = (201, 202, 203)
FIGURES = ("accuracy", "roc_auc", "log_loss")


def table_of(name: str, data_root: Path, rows: int = ROWS) -> pd.DataFrame:
    """Return a sample of a table's rows with their labels."""
    source = read_published(name, data_root)
    columns = source.table if isinstance(source.table, pd.DataFrame) else pd.DataFrame(np.asarray(source.table))
    columns.columns = [str(column) for column in columns.columns]
    labelled = columns.assign(label=np.asarray(source.classes)[source.y])
    return labelled.sample(min(rows, len(labelled)), random_state=0)


def federation(table: pd.DataFrame, *, seed: int, deal: str, **settings: Any) -> dict[str, Any]:
    """Return the figures of one simulation, in this process; means over parties."""
    dealt = {"partitioner": "iid"} if deal == "iid" else {"partitioner": "dirichlet", "dirichlet-alpha": float(deal)}
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        table.to_csv(path, index=False)
        rows = {"dataset": "table", "table": str(path), "label": "label", "centralised": True}
        record = trees.run({**rows, **dealt, **settings}, PARTIES, seed).as_dict()
    common = [party["federated"]["common"] for party in record["parties"]]
    home = [party for party in record["parties"] if "own" in party["federated"]]
    known = [name for name in FIGURES if all(one[name] is not None for one in common)]
    found = {name: statistics.fmean(one[name] for one in common) for name in known}
    found |= {f"server {name}": value for name, value in record["server"].get("common", {}).items() if name in FIGURES}
    pooled = record.get("centralised", {}).get("common", {})
    found |= {f"pooled {name}": value for name, value in pooled.items() if name in FIGURES}
    return found | {
        "home": statistics.fmean(party["federated"]["own"]["accuracy"] for party in home),
        "home alone": statistics.fmean(party["solo"]["own"]["accuracy"] for party in home),
        "lose": sum(p["federated"]["own"]["accuracy"] < p["solo"]["own"]["accuracy"] for p in home),
        "parties": len(home),
        "bytes up": sum(one["bytes_up"] for one in record["rounds"]) / len(record["parties"]),
        "rule": record["consensus_rule"],
        "seconds": round(time.perf_counter() - began, 1),
    }


def net_figures(name: str, algorithm: str, deal: str, send: str, *, seed: int, root: str) -> dict[str, Any]:
    """Return the figures of one simulation with nets."""
    dealt = {"partitioner": "iid"} if deal == "iid" else {"partitioner": "dirichlet", "dirichlet-alpha": float(deal)}
    rounds = {"num-rounds": 3, "steps-per-round": 100} if algorithm == "fedct" else {}
    of_data = {**NETS[name], "data-root": root, **dealt}
    began = time.process_time()
    settings = {**of_data, "algorithm": algorithm, "model": "mlp", **rounds, **SENDS[send]}
    found = trees.figures(trees.run(settings, PARTIES, seed))
    alone, home = (statistics.fmean(pair[i] for pair in found["home"].values()) for i in (0, 1))
    return {
        **{key: value for key, value in found["with common"].items() if key in FIGURES},
        **{f"server {key}": value for key, value in found.get("server", {}).items() if key in FIGURES},
        "home": home,
        "home alone": alone,
        "bytes up": found["bytes up"],
        "rule": found["rule"],
        "cpu seconds": round(time.process_time() - began, 1),
    }


def measure_nets(options: argparse.Namespace) -> None:
    """Run every federation of nets that the file lacks."""
    kept = json.loads(options.out.read_text(encoding="utf-8")) if options.out.is_file() else {}
    kept |= {"command": "python benchmarks/soft_targets.py --nets", "cores": os.cpu_count()}
    found = kept.setdefault("found", {})
    for name, seed, deal, algorithm in itertools.product(NETS, NET_SEEDS, DEALS, ("fedkt", "fedct")):
        key = f"{name}, {algorithm}, mlp, {deal}"
        for send in SENDS:
            if str(seed) in found.get(key, {}).get(send, {}):
                continue
            made = net_figures(name, algorithm, deal, send, seed=seed, root=str(options.data_root.absolute()))
            found.setdefault(key, {}).setdefault(send, {})[str(seed)] = made
            print(key, send, seed, made, flush=True)
            options.out.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Run every federation that the file lacks, and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--part", default="0/1", help="which of so many parts of the federations, such as 1/2")
    parser.add_argument(
        "--uneven", action="store_true", help="Adult at Dirichlet .1 alone, XGBoost's defaults, ten seeds"
    )
    parser.add_argument("--nets", action="store_true", help="nets on digits and Fashion-MNIST")
    options = parser.parse_args()
    if options.nets:
        measure_nets(options)
        return
    part, parts = map(int, options.part.split("/"))
    kept = json.loads(options.out.read_text(encoding="utf-8")) if options.out.is_file() else {}
    words = ["python", "benchmarks/soft_targets.py", *(["--uneven"] if options.uneven else [])]
    kept |= {"command": shlex.join(words), "cores": os.cpu_count()}
    found = kept.setdefault("found", {})
    rows, seeds = UNEVEN if options.uneven else (ROWS, SEEDS)
    tables = {name: table_of(name, options.data_root, rows) for name, _, _ in CASES}
    deals, firsts, others = (DEALS[1:], CASES[:3:2], []) if options.uneven else (DEALS, CASES[:3], CASES[3:])
    cases = [one for some in (firsts, others) for one in itertools.product(seeds, deals, some)]  # nets last
    for seed, deal, (name, algorithm, model) in itertools.islice(cases, part, None, parts):
        key = f"{name}, {algorithm}, {model}, {deal}"
        for send, settings in SENDS.items():
            if options.uneven and send == "labels":
                continue
            if str(seed) in found.get(key, {}).get(send, {}):
                continue
            of_model = {"model": model if options.uneven else f"{model}{MODELS[model]}"}
            told = {"num-public": rows // 4, "num-test": rows // 4, "algorithm": algorithm}
            made = federation(tables[name], seed=seed, deal=deal, **of_model, **told, **settings)
            if "roc_auc" not in made:  # a party's model of labels knows one class
                continue
            found.setdefault(key, {}).setdefault(send, {})[str(seed)] = made
            print(key, send, seed, made, flush=True)
            options.out.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

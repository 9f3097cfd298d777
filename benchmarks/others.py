"""Public tables of other people with default settings: does anybody lose by joining.

    python benchmarks/others.py FOLDER --out benchmarks/results/others.json

FOLDER holds the tables of `TABLES` as CSV files with a header; most are in the GitHub repositories
aiplanethub/Datasets, MainakRepositor/Datasets and jbrownlee/Datasets. Those that are absent are left out; of more than
6,000 rows so many are drawn. Each run is `fedkd simulate table=... --parties N` with its defaults, in this process.
Printed and kept for each table, number of parties and seed: the share of the commonest class, and accuracy and balanced
accuracy alone, with the federation (means of parties' models on common test rows), of the server's model, and of a
model on pooled rows; on parties' own test rows alone and with it; the parties that lose there clearly; and the balanced
accuracy with the federation where models are asked for even class shares, as by ``fedkd predict --class-shares``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shlex
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import trees

from fedkd_flwr.clients.party import Party
from fedkd_flwr.errors import DataError
from fedkd_flwr.metrics import Metrics
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.models.populations import Answering
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.report import results
from fedkd_flwr.report.recommendation import changes

TABLES = {  # file without .csv: label column, and what the table is
    "attrition": ("Attrition", "IBM HR attrition"),
    "bank-churn": ("Exited", "Bank customers' churn"),
    "bank-full": ("y", "UCI bank marketing"),
    "body": ("class", "Body performance"),
    "campaign": ("Response", "Marketing campaign"),
    "car": ("class", "UCI car evaluation"),
    "framingham": ("TenYearCHD", "Framingham heart study"),
    "german": ("risk", "UCI German credit"),
    "heart-failure": ("DEATH_EVENT", "UCI heart failure"),
    "hepatitis": ("Category", "UCI HCV data"),
    "hr": ("left", "HR analytics"),
    "kidney": ("classification", "UCI chronic kidney disease"),
    "liver": ("liver_disease", "UCI Indian liver patients"),
    "loans": ("Loan_Status", "Loan eligibility"),
    "mammography": ("class", "Mammography, OpenML 310"),
    "oil-spill": ("spill", "Oil spill, Kubat 1998"),
    "patient": ("SOURCE", "Patient treatment (EHR)"),
    "phoneme": ("class", "Phoneme, OpenML 1489"),
    "pima": ("diabetes", "Pima diabetes"),
    "promotion": ("is_promoted", "Employee promotion"),
    "shoppers": ("Revenue", "UCI online shoppers"),
    "startup": ("status", "Startup success"),
    "stroke": ("stroke", "Stroke prediction"),
    "telco": ("Churn", "Telco customer churn"),
    "travel": ("Claim", "Travel insurance"),
    "water": ("Potability", "Water potability"),
    "wine-red": ("quality", "UCI red wine quality"),
}
MOST_ROWS = 6000
KINDS = {"alone": "solo-common", "with": "federated-common", "server": "server-common"}
KINDS |= {"pooled": "centralised-common", "home alone": "solo-own", "home with": "federated-own"}


def figures(record: RunRecord) -> dict[str, Any]:
    """Return what is kept of a run."""
    kept: dict[str, Any] = {"commonest": results.baseline(record, "common")}
    for figure, words in (("accuracy", ""), ("balanced_accuracy", ", balanced")):
        found = record.figures_by_model(figure)
        kept |= {f"{kind}{words}": found[key] for kind, key in KINDS.items() if key in found}
    differences = [one for _, one in changes(record)]
    lost = [one for one in differences if one.value < 0 and one.clear(len(differences))]
    return {**kept, "lose clearly": len(lost), "parties": len(record.parties), "rule": record.consensus_rule}


def run(rows: pd.DataFrame, label: str, seed: int, *, parties: int, algorithm: str) -> dict[str, Any]:
    """Run one federation with the command's defaults, in this process; return its figures."""
    even: list[float] = []

    def noted(self: Party, model: Classifier) -> dict[str, Metrics]:
        found = measure(self, model)
        if "common" in model.shares and "common" in self.tests:
            X, y, *_ = self.tests["common"]
            alike = np.full(self.public.num_classes, 1 / self.public.num_classes)
            even.append(Answering(model, alike).metrics(X, y).balanced_accuracy)
        return found

    measure = Party.metrics
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(Party, "metrics", noted):
        path = Path(folder) / "table.csv"
        rows.to_csv(path, index=False)
        settings = {"algorithm": algorithm, "dataset": "table", "table": str(path), "label": label}
        record = trees.run({**settings, "centralised": True}, parties, seed)
    return {**figures(record), **({"with, balanced, even shares": statistics.fmean(even)} if even else {})}


def write(options: argparse.Namespace, found: list[dict[str, Any]]) -> None:
    """Keep what was found, under the command that found it."""
    if options.out:
        words = [word for word in sys.argv[1:] if word != str(options.folder)]
        command = shlex.join(["python", "benchmarks/others.py", "FOLDER", *words])
        options.out.write_text(json.dumps({"command": command, "found": found}, indent=1) + "\n")


def main() -> None:
    """Parse the command line, run, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tables", nargs="+", default=list(TABLES))
    parser.add_argument("--parties", type=int, nargs="+", default=[3, 10])
    parser.add_argument("--seeds", type=int, nargs="+", default=[*range(701, 706)])
    parser.add_argument("--algorithm", default="fedct")
    parser.add_argument("--out", type=Path, help="JSON file for the results")
    options = parser.parse_args()
    found: list[dict[str, Any]] = []
    for name in [name for name in options.tables if (options.folder / f"{name}.csv").exists()]:
        label, origin = TABLES[name]
        table = pd.read_csv(options.folder / f"{name}.csv", dtype=str, keep_default_na=False)
        for parties in options.parties:
            made = []
            for seed in options.seeds:
                rows = table.sample(min(len(table), MOST_ROWS), random_state=seed)
                with contextlib.suppress(DataError):  # too few rows for so many parties
                    made.append({"seed": seed, **run(rows, label, seed, parties=parties, algorithm=options.algorithm)})
            if len(made) < len(options.seeds):
                continue
            found.append({"table": name, "origin": origin, "rows": len(table), "parties": parties, "runs": made})
            keys = [key for key, value in made[0].items() if isinstance(value, float)]
            means = {key: statistics.fmean(one[key] for one in made) for key in keys}
            lost = sum(one["lose clearly"] for one in made)
            line = " ".join(f"{key} {means[key]:.3f}" for key in ["commonest", *KINDS] if key in means)
            balanced = " ".join(f"{means.get(f'{key}, balanced', float('nan')):.3f}" for key in ("alone", "with"))
            worse = "BELOW " if means["with"] < means["commonest"] else ""
            print(f"{name} {parties}: {line} balanced {balanced} lose {lost} {worse}{made[0]['rule']}", flush=True)
            write(options, found)


if __name__ == "__main__":
    main()

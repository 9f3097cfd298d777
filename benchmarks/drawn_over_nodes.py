"""Draw public rows from three silos' noisy sums over real SuperNodes with TLS and keys, then run FedKT on these rows.

    python benchmarks/drawn_over_nodes.py --data-root /data --out benchmarks/results/drawn-over-nodes.json

4,000 rows of Adult are dealt by `fedkd dev net 3`. Silos allow probabilities, which are the default on drawn rows. What
is kept: who answered, the claims, what each silo's ledger was charged with, and the accuracy of
FedKT's model on 5,000 other rows beside the commonest class. After it the same silos answer noisy sums of two rounds,
whose model is measured beside FedKT's.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from fedkd_flwr.app.submit import status, submit
from fedkd_flwr.data.published import read_published
from fedkd_flwr.data.tables import read_table
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.silo.devnet import Devnet, devnet
from fedkd_flwr.silo.ledger import ledgers_in, read_ledger
from fedkd_flwr.stores.saved_model import load

ALLOWED = {"allow-algorithms": "noisy-sums,fedkt", "allow-vote-rules": "probabilities"}
SUMS = {"algorithm": "noisy-sums", "epsilon": 1.0, "num-rounds": 1, "paper.party-models": False}
TWO_ROUNDS = {"algorithm": "noisy-sums", "epsilon": 1.0}
VOTES = {"algorithm": "fedkt", "model": "random-forest(n_estimators=30)"}


def run(net: Devnet, folder: Path, settings: dict[str, Any]) -> tuple[RunRecord, dict[str, Any]]:
    """Run over the nodes; return the record, and what is kept of it."""
    own = {"num-parties": 3, "seed": 1, "output-dir": str(folder), "public-path": str(net.public)}
    run_id = submit({**own, **settings}, superlink=net.name).run_id
    while not status(run_id, net.name)[0].startswith("finished"):
        time.sleep(1.0)
    record = RunRecord.load(folder / "runs" / run_id / "record.json")
    claims = [{key: claim[key] for key in ("unit", "adversary", "epsilon", "delta")} for claim in record.claims]
    return record, {"status": record.status, "answered": [one.answered for one in record.rounds], "claims": claims}


def main() -> None:
    """Run the chain once and keep what it gave."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", required=True)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    source = read_published("adult", options.data_root)
    income = [source.classes[label] for label in source.y[:9000]]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        dealt = source.table.iloc[:4000].assign(income=income[:4000])
        dealt.to_csv(folder / "adult.csv", index=False)
        rows = read_table(folder / "adult.csv", label="income")
        with devnet(3, rows=rows, label="income", node_settings=ALLOWED, name="drawn", show=print) as net:
            record, sums = run(net, folder, SUMS)
            command = [sys.executable, "-m", "fedkd_flwr.cli", "server", "public", record.run_id, "--rows", "800"]
            subprocess.run([*command, "--output", folder / "public", "--output-dir", folder], check=True)
            for place in ("server", "silo-1", "silo-2", "silo-3"):
                for file in ("public.csv", "schema.toml"):
                    shutil.copy(folder / "public" / file, net.folder / place / file)
            record, votes = run(net, folder, VOTES)
            said = load(record.server_model).predict(source.table.iloc[4000:9000])
            record, model = run(net, folder, TWO_ROUNDS)
            by_sums = load(record.server_model).predict(source.table.iloc[4000:9000])
            books = [read_ledger(root) for i in (1, 2, 3) for root in ledgers_in(net.folder / f"silo-{i}" / "state")]
            charged = [[(one.algorithm, one.mechanism) for one in book.ledger.entries] for book in books]
    right, model["accuracy"] = (
        sum(a == b for a, b in zip(each, income[4000:], strict=True)) / 5000 for each in (said, by_sums)
    )
    commonest = max(income[4000:].count(name) for name in source.classes) / 5000
    found = {"noisy sums": sums, "FedKT": votes, "ledgers": charged, "accuracy": right, "commonest class": commonest}
    found |= {"noisy sums, two rounds": model}
    print(json.dumps(found, indent=1))
    if options.out:
        made = {"command": "python benchmarks/drawn_over_nodes.py --data-root /data --out ...", "found": found}
        options.out.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

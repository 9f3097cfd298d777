"""What privacy accounting takes: the accountant beside dp-accounting's own, and ledgers of up to 100,000 entries.

    python benchmarks/accounting.py --out benchmarks/results/accounting.json

*Accountant*: epsilon at delta 1e-5 of many releases, by this package and by dp-accounting's composition of privacy loss
distributions (PLD) with its default grid, both in this process and after one call each. Both are upper bounds, so the
smaller one is the better; below ours by more than a thousandth would mean that ours gives something away.

*Ledger*: a file with that many charges is opened and its chain checked, a request is checked against the budget, and
one charge more is written with its reply. The least that reading can take is Python's own JSON and SHA-256 on the same
bytes, which is measured beside it. *Rows*: hashes of a private table, and the charge that writes its table of rows.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shlex
import sys
import tempfile
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import dp_accounting as dp
import numpy as np
from dp_accounting.pld import PLDAccountant

from fedkd_flwr.privacy.cost.accountant import Accountant
from fedkd_flwr.privacy.cost.events import PureEvent
from fedkd_flwr.privacy.ledger.ledger import Budget
from fedkd_flwr.privacy.ledger.rows import array_rows
from fedkd_flwr.stores.ledger import LedgerStore
from fedkd_flwr.stores.party_state import StoredReply

DELTA = 1e-5
RELEASES: dict[str, list[tuple[Any, int]]] = {
    "100 x Laplace, scale 20": [(dp.LaplaceDpEvent(20.0), 100)],
    "10,000 x Laplace, scale 500": [(dp.LaplaceDpEvent(500.0), 10_000)],
    "100 x Gaussian, noise 20": [(dp.GaussianDpEvent(20.0), 100)],
    "five scales of Laplace, 200 each": [(dp.LaplaceDpEvent(scale), 200) for scale in (50.0, 60.0, 70.0, 80.0, 90.0)],
    "Laplace and Gaussian, 500 each": [(dp.LaplaceDpEvent(100.0), 500), (dp.GaussianDpEvent(100.0), 500)],
}
BUDGET = Budget(epsilon=1000.0, delta=DELTA)
WORDS: dict[str, Any] = {
    "algorithm": "fedct",
    "mechanism": "randomised response",
    "unit": "record",
    "adversary": "server",
    "neighbouring_relation": "replace one record",
    "events": [(PureEvent(1e-4), 1)],
    "budget": BUDGET,
}


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return what a call returns, and its seconds of processor time."""
    began = time.process_time()
    result = work()
    return result, time.process_time() - began


def accounted(releases: list[tuple[Any, int]]) -> dict[str, float]:
    """Return both epsilons and what they took; end with a message where ours gives something away, or is loose."""

    def ours() -> float:
        accountant = Accountant()
        for event, count in releases:
            accountant.compose(event, count)
        return accountant.epsilon(DELTA)

    def theirs() -> float:
        accountant = PLDAccountant()
        for event, count in releases:
            accountant.compose(event, count)
        return float(accountant.get_epsilon(DELTA))

    (epsilon, took), (other, other_took) = timed(ours), timed(theirs)
    if not 0.999 * other <= epsilon:
        sys.exit(f"ours says epsilon {epsilon}, dp-accounting's PLD {other}")
    return {"epsilon": epsilon, "PLD's epsilon": other, "ms": took * 1e3, "PLD, ms": other_took * 1e3}


def charged(store: LedgerStore, run_id: str, server_round: int) -> StoredReply:
    """Charge for one reply of 1,000 labels."""
    reply = StoredReply(arrays={"labels": np.zeros((1, 1000), dtype=np.int16)})
    return store.charge(run_id=run_id, server_round=server_round, reply=reply, **WORDS)


def ledger_of(entries: int) -> dict[str, float]:
    """Return what one more request takes beside so many charges; end with a message if one of them is lost."""
    with tempfile.TemporaryDirectory() as folder:
        store = LedgerStore(folder, party="a", data_digest="0" * 64)
        charged(store, "0", 1)
        first = store.load().entries[0]
        with store.held() as book:
            for k in range(entries - 1):
                book.add(dataclasses.replace(first, run_id=str(1 + k // 100), server_round=1 + k % 100), None, kept=3)
        size = store.path.stat().st_size
        said = json.dumps([said for _, said in book.rows]).encode()
        _, least = timed(lambda: (json.loads(said), sha256(said).digest()))
        store = LedgerStore(folder, party="a", data_digest="0" * 64)
        opened, opening = timed(store.load)
        _, asking = timed(lambda: store.ask(WORDS["events"], BUDGET, run_id="new", rounds=2))
        _, charging = timed(lambda: charged(store, "new", 1))
        before = store.path.read_bytes()
        charged(store, "new", 2)
        after = store.path.read_bytes()
        written = sum(before[at : at + 4096] != after[at : at + 4096] for at in range(0, len(after), 4096))
        again = LedgerStore(folder, party="a", data_digest="0" * 64).load()
        if len(opened.entries) != entries or len(again.entries) != entries + 2:
            sys.exit(f"{entries} entries: {len(again.entries)} after two charges")
    return {
        "MB": size / 1e6,
        "open, s": opening,
        "times JSON and SHA-256": opening / least,
        "ask, s": asking,
        "charge, s": charging,
        "charge writes, kB": written * 4.096,
    }


def rows_of(count: int, columns: int) -> dict[str, float]:
    """Return what the first charge for a table of so many rows takes, hashes and all."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(count, columns)), rng.integers(0, 2, count)
    with tempfile.TemporaryDirectory() as folder:

        def first_charge() -> None:
            rows = array_rows(X, y)
            charged(LedgerStore(folder, party="a", data_digest=rows.digest, rows=rows), "0", 1)

        _, took = timed(first_charge)
        size = sum(path.stat().st_size for path in Path(folder).rglob("*.sqlite3"))
    return {"s": took, "MB": size / 1e6}


def main() -> None:
    """Print the three tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, nargs="+", default=[1, 100, 1000, 10_000, 100_000])
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 1_000_000], help="rows of 20 columns")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    accounted(RELEASES["100 x Laplace, scale 20"])  # imports and caches of both
    found: dict[str, dict[str, dict[str, float]]] = {
        "accountant": {name: accounted(releases) for name, releases in RELEASES.items()},
        "ledger": {f"{number:,} entries": ledger_of(number) for number in options.entries},
        "rows": {f"{number:,} rows of 20 columns": rows_of(number, 20) for number in options.rows},
    }
    for what, lines in found.items():
        for name, figures in lines.items():
            print(f"{what:10} {name:34}", *(f"{key} {value:.4g}" for key, value in figures.items()), sep="  ")
    if options.out:
        options.out.write_text(json.dumps({"command": shlex.join(["python", *sys.argv]), **found}, indent=1) + "\n")


if __name__ == "__main__":
    main()

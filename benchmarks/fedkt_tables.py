"""Recompute FedKT's Tables 8 and 9: publishable epsilons beside the printed ones, which are data-dependent.

    python benchmarks/fedkt_tables.py    # a Markdown table of the 72 rows, and how many are at or below the print
    python benchmarks/fedkt_tables.py --data-root /data    # the same, with data-dependent epsilons of our votes

There are three data-independent compositions, at the paper's gamma and number of queries, with delta = 1e-5:

- *pure*: each query is only known to be (2 gamma, 0)-DP;
- *counts*: each query is two Laplace mechanisms of scale 1/gamma and sensitivity 1 (s = 1 at L1; one vote at L2). It
  covers the noisy counts themselves, and is what the package claims where they are released;
- *labels*: each query is the winner of two classes (both data sets have two). This is what the package claims.

*Reached* is a lower bound on what the labels of these queries cost: the exact epsilon, by the binomial law, if all
queries have the votes that are worst for this table's row. No claim can be below it.

With ``--data-root`` the 50 parties of Table 8 vote (s = 1, t = 5, one seed), and the data-dependent bound of their
votes on the queried rows is printed. In a real run this number may not be published; here the data are public.

``fedkt_tables.csv`` holds the printed rows. Queries are given there in percent of public + test rows (8,140 for Adult,
18,078 for cod-rna) and rounded down: 0.1 / 0.3 / 0.5 / 1 % are 8 / 24 / 40 / 81 of Adult;
0.1 / 0.2 / 0.5 / 1 / 1.5 / 2 % are 18 / 36 / 90 / 180 / 271 / 361 of cod-rna. Printed epsilons are medians of 3 runs.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import optimize, stats

from fedkd_flwr.privacy.cost.accountant import Accountant
from fedkd_flwr.privacy.cost.events import PureEvent
from fedkd_flwr.privacy.cost.pate import data_dependent_epsilon
from fedkd_flwr.privacy.noise.votes import LaplaceMax

ROWS = {"Adult": 8_140, "cod-rna": 18_078}  # public + test
DELTA = 1e-5
PRINTED = Path(__file__).with_suffix(".csv")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One printed row and its publishable epsilons."""

    table: int
    dataset: str
    partitioning: str
    level: str
    gamma: float
    percent: str
    queries: int
    printed: float
    accuracy: float
    pure: float
    counts: float
    labels: float
    reached: float


@cache
def _publishable(gamma: float, queries: int) -> dict[str, float]:
    found = {"pure": Accountant().compose(PureEvent(2 * gamma), queries).epsilon(DELTA)}
    for name, winner in (("counts", False), ("labels", True)):
        mechanism = LaplaceMax(gamma=gamma, winner_of_two=winner)
        found[name] = Accountant().compose(mechanism.dp_event(), queries).epsilon(DELTA)
    return found | {"reached": _reached(gamma, queries)}


def _reached(gamma: float, queries: int) -> float:
    """Return the exact epsilon of so many labels with equal votes, their difference (a real number) the worst."""

    def odds(scales: float) -> float:  # that class 1 wins, so many scales behind
        tail: float = (2 + abs(scales)) * np.exp(-abs(scales)) / 4
        return tail if scales >= 0 else 1 - tail

    def epsilon(place: float) -> float:
        p, q = odds(place - gamma), odds(place + gamma)
        ones = np.arange(queries + 1)
        loss = ones * np.log(p / q) + (queries - ones) * np.log((1 - p) / (1 - q))
        mass = stats.binom.pmf(ones, queries, p)

        def excess(value: float) -> float:
            return float(mass @ np.maximum(-np.expm1(value - loss), 0.0)) - DELTA

        return float(optimize.brentq(excess, 0.0, 2 * gamma * queries)) if excess(0.0) > 0 else 0.0

    best = max(np.linspace(-1, 1, 41), key=epsilon)
    return max(epsilon(place) for place in best + np.linspace(-0.05, 0.05, 11))


def rows() -> Iterator[Row]:
    """Compute and yield the 72 rows."""
    with PRINTED.open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            gamma = float(line["gamma"])
            queries = int(
                Fraction(line["queries_percent"]) * ROWS[line["dataset"]] / 100
            )  # computed exactly, then rounded down
            yield Row(
                table=int(line["table"]),
                dataset=line["dataset"],
                partitioning=line["partitioning"],
                level=line["level"],
                gamma=gamma,
                percent=line["queries_percent"],
                queries=queries,
                printed=float(line["epsilon"]),
                accuracy=float(line["accuracy_percent"]),
                **_publishable(gamma, queries),
            )


@cache
def _votes(dataset: str, partitioning: str, data_root: str, seed: int = 1) -> np.ndarray[Any, Any]:
    """Return the votes of Table 8's 50 parties (s = 1), of shape (public rows, 2), with the rows in random order."""
    from fedkd_flwr.algorithms.fedkt import FedKTConfig
    from fedkd_flwr.app.assembly import make_client
    from fedkd_flwr.clients import Instruction
    from fedkd_flwr.labels import VoteCounter
    from fedkd_flwr.seeds import derive_seed
    from fedkd_flwr.settings.config import parse_node_config, parse_run_config

    forest = {"model": "random-forest(n_estimators=100, max_depth=6)"}
    boosted = {"model": "xgboost(n_estimators=50, max_depth=6, learning_rate=0.05)"}
    config = parse_run_config(
        {
            "algorithm": "fedkt",
            "dataset": "a9a" if dataset == "Adult" else "cod-rna",
            "data-root": data_root,
            "seed": seed,
            "partitioner": "iid" if partitioning == "homogeneous" else "dirichlet",
            "party-test-fraction": 0.0,
            "teacher-model": "decision-tree(max_depth=6)",
            **(forest if dataset == "Adult" else boosted),
        }
    )
    asked = FedKTConfig(seed=seed, students_per_party=1, teachers_per_student=5)
    counter = None
    for i in range(50):
        client = make_client(config, parse_node_config({"partition-id": i, "num-partitions": 50}), "tables")
        public = client.party.public
        counter = counter or VoteCounter(num_public=public.num_rows, num_classes=2)
        instruction = Instruction(
            server_round=1, labels=None, arrays={}, config=asked, saved=None, party_seed=derive_seed(seed, str(i))
        )
        counter.add(client.learn(instruction).values["labels"][0])
    if counter is None:
        raise RuntimeError("no party voted")
    return np.random.default_rng(seed).permutation(counter.votes)


def _cents(value: float, rounding: str) -> str:
    """Return a bound with two decimals that is one still: an upper one rounded up, a lower one down."""
    return str(Decimal(f"{value:.9f}").quantize(Decimal("0.01"), rounding))


def data_dependent(row: Row, data_root: str) -> str:
    """Return the data-dependent epsilon of our votes as text, or a dash for rows of Table 9."""
    if row.table != 8:
        return "-"
    counts = _votes(row.dataset, row.partitioning, data_root)[: row.queries]
    found = data_dependent_epsilon(LaplaceMax(gamma=row.gamma), counts, DELTA)
    return "-" if found is None else _cents(found, ROUND_CEILING)


def main(argv: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data-root", default="", help="folder of the data sets: also vote, for data-dependent epsilons"
    )
    data_root = parser.parse_args(argv).data_root
    extra = ("data-dependent (ours) | ", "---|") if data_root else ("", "")
    print(
        "| table | data | parties | gamma | queries | printed (private) | pure | counts | labels | reached | "
        f"{extra[0]}printed accuracy |"
    )
    print(f"|---|---|---|---|---|---|---|---|---|---|---|{extra[1]}")
    computed = list(rows())
    for row in computed:
        pure, counts, labels = (
            f"**{_cents(value, ROUND_CEILING)}**" if value <= row.printed else _cents(value, ROUND_CEILING)
            for value in (row.pure, row.counts, row.labels)
        )
        ours = f"{data_dependent(row, data_root)} | " if data_root else ""
        print(
            f"| {row.table} ({row.level}) | {row.dataset} | {row.partitioning} | {row.gamma:g} "
            f"| {row.percent} % = {row.queries} | {row.printed:g} | {pure} | {counts} | {labels} "
            f"| {_cents(row.reached, ROUND_FLOOR)} "
            f"| {ours}{row.accuracy:g} % |"
        )
    print()
    for name in ("pure", "counts", "labels"):
        below = [sum(getattr(row, name) <= row.printed for row in computed if row.table == table) for table in (8, 9)]
        print(
            f"{name}: at or below the print in {sum(below)} of 72 rows ({below[0]} of Table 8, {below[1]} of Table 9)"
        )


if __name__ == "__main__":
    main(sys.argv[1:])

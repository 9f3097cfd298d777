"""Public rows drawn from noisy sums beside real ones, and noisy sums as a model beside FedKT L2.

    python benchmarks/noisy_sums.py --data-root /data --data adult --seeds 601 602 603 604 605 --out result.json

20 parties, Dirichlet 0.5. Numbers of Adult have round edges that anybody could name; other numeric columns have twelve
equal bins between their smallest and largest value, rounded. Those ends, and categories, are those of all rows: people
would take them from a code book. What a file already holds of a seed is passed over; of ``runs``, of each run.

- ``model``: the accuracy of noisy sums on test rows, noise at each party: of the sums alone, and with public rows, each
  of one round and of two, at the same epsilon.
- ``l2``: the accuracy of FedKT L2, which protects the same unit against the same adversary, by `fedkd_flwr.simulate` on
  the same rows: 25 decision trees a party and forests, as its Table 9 has them, with 100 and with 1,000 queries.
- ``rows``: each party's model labels the public rows, votes are counted as the package counts them, and a model of the
  same kind learns them (``server``: PATE, that is FedKT with one teacher and no student); then each party's model
  learns them beside its own rows (``parties``: one round of FedCT; the mean over the parties). Public rows are the data
  set's own, or as many drawn ones. As in the package models answer test rows for the federation's class shares: those
  of the consensus, for drawn rows those of the release. Computed without Flower.

- ``runs``: whole federations by `fedkd_flwr.simulate`, FedKT and FedCT with default settings: public rows are a part of
  all rows, or as many drawn ones in their place (``draw_public_epsilon``). Accuracy and balanced accuracy on test rows
  of the server's model (FedKT) and of the parties' (FedCT). On drawn rows, with the first of the models, by majority
  too, and FedKT by density ratios.

- ``tree``: as ``rows``, drawn so that each column follows another one and the class. Which one it follows is the tree
  that Chow and Liu's algorithm finds on the private rows *without* noise, which no release may use: what a tree chosen
  privately, or by people, can reach at most. The counts of pairs have the sensitivity of the counts of columns.

- ``cost``: what each round of noisy sums sends and takes, with a made table of 50 columns of 20 values and two classes,
  five parties of 2,000 rows: bytes a party, and seconds of the round, by `fedkd_flwr.simulate`. It needs no data.

Seeds chose nothing. The accuracy of the commonest class stands beside each figure.
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import mutual_info_score

import fedkd_flwr as fk
from fedkd_flwr.algorithms.column_weights import asked, products, weighed
from fedkd_flwr.algorithms.exchange import tally
from fedkd_flwr.algorithms.noisy_sums import NoisySumsConfig, aggregate, draw, shares_of_sums
from fedkd_flwr.algorithms.one_shot_vote import OneShotVoteConfig
from fedkd_flwr.data.bins import Bins, bin_rows
from fedkd_flwr.data.columns import column_texts, sorted_texts
from fedkd_flwr.data.partitioning import partition
from fedkd_flwr.data.public import PublicSet, make_public_set
from fedkd_flwr.data.published import read_published
from fedkd_flwr.data.schema import Column, Schema
from fedkd_flwr.data.shift import find_shift
from fedkd_flwr.labels import majority
from fedkd_flwr.labels.priors import class_shares
from fedkd_flwr.models.populations import Answering
from fedkd_flwr.models.zoo import make_model

PARTIES, PUBLIC = 20, 2000
WHAT = ("model", "rows", "l2", "tree", "runs", "cost")
PRIVATE = {"adult": 24_000, "cod-rna": 24_000, "mushroom": 4000, "wine-type": 3000}
# round numbers, from what anybody knows of people: no row was looked at
EDGES = {
    "age": [17, 22, 26, 30, 35, 40, 45, 50, 55, 60, 70, 90],
    "fnlwgt": [0, 50_000, 100_000, 150_000, 200_000, 300_000, 500_000, 1_500_000],
    "education-num": list(range(1, 17)),
    "capital-gain": [0, 1, 2000, 5000, 7500, 10_000, 20_000, 99_999],
    "capital-loss": [0, 1, 1500, 2000, 2500, 4500],
    "hours-per-week": [1, 20, 30, 38, 42, 50, 60, 99],
}
MODELS = {
    "random-forest": {"n_estimators": 20, "min_samples_leaf": 2},
    "xgboost": {"n_estimators": 20},
}


def schema_of(table: pd.DataFrame, classes: tuple[str, ...], label: str) -> Schema:
    """Return a schema as it is known without a row."""
    columns = []
    for key in table:
        values = table[key]
        if not pd.api.types.is_numeric_dtype(values):
            columns.append(Column(name=key, kind="categorical", categories=sorted_texts(column_texts(values))))
            continue
        ends = float(np.floor(values.min())), float(np.ceil(values.max()))
        columns.append(Column(name=key, kind="numeric", bins=tuple(EDGES.get(key) or np.linspace(*ends, 13).tolist())))
    return Schema(columns=tuple(columns), classes=classes, label=label)


#: FedKT L2 as simulations/fedkt-adult-l2-heterogeneous.toml has it
L2 = {
    "algorithm": "fedkt",
    "level": "L2",
    "consensus": "majority",
    "model": "random-forest(n_estimators=100, max_depth=6)",
    "teacher_model": "decision-tree(max_depth=6)",
    "student_model": "random-forest(n_estimators=50, max_depth=6, min_samples_leaf=25, max_features=1.0)",
    "final_model": "random-forest(n_estimators=100, max_depth=6)",
    "students_per_party": 1,
    "teachers_per_student": 25,
    "noise": "laplace",
    "delta": 1e-5,
    "party_test_fraction": 0.0,
    "centralised": False,
    "save_party_models": False,
    "progress": False,
}


class Federation:
    """One data set, dealt to parties by one seed."""

    def __init__(self, name: str, data_root: str, seed: int) -> None:
        source = read_published(name, data_root)
        table = source.table if isinstance(source.table, pd.DataFrame) else pd.DataFrame(source.table)
        table = table.set_axis([key if isinstance(key, str) else f"f{key + 1}" for key in table], axis=1)
        self.schema, self.seed = schema_of(table, source.classes, source.label), seed
        order = np.random.default_rng(seed).permutation(len(table))
        private, public = order[: PRIVATE[name]], order[PRIVATE[name] : PRIVATE[name] + PUBLIC]
        test = order[PRIVATE[name] + PUBLIC :][:6000]
        self.private, self.own, self.test = (table.iloc[rows] for rows in (private, public, test))
        self.y, self.y_test = source.y[private], source.y[test]
        self.parts = partition(self.y, name="dirichlet", num_parties=PARTIES, seed=seed, alpha=0.5)
        self.majority = float(np.bincount(self.y_test).max() / len(test))

    def released(self, public: PublicSet, config: NoisySumsConfig) -> tuple[Bins, np.ndarray]:
        """Return the bins, and the parties' counts added up, each with noise of the operating system."""
        bins, X, k = Bins.of(public, most=config.bins), public.features(self.private), public.num_classes
        mechanism = config.mechanism(len(bins.sizes))
        each = [mechanism.privatize(bins.counts(X[p], self.y[p], num_classes=k)) for p in self.parts]
        return bins, np.sum(each, axis=0)

    def model(self, epsilon: float) -> dict[str, float]:
        """Return how good noisy sums are, of one round and of two: of the sums alone, and with real public rows."""
        found = {}
        kinds = {"sums alone": bin_rows(self.schema), "with public rows": self.own}
        for (kind, table), rounds in itertools.product(kinds.items(), (1, 2)):
            public = make_public_set(table, self.schema)
            size = {"num_public": 1, "num_classes": public.num_classes}
            config = NoisySumsConfig(epsilon=epsilon).resolved(**size, num_rounds=rounds)
            bins, sums = self.released(public, config)
            cells, own, test = (
                bins.cells(bins.codes(X)) for X in (public.X, public.features(self.private), public.features(self.test))
            )
            of_public = {"public_cells": cells, "noises": PARTIES}
            scores, prior, facts = aggregate(sums, config=config, sizes=bins.sizes, **of_public)
            if rounds == 2:
                vectors, rows = asked(scores, sums, bins.sizes), np.column_stack([own, len(sums) + self.y])
                mechanism = config.products(len(bins.sizes))
                added = np.sum([mechanism.privatize(products(vectors, rows[p])) for p in self.parts], axis=0)
                noise = mechanism.sigma * PARTIES**0.5
                scores, prior = weighed(scores, sums, bins.sizes, added, noise)
            labels = (scores[test].sum(axis=1) + prior).argmax(axis=1)
            words = kind if rounds == 1 else f"{kind}, two rounds"
            found |= {words: self._accuracy(labels), f"{words}, balanced": self._balanced(labels)}
            found[f"{kind}, difference"] = facts.difference
        return found

    def l2(self, epsilon: float, queries: int) -> dict[str, float]:
        """Return the accuracy of FedKT L2's final model on the same rows, and the epsilon of its claim for a record."""
        rows = {f"party-{i:02}": (self.private.iloc[p], self.y[p]) for i, p in enumerate(self.parts)}
        given = {"epsilon": epsilon, "num_queries": queries, "seed": self.seed, **L2}
        with tempfile.TemporaryDirectory() as folder:
            test = (self.test, self.y_test)
            done = fk.simulate(rows, label="label", public=self.own, test=test, output_dir=folder, **given)
            (claim,) = [one for one in done.record.claims if one["unit"] == "record"]
            labels = done.predict(self.test).to_numpy()
        return {"final model": self._accuracy(labels), "claimed": claim["epsilon"]}

    def whole_run(self, algorithm: str, kind: str, epsilon: float, consensus: str) -> dict[str, float]:
        """Return how good a federation's models are; ``epsilon`` 0: with real public rows."""
        rows = {f"party-{i:02}": (self.private.iloc[p], self.y[p]) for i, p in enumerate(self.parts)}
        model = f"{kind}({', '.join(f'{name}={value}' for name, value in MODELS[kind].items())})"
        given = {"party_test_fraction": 0.0, "centralised": False, "save_party_models": False, "progress": False}
        with tempfile.TemporaryDirectory() as folder:
            done = fk.simulate(
                rows, label="label", test=(self.test, self.y_test), output_dir=folder, num_public=PUBLIC,
                algorithm=algorithm, model=model, seed=self.seed, draw_public_epsilon=epsilon or "none",
                consensus=consensus, **given,
            )  # fmt: skip
            models = done.models[done.models["rows"] == "common"].groupby("whose")
            means = models[["accuracy", "balanced_accuracy"]].mean()
        whose = "server" if algorithm == "fedkt" else "federated"
        return {whose: means.loc[whose, "accuracy"], f"{whose}, balanced": means.loc[whose, "balanced_accuracy"]}

    def drawn(self, epsilon: float) -> tuple[pd.DataFrame, np.ndarray]:
        """Return public rows drawn from one release, and the class shares that it tells."""
        public = make_public_set(bin_rows(self.schema), self.schema)
        config = NoisySumsConfig(epsilon=epsilon).resolved(num_public=1, num_classes=2, num_rounds=1)
        (bins, sums), rng = self.released(public, config), np.random.default_rng(self.seed)
        table = bins.rows(draw(sums, bins.sizes, PUBLIC, rng=rng)[0], rng=rng)
        return table, class_shares(PUBLIC * shares_of_sums(sums, bins.sizes))

    def drawn_from_tree(self, epsilon: float) -> pd.DataFrame:
        """Return public rows drawn from one release of pairs of columns."""
        public = make_public_set(bin_rows(self.schema), self.schema)
        bins = Bins.of(public, most=10)
        codes, sizes = bins.codes(public.features(self.private)), bins.sizes
        config = NoisySumsConfig(epsilon=epsilon).resolved(num_public=1, num_classes=2, num_rounds=1)
        mechanism, rng = config.mechanism(len(sizes)), np.random.default_rng(self.seed)
        classes, drawn = None, np.zeros((PUBLIC, len(sizes)), dtype=np.int64)
        for child, parent in chow_liu(codes, self.y, sizes):
            of_parent = codes[:, parent] if parent is not None else np.zeros(len(codes), dtype=np.int64)
            width = sizes[parent] if parent is not None else 1
            cell = (of_parent * sizes[child] + codes[:, child]) * 2 + self.y
            cells = width * sizes[child]
            true = [np.bincount(cell[p], minlength=2 * cells).reshape(cells, 2) for p in self.parts]
            sums = np.maximum(sum(map(mechanism.privatize, true)), 0).reshape(width, sizes[child], 2) + 1e-3
            if classes is None:  # the first column: of the root
                share = sums.sum(axis=(0, 1))
                classes = rng.choice(2, PUBLIC, p=share / share.sum())
            under = drawn[:, parent] if parent is not None else np.zeros(PUBLIC, dtype=np.int64)
            given = sums[under, :, classes]
            above = np.cumsum(given / given.sum(axis=1, keepdims=True), axis=1)[:, :-1]
            drawn[:, child] = (rng.random(PUBLIC)[:, None] >= above).sum(axis=1)
        return bins.rows(drawn, rng=rng)

    def votes(self, table: pd.DataFrame, kind: str, shares: np.ndarray | None = None) -> dict[str, float]:
        """Return how good models are that learnt the parties' votes on these public rows; ``shares``: of a release."""
        public = make_public_set(table, self.schema)
        X, X_test = public.features(self.private), public.features(self.test)
        size = {"num_classes": public.num_classes, "num_features": public.num_features}

        def fitted(X: np.ndarray, y: np.ndarray) -> Any:
            return make_model(kind, seed=self.seed, params=MODELS[kind], **size).fit(X, y)

        answers = [fitted(X[part], self.y[part]).predict(public.X)[None] for part in self.parts]
        votes, _ = tally(answers, config=OneShotVoteConfig(), num_classes=public.num_classes)
        labels = majority(votes, ties="random", rng=np.random.default_rng(self.seed))
        known = labels >= 0
        shares = class_shares(np.bincount(labels[known])) if shares is None else shares

        def answers_of(X: np.ndarray, y: np.ndarray) -> np.ndarray:
            model = fitted(X, y)
            model.shares = {"taught": class_shares(np.bincount(y, minlength=size["num_classes"]))}
            return Answering(model, shares).predict(X_test)

        server = answers_of(public.X[known], labels[known])
        each = [  # every fourth party's: the mean of five
            answers_of(np.vstack([X[p], public.X[known]]), np.append(self.y[p], labels[known])) for p in self.parts[::4]
        ]
        shift = find_shift(X, public.X, rng=np.random.default_rng(self.seed))
        return {
            "server": self._accuracy(server),
            "server, balanced": self._balanced(server),
            "parties": float(np.mean([self._accuracy(one) for one in each])),
            "parties, balanced": float(np.mean([self._balanced(one) for one in each])),
            "auc": shift.auc,
            "fit": shift.fit,
        }

    def _accuracy(self, labels: np.ndarray) -> float:
        return float((labels == self.y_test).mean())

    def _balanced(self, labels: np.ndarray) -> float:
        return float(np.mean([(labels[self.y_test == c] == c).mean() for c in np.unique(self.y_test)]))


def cost(seed: int) -> list[dict[str, float]]:
    """Return bytes up and down a party, and seconds, of both rounds on a made table."""
    rng, parties, count = np.random.default_rng(seed), 5, 2000
    rows, values = {}, tuple(f"value-{i:02}" for i in range(20))
    for i in range(parties):
        y = rng.integers(0, 2, count)
        table = {f"column-{j:02}": np.take(values, (rng.integers(0, 20, count) + y) % 20) for j in range(50)}
        rows[f"party-{i}"] = pd.DataFrame(table), np.take(("no", "yes"), y)
    with tempfile.TemporaryDirectory() as folder:
        given = {"party_test_fraction": 0.0, "centralised": False, "save_party_models": False, "progress": False}
        done = fk.simulate(rows, label="label", algorithm="noisy-sums", seed=seed, output_dir=folder, **given)
        return [
            {"bytes up": one.bytes_up / parties, "bytes down": one.bytes_down / parties, "seconds": one.seconds}
            for one in done.record.rounds
        ]


def chow_liu(codes: np.ndarray, y: np.ndarray, sizes: tuple[int, ...]) -> list[tuple[int, int | None]]:
    """Return each column after the one that it follows: the tree of the largest mutual information, given the class."""
    columns = range(len(sizes))
    told = {
        (i, j): sum(float((y == c).mean()) * mutual_info_score(codes[y == c, i], codes[y == c, j]) for c in (0, 1))
        for i, j in itertools.combinations(columns, 2)
    }
    order: list[tuple[int, int | None]] = [(0, None)]
    while len(order) < len(sizes):
        inside = {child for child, _ in order}
        pairs = {(a, b): told[min(a, b), max(a, b)] for a in columns for b in inside if a not in inside}
        order.append(max(pairs, key=lambda pair: pairs[pair]))
    return order


def lines(
    made: Federation, at: dict[str, Any], models: list[str], what: str, kept: list[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield a line for each run of one seed; of ``runs``, those that are not kept."""
    if what == "model":
        for epsilon in (1.0, 2.0, 4.0):
            yield {**at, "epsilon": epsilon, **made.model(epsilon)}
        return
    if what == "l2":
        for epsilon, queries in itertools.product((1.0, 2.0), (100, 1000)):
            yield {**at, "epsilon": epsilon, "queries": queries, **made.l2(epsilon, queries)}
        return
    if what == "runs":
        both = ("fedkt", "fedct")
        cases = list(itertools.product(models, both, (0.0, 0.5, 1.0), ("auto",)))
        cases += itertools.product(models[:1], both, (0.5, 1.0), ("majority",))
        for kind, algorithm, epsilon, rule in (*cases, (models[0], "fedkt", 0.5, "density-ratio")):
            case = {**at, "model": kind, "algorithm": algorithm, "drawn at": epsilon, "consensus": rule}
            if not any(case.items() <= one.items() for one in kept):
                yield {**case, **made.whole_run(algorithm, kind, epsilon, rule)}
        return
    if what == "tree":
        for epsilon in (0.5, 1.0, 2.0):
            star, shares = made.drawn(epsilon)
            for way, rows in (("tree", made.drawn_from_tree(epsilon)), ("star", star)):
                yield {**at, "model": models[0], "drawn at": epsilon, "way": way, **made.votes(rows, models[0], shares)}
        return
    for epsilon, table, shares in ((0.0, made.own, None), (0.5, *made.drawn(0.5)), (1.0, *made.drawn(1.0))):
        for kind in models:
            yield {**at, "model": kind, "drawn at": epsilon, **made.votes(table, kind, shares)}


def main() -> None:
    """Run all seeds, and keep each line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", required=True)
    parser.add_argument("--data", default="adult", choices=PRIVATE)
    parser.add_argument("--models", nargs="+", default=["random-forest"], choices=MODELS)
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--what", nargs="+", default=["model", "rows"], choices=WHAT)
    options = parser.parse_args()
    kept = json.loads(options.out.read_text()) if options.out.is_file() else {"runs": []}
    command = "python benchmarks/noisy_sums.py --data-root /data --data {} --models {} --what {} --seeds {} --out ..."
    given = options.data, " ".join(options.models), " ".join(options.what), " ".join(map(str, options.seeds))
    kept = {"command": command.format(*given)} | kept
    there = {(run["data"], run["seed"], run["what"]) for run in kept["runs"] if run["what"] != "runs"}
    began = time.process_time()
    for seed in options.seeds if "cost" in options.what else ():
        kept.setdefault("cost", {})[str(seed)] = cost(seed)
        options.out.write_text(json.dumps(kept, indent=1) + "\n")
    options.what = [what for what in options.what if what != "cost"]
    for seed in options.seeds if options.what else ():
        made = Federation(options.data, options.data_root, seed)
        for what in options.what:
            if (options.data, seed, what) in there:
                continue
            at = {"data": options.data, "seed": seed, "commonest class": round(made.majority, 4), "what": what}
            for line in lines(made, at, options.models, what, kept["runs"]):
                rounded = {key: round(value, 4) if isinstance(value, float) else value for key, value in line.items()}
                kept["runs"].append(rounded)
                print(json.dumps(rounded), f"{time.process_time() - began:.0f} s", flush=True)
                options.out.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()

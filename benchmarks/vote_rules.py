"""Compare rules of the vote on the same votes: FedKT on Adult, with the parties trained only once.

    python benchmarks/vote_rules.py uninformative --data-root /data --partition-path /oracles/partitions.npz --seeds 1 2
    python benchmarks/vote_rules.py noise --data-root /data --seeds 1 2 3

*uninformative* (level L0, the five published partitions) compares three ways to count parties that give every public
row the same label: in full, with half their votes, or not at all; and, as `default`, what a majority vote does unless
it is told otherwise, where trust has a say besides half votes. *noise* (level L1, 50 equal parties, s = 1, epsilon
3.36 at delta 1e-5) compares noisy winners with noisy counts, numbers of queries, and final models. The accuracy is
that of the server's final model on the test rows. Training a partition's parties takes about 10 s, and the rest a
second.
"""

from __future__ import annotations

import argparse
import itertools
import json
import logging
import shlex
import statistics
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.algorithms.exchange import tally
from fedkd_flwr.algorithms.fedkt import FedKTConfig
from fedkd_flwr.app.assembly import make_client
from fedkd_flwr.clients import Instruction
from fedkd_flwr.data.datasets import Pool
from fedkd_flwr.labels import ABSTAIN, VoteCounter, consistent_labels, majority
from fedkd_flwr.labels.voting import HALF, voter_weights
from fedkd_flwr.models.taught import teach
from fedkd_flwr.models.zoo import make_model
from fedkd_flwr.privacy.cost.calibration import calibrate_votes
from fedkd_flwr.privacy.noise.plan import NoisyVotes
from fedkd_flwr.seeds import derive_seed
from fedkd_flwr.settings.config import RunConfig, parse_node_config, parse_run_config
from fedkd_flwr.simulation.rows import simulated_pool

PARTIES = 50
PAPER = {"n_estimators": 100, "max_depth": 6}
FINALS: dict[str, tuple[str, dict[str, Any]]] = {
    "the paper's forest": ("random-forest", PAPER),
    "20 rows a leaf": ("random-forest", {**PAPER, "min_samples_leaf": 20}),
    "all columns, 25 rows a leaf": ("random-forest", {**PAPER, "min_samples_leaf": 25, "max_features": 1.0}),
    "all columns, 50 rows a leaf": ("random-forest", {**PAPER, "min_samples_leaf": 50, "max_features": 1.0}),
    "logistic regression, C = 0.01": ("logistic-regression", {"C": 0.01}),
}


def labels_of(config: RunConfig, students: int) -> tuple[list[NDArray[np.int16]], Pool]:
    """Train every party once; return its students' label arrays, of shape (students, public rows), and the data."""
    asked = FedKTConfig(seed=config.seed, students_per_party=students, teachers_per_student=5)
    labels = []
    for i in range(PARTIES):
        client = make_client(config, parse_node_config({"partition-id": i, "num-partitions": PARTIES}), "rules")
        seed = derive_seed(config.seed, client.party.name)
        visit = Instruction(server_round=1, labels=None, arrays={}, config=asked, saved=None, party_seed=seed)
        labels.append(client.learn(visit).values["labels"])
    return labels, simulated_pool(config)


def counted(labels: list[NDArray[np.int16]], rule: Any) -> NDArray[np.int32]:
    """Return the consistent votes, in half votes, of shape (public rows, 2)."""
    counter = VoteCounter(num_public=labels[0].shape[1], num_classes=2)
    for students, weight in zip(labels, voter_weights(labels, uninformative=rule), strict=True):
        if weight:
            counter.add(consistent_labels(students), weight=weight * len(students))
    return counter.votes


def accuracy(pool: Pool, final: tuple[str, dict[str, Any]], seed: int, *taught: Any) -> float:
    """Return the accuracy of a final model taught by (rows, labels, counts)."""
    name, params = final
    X = pool.public.X
    model = teach(
        lambda: make_model(name, num_classes=2, num_features=X.shape[1], seed=seed, params=params), X, *taught
    )
    return float((model.predict(pool.X_test) == pool.y_test).mean())


def uninformative(settings: dict[str, Any], seed: int) -> dict[str, float]:
    """Return the mean accuracy of each rule over the five published partitions."""
    found: dict[str, list[float]] = {"count": [], "half": [], "leave-out": [], "default": []}
    default = FedKTConfig(consensus="majority")
    for index in range(5):
        config = parse_run_config({**settings, "partitioner": f"file(index={index})", "seed": seed})
        labels, pool = labels_of(config, students=2)
        for rule, values in found.items():
            votes = counted(labels, rule) if rule != "default" else tally(labels, config=default, num_classes=2)[0]
            voted = majority(votes, ties="random", rng=np.random.default_rng(seed))
            rows = np.flatnonzero(voted != ABSTAIN)
            values.append(accuracy(pool, FINALS["the paper's forest"], seed, rows, voted[rows]))
    means = {rule: statistics.fmean(values) for rule, values in found.items()}
    return means | {f"{rule}, worst partition": min(values) for rule, values in found.items()}


def noise(settings: dict[str, Any], seed: int, *, epsilon: float = 3.36, repeats: int = 2) -> dict[str, float]:
    """Return the accuracy of each way to learn from noisy votes, as the mean over several draws of the noise."""
    labels, pool = labels_of(parse_run_config({**settings, "partitioner": "iid", "seed": seed}), students=1)
    votes = counted(labels, "leave-out") // HALF
    found = {}
    for queries, (name, final) in itertools.product((400, 1000, 4070), FINALS.items()):
        mechanism = calibrate_votes("gaussian", num_queries=queries, epsilon=epsilon, delta=1e-5, votes=1)
        rows = np.sort(np.random.default_rng(seed).permutation(len(votes))[:queries])
        for release in ("labels", "counts"):
            plan = NoisyVotes(
                mechanism=mechanism, num_queries=queries, release="labels" if release == "labels" else "counts"
            )
            answers = [plan.ask(votes[rows]) for _ in range(repeats)]
            values = [accuracy(pool, final, seed, rows, a.labels, a.counts) for a in answers]
            found[f"{queries} queries, {release}, {name}"] = statistics.fmean(values)
    return found


def main() -> None:
    """Parse the command line, train, and tabulate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("uninformative", "noise"))
    parser.add_argument("--data-root", required=True, help="folder of the data sets")
    parser.add_argument("--partition-path", default="", help="the published partitions, for uninformative")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--out", type=Path, help="JSON file for the results")
    options = parser.parse_args()
    logging.getLogger("flwr").setLevel(
        logging.ERROR
    )  # hide the warnings about parties with one class, which are expected here
    settings = {
        "algorithm": "fedkt",
        "dataset": "a9a",
        "data-root": str(Path(options.data_root).absolute()),
        "party-test-fraction": 0.0,
        "model": "random-forest(n_estimators=100, max_depth=6)",
        "teacher-model": "decision-tree(max_depth=6)",
    }
    if options.what == "uninformative" and options.partition_path:
        settings["paper.partition-path"] = str(Path(options.partition_path).absolute())
    elif options.what == "uninformative":
        parser.error("uninformative needs --partition-path")
    found = {}
    for seed in options.seeds:
        found[seed] = (uninformative if options.what == "uninformative" else noise)(settings, seed)
        print(f"seed {seed} trained and voted", file=sys.stderr, flush=True)
    for name in found[options.seeds[0]]:
        values = [found[seed][name] for seed in options.seeds]
        print(f"{name:55s} mean {statistics.fmean(values):.4f}  " + " ".join(f"{value:.4f}" for value in values))
    if options.out:
        command = shlex.join(["python", "benchmarks/vote_rules.py", *sys.argv[1:]])
        options.out.write_text(json.dumps({"command": command, "accuracy": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()

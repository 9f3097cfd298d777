"""Three of ten parties lie: every attack against every rule of the vote, with trust (the default) and without.

    python benchmarks/liars.py --data-root /data --seeds 401 402 403 --cache answers --out benchmarks/results/liars.json
    python benchmarks/liars.py --probabilities --data-root /data --out benchmarks/results/liars-probabilities.json

Ten parties are trained once for each data set, skew and seed, as FedKT's and FedCT's clients train them; then three of
them lie in what they would send, all in the same way:

- ``flip``: each class is said to be the next one;
- ``target``: every public row gets one class;
- ``all but one``: every row but one gets it;
- ``most``: all but a twentieth of the rows, which get random classes;
- ``random``: random classes;
- ``together``: the next class of what the three know together, all three the same;
- ``scattered``: what the three know together where it is one of the two classes that they see most, and all other rows
  at random over the other classes, all three the same (two classes: as *together*).

Beside the labels they lie with their density ratios: the class they say gets the largest ratio there is, and class
counts are multiplied by 1,000. *Right* is the share of public rows that the consensus labels right; a row
without a label counts as wrong. *Server* is the accuracy of a forest taught by the consensus, on test rows. *Seven* is
the same rule, without trust, on the seven honest parties alone: what a vote that knew the liars would reach. *Named*
are parties whose trust is below a quarter, as a run's record and page show. Under ``known-rows`` the server knows 200
public rows' labels, which choose as in a run between the rule on labels, or density ratios, the vote by known rows and
a forest taught by them alone, the *server-forest*. These rows are not measured, and *named* are parties that do not
count or are right less often than chance.

With two classes, *tell apart* is how many of the seven honest parties label them with a balanced accuracy of .6 or
more. Where that is three or fewer, the same labels could come from a federation whose classes are the other way round,
with these as its liars: no rule that sees labels alone is right in both.

With ``--probabilities`` ten parties send probabilities (``send=probabilities``, FedCT's first round), and none, one or
two of them lie: ``flip`` moves what it says of each class to the next, ``target`` is sure of one class everywhere, and
both claim a thousand times their rows. *Labels* are what the same answers give as labels, by FedCT's majority with
trust.
"""

from __future__ import annotations

import argparse
import json
import logging
import shlex
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier

from fedkd_flwr.algorithms import fedct, one_shot_vote
from fedkd_flwr.algorithms.exchange import tally
from fedkd_flwr.algorithms.fedct import FedCTConfig
from fedkd_flwr.algorithms.fedkt import FedKTConfig
from fedkd_flwr.app.assembly import make_client
from fedkd_flwr.clients.instruction import Instruction
from fedkd_flwr.labels import ABSTAIN, Ballot
from fedkd_flwr.labels.density_ratio import DensityRatio
from fedkd_flwr.labels.known import KnownRows, draw_known, judged_consensus
from fedkd_flwr.labels.probabilities import BITS, Probabilities
from fedkd_flwr.labels.ratios import RATIO_BITS
from fedkd_flwr.models.taught import labels_from_known
from fedkd_flwr.seeds import derive_seed
from fedkd_flwr.settings.config import RunConfig, parse_node_config, parse_run_config
from fedkd_flwr.simulation.rows import simulated_pool

PARTIES, LIARS = 10, 3
SIZES = {"digits": (900, 400, 497), "a9a": (3000, 1000, 3000)}
SKEWS: dict[str, dict[str, Any]] = {
    "iid": {"partitioner": "iid"},
    "0.5": {"partitioner": "dirichlet", "dirichlet-alpha": 0.5},
    "0.1": {"partitioner": "dirichlet(min_rows=5)", "dirichlet-alpha": 0.1},
    "one class": {"partitioner": "pathological(classes=1)"},
}
ATTACKS = ("flip", "target", "all but one", "most", "random", "together", "scattered")
RULES = (
    "fedkt majority",
    "fedct majority",
    "fedct qualified-majority",
    "fedct dawid-skene",
    "density-ratio",
    "fedkt known-rows",
    "fedct known-rows",
    "density-ratio known-rows",
    "server-forest",
)
KNOWN = 200
DOUBTED = 0.25
TELLS = 0.6  # balanced accuracy


class Answers(NamedTuple):
    """What ten honest parties say."""

    students: NDArray[np.int16]  # (parties, 2, public rows): FedKT's
    labels: NDArray[np.int16]  # (parties, public rows): FedCT's
    codes: NDArray[np.uint8]  # (parties, public rows, classes): density ratios
    counts: NDArray[np.int64]  # (parties, classes)

    def only(self, parties: NDArray[np.int64]) -> Answers:
        """Return the answers of these parties."""
        return Answers(*(array[parties] for array in self))


def run_config(algorithm: str, data: str, skew: str, seed: int, root: str) -> RunConfig:
    """Return the settings of a simulation."""
    private, public, test = SIZES[data]
    settings: dict[str, Any] = {
        "algorithm": algorithm, "dataset": data, "data-root": str(Path(root).absolute()), "num-private": private,
        "num-public": public, "num-test": test, "party-test-fraction": 0.0, "model": "random-forest(n_estimators=20)",
        "seed": seed, **SKEWS[skew],
    }  # fmt: skip
    return parse_run_config(settings)


def answers_of(data: str, skew: str, seed: int, root: str, cache: Path | None) -> Answers:
    """Train the parties, or read what an earlier call kept."""
    kept = cache and cache / f"{data}_{skew.replace(' ', '-')}_{seed}.npz"
    if kept and kept.exists():
        return Answers(**np.load(kept))
    found: dict[str, list[Any]] = {name: [] for name in Answers._fields}
    kt = FedKTConfig(seed=seed, students_per_party=2, teachers_per_student=5)
    for algorithm, asked in (("fedkt", kt), ("fedct", FedCTConfig(seed=seed))):
        config = run_config(algorithm, data, skew, seed, root)
        for i in range(PARTIES):
            client = make_client(config, parse_node_config({"partition-id": i, "num-partitions": PARTIES}), "liars")
            own = derive_seed(seed, client.party.name)
            rule = "density-ratio" if algorithm == "fedkt" else ""
            visit = Instruction(server_round=1, config=asked, rule=rule, party_seed=own)
            values = client.learn(visit).values
            if algorithm == "fedct":
                found["labels"].append(values["labels"][0])
            else:
                found["students"].append(values["labels"])
                found["codes"].append(values["ratios"])
                found["counts"].append(values["class-counts"])
    made = Answers(**{name: np.array(values) for name, values in found.items()})
    if kept:
        kept.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(kept, **made._asdict())
    return made


def lie(
    labels: NDArray[Any], attack: str, target: int, num_classes: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return what one liar says in the place of its labels, for every attack but ``together``."""
    if attack == "flip":
        return (labels.astype(np.int64) + 1) % num_classes
    if attack == "random":
        return rng.integers(num_classes, size=len(labels))
    odd = {"target": 0, "all but one": 1, "most": len(labels) // 20}[attack]
    rows = rng.choice(len(labels), odd, replace=False)
    said = np.full(len(labels), target, dtype=np.int64)
    said[rows] = (target + rng.integers(1, num_classes, size=odd)) % num_classes
    return said


def lied(answers: Answers, attack: str, liars: NDArray[np.int64], rng: np.random.Generator) -> Answers:
    """Return the answers where these parties lie."""
    made = Answers(*(array.copy() for array in answers))
    num_public, num_classes = made.codes.shape[1:]
    target = 1 if num_classes == 2 else int(rng.integers(num_classes))  # of two classes the rare one harms most
    largest = 2**RATIO_BITS - 1
    votes = np.eye(num_classes)[answers.labels[liars]].sum(axis=0)
    pooled = answers.codes[liars].astype(np.float64).sum(axis=0)
    # what the three know together, by labels and by ratios; the other breaks ties
    best, best_ratios = (votes + pooled / 1000).argmax(1), (pooled + votes / 1000).argmax(1)
    seen = np.argsort(np.bincount(best, minlength=num_classes))
    own = np.random.default_rng(num_public)  # so that the other attacks draw what they drew before this one
    dealt = seen[:-2][own.integers(num_classes - 2, size=num_public)] if num_classes > 2 else best
    for k in liars:
        said = made.codes[k].argmax(axis=1)
        for labels in (*made.students[k], made.labels[k], said):
            known = best_ratios if labels is said else best
            if attack == "scattered" and num_classes > 2:
                labels[:] = np.where(np.isin(known, seen[-2:]), known, dealt)
            elif attack in ("together", "scattered"):
                labels[:] = (known + 1) % num_classes
            else:
                labels[:] = lie(labels, attack, target, num_classes, rng)
        quiet = made.codes[k].max(axis=1) == 0 if attack == "flip" else np.zeros(num_public, dtype=bool)
        made.codes[k] = 0
        made.codes[k][np.arange(num_public), said] = np.where(quiet, 0, largest)
        claimed = np.bincount(said, minlength=num_classes)
        made.counts[k] = 1000 * np.ceil(made.counts[k].sum() * claimed / num_public).astype(np.int64)
    return made


def vote(
    rule: str, answers: Answers, robust: Any, seed: int, known: tuple[KnownRows, NDArray[np.int16]] | None = None
) -> tuple[NDArray[np.int16], NDArray[np.float64] | None]:
    """Return the consensus of a rule, and what each party counted; None where agreement could not tell."""
    num_classes, rng = answers.counts.shape[1], np.random.default_rng(seed)
    if known is not None and rule == "server-forest":
        return known[1], None
    if known is not None and rule.endswith("known-rows"):
        said: Any = answers.students if rule.startswith("fedkt") else answers.labels
        if rule.startswith("density-ratio"):
            named = [DensityRatio().also_named({"ratios": codes}) for codes in answers.codes]
            said = np.stack([answers.labels, named], axis=1)
        judge, forest = known
        without = "density-ratio" if rule.startswith("density") else rule.replace("known-rows", "majority")
        base = vote(without, answers, "auto", seed)[0]
        found = judged_consensus(base, said, judge, rule=without, own=forest, num_classes=num_classes, rng=rng)
        return found.labels, ((found.vote.gains > 0) & ~found.vote.swapped(KNOWN)).astype(np.float64)
    if rule.endswith("density-ratio"):
        sent = {f"{k}": {"ratios": c, "class-counts": n} for k, (c, n) in enumerate(zip(*answers[2:], strict=True))}
        weighed: Any = "none" if robust == "none" else "auto"
        votes = np.zeros(answers.codes.shape[1:], dtype=np.int64)
        ballot = Ballot(
            parties=list(sent),
            labels=[own[None] for own in answers.labels],
            votes=votes,
            true_votes=votes,
            num_votes=0,
            counted=[True] * len(sent),
            beside=sent,
            last=True,
        )
        found = DensityRatio().combine(ballot, config=FedCTConfig(distrust=weighed, ties="lowest"), rng=rng)
        nobody = np.full(answers.codes.shape[1], ABSTAIN, dtype=np.int16)  # the public rows resemble nobody's
        trusts = found.trusts if robust == "auto" else None
        return nobody if found.by_votes else found.labels, None if not trusts else np.array(list(trusts.values()))
    algorithm, consensus = rule.split()
    if algorithm == "fedkt":
        config = FedKTConfig(distrust=robust, consensus="majority")
        cast, facts = tally(list(answers.students), config=config, num_classes=num_classes)
        return one_shot_vote.aggregate(cast, config=config, rng=rng).labels, facts.trusts
    settings = FedCTConfig(distrust=robust, consensus=consensus)  # type: ignore[arg-type]
    found, facts = fedct.aggregate(list(answers.labels), config=settings, num_classes=num_classes, rng=rng)
    return found.labels, facts.trusts


def _balanced(said: NDArray[np.int16], truth: NDArray[np.int16]) -> NDArray[np.float64]:
    """Return each party's balanced accuracy on two classes, the mean over its arrays: (parties, arrays, rows) -> ..."""
    return np.mean([(said[..., truth == c] == c).mean(axis=(1, 2)) for c in (0, 1)], axis=0)


def measured(data: str, skew: str, seed: int, root: str, cache: Path | None) -> dict[str, Any]:
    """Return, by attack and rule, how much is right with trust, without it, and by the honest alone."""
    answers = answers_of(data, skew, seed, root, cache)
    pool = simulated_pool(run_config("fedkt", data, skew, seed, root))
    truth, rng = pool.public.y, np.random.default_rng(seed)
    liars = np.sort(rng.choice(PARTIES, LIARS, replace=False))
    honest = np.setdiff1d(np.arange(PARTIES), liars)
    known = draw_known(truth, KNOWN, num_classes=answers.counts.shape[1], rng=np.random.default_rng([seed, 1]))
    unknown = np.setdiff1d(np.arange(len(truth)), known.rows)

    def taught(labels: NDArray[np.int16]) -> float:
        known = labels != ABSTAIN
        if not known.any():
            return 0.0
        forest = RandomForestClassifier(20, random_state=seed).fit(pool.public.X[known], labels[known])
        return float((forest.predict(pool.X_test) == pool.y_test).mean())

    judges = known, labels_from_known(pool.public.X, *known, seed=seed)
    found: dict[str, Any] = {}
    if judges[0].labels.max() == 1:
        labels = {"fedkt": answers.students[honest], "fedct": answers.labels[honest][:, None]}
        found["tell apart"] = {name: int((_balanced(said, truth) >= TELLS).sum()) for name, said in labels.items()}
    for attack in ("none", *ATTACKS):
        said = answers if attack == "none" else lied(answers, attack, liars, rng)
        found[attack] = {}
        for rule in RULES:
            one: dict[str, Any] = {}
            by_known = rule.endswith("known-rows") or rule == "server-forest"
            rows = unknown if by_known else slice(None)
            for robust in ("auto",) if by_known else ("auto", "none"):
                labels, trusts = vote(rule, said, robust, seed, judges)
                one[f"right {robust}"] = float((labels == truth)[rows].mean())
                if rule.startswith(("fedkt", "server")) or "density-ratio" in rule:
                    one[f"server {robust}"] = taught(labels)
                if robust == "auto" and trusts is not None:
                    doubted = np.flatnonzero(trusts < DOUBTED)
                    one["liars named"] = int(np.isin(doubted, liars).sum()) if attack != "none" else 0
                    one["honest named"] = len(doubted) - one["liars named"]
            seven = vote(rule, answers.only(honest), "none", seed, judges)[0]
            one["right seven"] = float((seven == truth)[rows].mean())
            found[attack][rule] = one
    return found


# ---------------------------------------------------------------- probabilities


def said_of(data: str, skew: str, seed: int, root: str) -> list[dict[str, NDArray[Any]]]:
    """Return what each honest party sends where probabilities are asked for."""
    config, asked = run_config("fedct", data, skew, seed, root), FedCTConfig(seed=seed, send="probabilities")
    said = []
    for i in range(PARTIES):
        client = make_client(config, parse_node_config({"partition-id": i, "num-partitions": PARTIES}), "liars")
        own = derive_seed(seed, client.party.name)
        visit = Instruction(server_round=1, config=asked, rule="probabilities", party_seed=own)
        said.append(dict(client.learn(visit).values))
    return said


def lied_probabilities(said: dict[str, NDArray[Any]], attack: str, target: int) -> dict[str, NDArray[Any]]:
    """Return what a liar sends in the place of this."""
    probs, counts = said["probs"], 1000 * (said["class-counts"] + 1)
    if attack == "flip":
        found = {name: np.roll(said[name], 1, axis=1) for name in ("probs", "ratios") if name in said}
        return {**said, **found, "class-counts": np.roll(counts, 1), "labels": (said["labels"] + 1) % probs.shape[1]}
    sure = np.zeros_like(probs)
    sure[:, target] = 2**BITS - 1
    return {**said, "probs": sure, "class-counts": counts, "labels": np.full_like(said["labels"], target)}


def measured_probabilities(data: str, skew: str, seed: int, root: str) -> dict[str, Any]:
    """Return, by attack and number of liars, the share of public rows that each rule labels right."""
    honest = said_of(data, skew, seed, root)
    truth, rng = simulated_pool(run_config("fedct", data, skew, seed, root)).public.y, np.random.default_rng(seed)
    num_classes = honest[0]["probs"].shape[1]
    order, target = rng.permutation(PARTIES), 1 if num_classes == 2 else int(rng.integers(num_classes))
    found: dict[str, Any] = {}
    for attack, liars in (("none", 0), *((a, n) for a in ("flip", "target") for n in (1, 2))):
        said = list(honest)
        for k in order[:liars]:
            said[k] = lied_probabilities(said[k], attack, target)
        labels = [one["labels"][0] for one in said]
        votes = np.zeros((len(truth), num_classes), dtype=np.int64)
        ballot = Ballot(
            parties=[str(i) for i in range(PARTIES)],
            labels=[one[None] for one in labels],
            votes=votes,
            true_votes=votes,
            num_votes=PARTIES,
            counted=[True] * PARTIES,
            beside={str(i): {k: v for k, v in one.items() if k != "labels"} for i, one in enumerate(said)},
            last=True,
        )
        one = {}
        for robust in ("auto", "none"):
            config = FedCTConfig(send="probabilities", distrust=robust)  # type: ignore[arg-type]
            made = Probabilities().combine(ballot, config=config, rng=np.random.default_rng(seed))
            one[f"probabilities, trust {robust}"] = float((made.labels == truth).mean())
            if made.trusts is not None:
                doubted = {int(name) for name, trust in made.trusts.items() if trust < DOUBTED}
                one["liars named"] = len(doubted & set(order[:liars].tolist()))
                one["honest named"] = len(doubted) - one["liars named"]
        config = FedCTConfig(consensus="majority")
        made = fedct.aggregate(labels, config=config, num_classes=num_classes, rng=np.random.default_rng(seed))[0]
        one["labels, trust auto"] = float((made.labels == truth).mean())
        found[f"{attack}, {liars}"] = one
    return found


def table(found: dict[str, Any]) -> str:
    """Return the means over seeds as a Markdown table: right with trust / without / the seven honest alone.

    By known rows there is nothing without: right / the seven.
    """
    lines = ["| data, skew | rule | " + " | ".join(("none", *ATTACKS)) + " | named: liars, honest |"]
    lines.append("|---" * (len(ATTACKS) + 4) + "|")
    for case, seeds in found.items():
        for rule in RULES:
            cells = []
            for attack in ("none", *ATTACKS):
                ones = [one[attack][rule] for one in seeds.values()]
                kinds = [f"right {kind}" for kind in ("auto", "none", "seven") if f"right {kind}" in ones[0]]
                means = [float(np.mean([one[kind] for one in ones])) for kind in kinds]
                cells.append(" / ".join(f"{x:.3f}".removeprefix("0") for x in means))
            told = [one[attack][rule] for one in seeds.values() for attack in ATTACKS]
            names = [np.mean([one.get(f"{who} named", 0) for one in told]) for who in ("liars", "honest")]
            lines.append(f"| {case} | {rule} | " + " | ".join(cells) + f" | {names[0]:.1f}, {names[1]:.1f} |")
    return "\n".join(lines)


def main() -> None:
    """Parse the command line, train or read the answers, lie, and tabulate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--probabilities", action="store_true", help="parties send probabilities, up to two lie")
    parser.add_argument("--data-root", required=True, help="folder of the data sets")
    parser.add_argument("--data", nargs="+", default=list(SIZES))
    parser.add_argument("--skews", nargs="+", default=list(SKEWS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[301, 302, 303, 304, 305])
    parser.add_argument("--cache", type=Path, help="folder that keeps the parties' answers between calls")
    parser.add_argument("--out", type=Path, help="JSON file for the results")
    options = parser.parse_args()
    for name in ("flwr", "flwr.party"):
        logging.getLogger(name).setLevel(logging.ERROR)
    found: dict[str, Any] = {}
    for data in options.data:
        for skew in options.skews:
            for seed in options.seeds:
                one = (
                    measured_probabilities(data, skew, seed, options.data_root)
                    if options.probabilities
                    else measured(data, skew, seed, options.data_root, options.cache)
                )
                found.setdefault(f"{data}, {skew}", {})[seed] = one
            print(f"{data}, {skew}: {len(options.seeds)} seeds", file=sys.stderr, flush=True)
            if options.out:
                command = shlex.join(["python", "benchmarks/liars.py", *sys.argv[1:]])
                options.out.write_text(json.dumps({"command": command, "found": found}, indent=1) + "\n")
    if not options.probabilities:
        print(table(found))


if __name__ == "__main__":
    main()

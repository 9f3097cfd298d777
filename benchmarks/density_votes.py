"""Density-ratio votes against majority and Dawid-Skene: parties trained once, every rule tried on their answers.

    python benchmarks/density_votes.py --data-root /data --cases digits:0.1 digits:iid --seeds 103 104 --attacks

A case is ``data:skew[:learner[:public]]``. *skew* is a Dirichlet alpha, ``iid``, ``one`` (one class a party) or, say,
``alone3``: three parties hold the most frequent class, the others the rest.
*learner* is ``forest`` (scored out of bag, one fit), ``logistic``, ``bayes``, ``boosting`` or ``mlp`` (three folds).
*public* tells what is done to the public rows: ``scaled`` (x 0.7), ``noise`` (of the columns' own deviation),
``marginal`` (three of four rows of the most frequent class left out; ``half-marginal``: half of them), ``other``
(another data set of the same width), ``digits`` (for MNIST: scikit-learn's digits, enlarged to 20 x 20 pixels within
28 x 28).
There are ten parties, except where PARTIES says otherwise. Accuracy and balanced accuracy of the labels of the public
rows are printed (a row without a label counts as wrong), the share of rows that look like a party's own, what `auto`
takes, and the bytes of an answer as a multiple of one with labels alone, packed to ceil(log2 C) bits. ``whole`` in the
file are both where no ratios are left out for the bytes. With --attacks three of ten parties lie: ``flip`` (each class
said to be the next one), ``loud flip`` (and every ratio 2 C, counts x 1,000),
``target`` (one class everywhere), ``loud target``. With --refine a forest at the server learns the consensus of density
ratios and replaces labels where its out-of-bag answer is surer ("refined"); printed besides is the accuracy, on test
rows, of forests taught by the one, by the other, and by the first with the consensus' confidence as weights. MADE data
sets come from scikit-learn's `make_classification`.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import zoom
from sklearn.base import clone
from sklearn.datasets import load_digits, make_classification
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

from fedkd_flwr.data.datasets import load_pool
from fedkd_flwr.data.partitioning import partition
from fedkd_flwr.labels import VoteCounter, is_informative, majority
from fedkd_flwr.labels.choice import choose_rule, label_skew
from fedkd_flwr.labels.dawid_skene import dawid_skene
from fedkd_flwr.labels.density import DensityVote, Robust, most_probable
from fedkd_flwr.labels.ratios import density_ratios, ratio_codes, ratios_of
from fedkd_flwr.wire.label_codec import ANSWER_HEADER, PublicSpec
from fedkd_flwr.wire.ratio_codec import encode_ratios

PARTIES = {"fraud": 5, "a9a50": 50, "wine": 3, "breast-cancer": 5}
SIZES = {
    "digits": (900, 450, 447), "wine": (90, 50, 38), "breast-cancer": (300, 150, 119), "mushroom": (1500, 800, 1000),
    "fashion-mnist": (6000, 2000, 2000), "mnist": (6000, 2000, 2000), "emnist-letters": (5200, 2000, 1000),
    "a9a": (12000, 2000, 4000), "a9a50": (20000, 4000, 4000), "cod-rna": (12000, 2000, 4000),
    "wine-type": (2500, 1000, 1000),
}  # fmt: skip

MADE: dict[str, dict[str, Any]] = {
    "fraud": {"n_samples": 24000, "n_features": 20, "n_informative": 8, "weights": [0.995], "flip_y": 0.001,
        "class_sep": 1.2},
    "made5": {"n_samples": 6000, "n_features": 16, "n_informative": 10, "n_classes": 5, "class_sep": 1.2},
    "made6i": {"n_samples": 12000, "n_features": 16, "n_informative": 10, "n_classes": 6, "class_sep": 1.5,
        "weights": [0.6, 0.2, 0.1, 0.06, 0.03, 0.01]},
    # classes that overlap: a forest of all rows has .88 and .72
    "made3o": {"n_samples": 12000, "n_features": 12, "n_informative": 6, "n_classes": 3, "class_sep": 0.6,
        "weights": [0.7, 0.25, 0.05]},
    "made4o": {"n_samples": 8000, "n_features": 12, "n_informative": 6, "n_classes": 4, "class_sep": 0.5},
}  # fmt: skip


class Answers(NamedTuple):
    """What the parties of one federation say, and what is true."""

    probs: NDArray[np.float64]  # (parties, public rows, classes + 1), out of fold
    counts: NDArray[np.int64]  # (parties, classes)
    labels: NDArray[np.int16]  # (parties, public rows) by models of own rows alone
    y: NDArray[np.int16]  # (public rows,)


def rows_of(data: str, seed: int, root: str) -> tuple[Any, ...]:
    """Return private, public and test rows with labels: X, y, X_public, y_public, X_test, y_test."""
    if data in MADE:
        X, y = make_classification(random_state=seed, n_clusters_per_class=2, **MADE[data])
        order = np.random.default_rng(seed).permutation(len(y))
        half, quarter = len(y) // 2, len(y) // 4
        private, public, test = order[:half], order[half : half + quarter], order[half + quarter :]
        return X[private], y[private], X[public], y[public], X[test], y[test]
    private_rows, public_rows, test_rows = SIZES[data]
    pool = load_pool(
        data.removesuffix("50") if data == "a9a50" else data,
        seed=seed,
        data_root=root,
        num_private=private_rows,
        num_public=public_rows,
        num_test=test_rows,
    )
    return pool.X, pool.y, pool.public.X, pool.public.y, pool.X_test, pool.y_test


def deal(y: NDArray[Any], skew: str, parties: int, seed: int) -> list[NDArray[np.int64]]:
    """Return each party's rows."""
    if skew == "iid":
        return partition(y, name="iid", num_parties=parties, seed=seed)
    if skew == "one":
        classes = int(y.max()) + 1
        order = np.random.default_rng(seed).permutation(len(y))
        return [
            order[(y[order] == k % classes)][k // classes :: -(-(parties - k % classes) // classes)]
            for k in range(parties)
        ]
    if skew.startswith("alone"):
        order, frequent = np.random.default_rng(seed).permutation(len(y)), np.bincount(y).argmax()
        few, rest = order[y[order] == frequent], order[y[order] != frequent]
        return [*np.array_split(few, int(skew[5:])), *np.array_split(rest, parties - int(skew[5:]))]
    return partition(y, name="dirichlet", num_parties=parties, seed=seed, alpha=float(skew), min_rows=5)


def learner_of(name: str, seed: int) -> Any:
    """Return an unfitted model."""
    return {
        "forest": RandomForestClassifier(100, oob_score=True, n_jobs=1, random_state=seed),
        "forest300": RandomForestClassifier(300, oob_score=True, n_jobs=1, random_state=seed),
        "shallow": RandomForestClassifier(100, max_depth=6, oob_score=True, n_jobs=1, random_state=seed),
        "logistic": LogisticRegression(max_iter=300),
        "bayes": GaussianNB(var_smoothing=1e-3),
        "boosting": HistGradientBoostingClassifier(max_iter=40, learning_rate=0.15, random_state=seed),
        "mlp": MLPClassifier((64,), max_iter=60, random_state=seed),
    }[name]


def against_public(model: Any, X: Any, y: Any, U: Any, num_classes: int, seed: int) -> NDArray[np.float64]:
    """Return (public rows, classes + 1) probabilities of models that did not see the row they score."""
    n, m = len(X), len(U)
    probs = np.zeros((m, num_classes + 1))
    rng = np.random.default_rng(seed)

    def fit(kept: Any) -> Any:
        own_X, own_y = X, y
        both = np.concatenate([own_X, U[kept]])
        labels = np.concatenate([own_y, np.full(len(kept), num_classes)])
        weights = np.concatenate([np.full(len(own_y), len(kept) / len(own_y)), np.ones(len(kept))])
        fitted = clone(model)
        if isinstance(model, MLPClassifier):  # no sample weights here: repeat the smaller side
            repeats = np.round(weights / weights.min()).astype(int)
            rows = rng.permutation(np.repeat(np.arange(len(labels)), repeats))
            return fitted.fit(both[rows], labels[rows])
        weights /= weights.mean()
        return fitted.fit(both, labels, sample_weight=weights)

    if isinstance(model, RandomForestClassifier):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = fit(np.arange(m))
        probs[:, fitted.classes_] = np.nan_to_num(fitted.oob_decision_function_[n:])
        return probs
    folds = rng.permutation(m) % 3
    for fold in range(3):
        fitted = fit(np.flatnonzero(folds != fold))
        out = np.flatnonzero(folds == fold)
        probs[np.ix_(out, fitted.classes_)] = fitted.predict_proba(U[out])
    return probs


def answers_of(case: str, seed: int, root: str, cache: Path | None) -> Answers:
    """Train the parties of a case, or read what an earlier call kept."""
    kept = cache and cache / f"{case.replace(':', '_')}_{seed}.npz"
    if kept and kept.exists():
        return Answers(**np.load(kept))
    data, skew, learner, public = (case.split(":") + ["forest", "same"][len(case.split(":")) - 2 :])[:4]
    X, y, U, y_public, _, _ = rows_of(data, seed, root)
    if public == "scaled":
        U = U * 0.7
    elif public == "noise":
        U = U + np.random.default_rng(seed).normal(size=U.shape) * U.std(axis=0)
    elif public == "other":
        other = {"mnist": "emnist-letters", "fashion-mnist": "mnist"}[data]
        U, y_public = rows_of(other, seed, root)[2], np.full(len(y_public), -1)
    elif public == "digits":
        small = load_digits()
        large = zoom(small.images / 16 * X.max(), (1, 2.5, 2.5), order=1)
        U, y_public = np.pad(large, ((0, 0), (4, 4), (4, 4))).reshape(len(large), -1), small.target
    elif public in ("marginal", "half-marginal"):  # of the most frequent class a quarter or a half of the rows is left
        frequent, left = y_public == np.bincount(y_public).argmax(), 0.25 if public == "marginal" else 0.5
        keep = np.flatnonzero(~frequent | (np.random.default_rng(seed).random(len(U)) < left))
        U, y_public = U[keep], y_public[keep]
    scaler = StandardScaler().fit(U)
    X, U = scaler.transform(X), scaler.transform(U)
    if X.shape[1] > 200 and data in ("fashion-mnist", "mnist", "emnist-letters"):
        pca = PCA(50, random_state=seed, svd_solver="randomized").fit(U)
        X, U = pca.transform(X), pca.transform(U)
    num_classes = int(y.max()) + 1
    parties = PARTIES.get(data, 10)
    probs, counts, labels = [], [], []
    for k, rows in enumerate(deal(y, skew, parties, seed)):
        own_y = y[rows]
        counts.append(np.bincount(own_y, minlength=num_classes))
        model = learner_of(learner, 1000 * seed + k)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            probs.append(against_public(model, X[rows], own_y, U, num_classes, 1000 * seed + k))
            if len(np.unique(own_y)) == 1:
                labels.append(np.full(len(U), own_y[0]))
            else:
                plain = model.set_params(oob_score=False) if hasattr(model, "oob_score") else model
                labels.append(plain.fit(X[rows], own_y).predict(U))
    found = Answers(np.array(probs), np.array(counts), np.array(labels, np.int16), np.asarray(y_public, np.int16))
    if kept:
        kept.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(kept, **found._asdict())
    return found


ATTACKS = ("flip", "loud flip", "target", "loud target")


def attacked(answers: Answers, ratios: Any, attack: str, draw: int) -> tuple[Any, Any, Any]:
    """Return labels, counts and ratios where three of ten parties, drawn at random, lie together."""
    labels, counts, ratios = answers.labels.copy(), answers.counts.copy(), ratios.copy()
    num_parties, num_classes = counts.shape
    target = draw % num_classes
    for k in np.random.default_rng(draw).choice(num_parties, max(1, 3 * num_parties // 10), replace=False):
        if "flip" in attack:
            labels[k] = (labels[k] + 1) % num_classes
            counts[k], ratios[k] = np.roll(counts[k], 1), np.roll(ratios[k], 1, axis=1)
            if "loud" in attack:
                largest = ratios[k].max(axis=1, keepdims=True)
                ratios[k] = np.where((ratios[k] == largest) & (largest > 0), 2.0 * num_classes, 0.0)
        else:
            labels[k], ratios[k] = target, 0.0
            ratios[k][:, target] = 2.0 * num_classes
            counts[k] = counts[k].sum() * (np.arange(num_classes) == target)
        counts[k] *= 1000 if "loud" in attack else 1
    return labels, counts, ratios


def by_labels(labels: Any, num_classes: int) -> tuple[Any, Any]:
    """Return the consensus by majority and by Dawid-Skene, as FedCT forms them by default."""
    told = [own for own in labels if is_informative(own)] or list(labels)
    counter = VoteCounter(num_public=labels.shape[1], num_classes=num_classes)
    for own in told:
        counter.add(own)
    skene, _ = dawid_skene(told, num_classes=num_classes, max_iterations=5, tolerance=0.0, class_prior="uniform")
    return majority(counter.votes, rng=np.random.default_rng(0)), skene


def codes_of(ratios: Any) -> list[NDArray[np.uint8]]:
    """Return each party's codes, as they are sent."""
    return [ratio_codes(own) for own in ratios]


def by_density(codes: list[NDArray[np.uint8]], counts: Any, robust: Robust) -> DensityVote:
    """Return the vote of ratios that went through the wire's codes."""
    num_classes = counts.shape[1]
    vote = DensityVote(num_public=len(codes[0]), num_classes=num_classes, robust=robust)
    for own, own_counts in zip(codes, counts, strict=True):
        vote.add(ratios_of(own), own_counts)
    return vote


def refined(case: str, seed: int, root: str, labels: Any, confidence: Any) -> tuple[Any, dict[str, float]]:
    """Return labels corrected by a forest at the server, and the test accuracy of forests taught by them and before."""
    data, _, *learner = case.split(":")
    _, _, U, _, X_test, y_test = rows_of(data, seed, root)
    known = labels >= 0

    def taught(given: Any, weights: Any = None) -> Any:
        depth = 6 if "shallow" in learner else None
        forest = RandomForestClassifier(100, max_depth=depth, oob_score=True, random_state=seed)
        return forest.fit(U[given >= 0], given[given >= 0], sample_weight=weights)

    before = taught(labels)
    probs = before.predict_proba(U)
    probs[known] = np.nan_to_num(before.oob_decision_function_)
    surer = ~known | (probs.max(axis=1) > confidence)
    made = np.where(surer, before.classes_[probs.argmax(axis=1)], labels).astype(np.int16)
    models = {
        "taught": before,
        "taught by refined": taught(made),
        "taught by confidence": taught(labels, confidence[known]),
    }
    return made, {name: float((model.predict(X_test) == y_test).mean()) for name, model in models.items()}


def scores(labels: Any, y: Any) -> list[float]:
    """Return accuracy and balanced accuracy on the rows whose class is known."""
    known = y >= 0
    recalls = [(labels[y == c] == c).mean() for c in np.unique(y[known])]
    return [float((labels[known] == y[known]).mean()), float(np.mean(recalls))] if known.any() else [np.nan, np.nan]


def measured(answers: Answers, *, attacks: bool) -> dict[str, Any]:
    """Return every rule's scores, the guard's figure, what auto takes, and the bytes."""
    num_classes = answers.counts.shape[1]
    pairs = zip(answers.probs, answers.counts, strict=True)
    ratios = np.array([density_ratios(np.minimum(probs, 1.0), counts) for probs, counts in pairs])
    by_majority, skene = by_labels(answers.labels, num_classes)
    codes = codes_of(ratios)
    vote = by_density(codes, answers.counts, "trust")
    coverage = vote.coverage()
    counts = answers.counts
    chosen = choose_rule(
        num_classes=num_classes, class_counts=counts.sum(axis=0), coverage=coverage, skew=label_skew(counts)
    ).rule
    rules = {"majority": by_majority, "dawid-skene": skene, "density-ratio": most_probable(vote.probabilities())}
    found: dict[str, Any] = {rule: scores(labels, answers.y) for rule, labels in rules.items()}
    found["unbounded sum"] = scores(most_probable(by_density(codes, answers.counts, "none").probabilities()), answers.y)
    found |= {"coverage": coverage, "auto": chosen, "auto's": found[chosen]}
    public = PublicSpec(num_public=len(answers.y), num_classes=num_classes, fingerprint="0" * 64)
    plain = ANSWER_HEADER + len(answers.y) * (num_classes - 1).bit_length() / 8
    said = zip(codes, answers.labels, answers.counts, strict=True)
    sizes = [len(encode_ratios(c, y, public=public, server_round=1, class_counts=n)) for c, y, n in said]
    found["bytes / labels"] = float(np.mean(sizes)) / plain
    for attack in ATTACKS if attacks else ():
        per_draw = []
        for draw in range(3):
            labels, counts, lied = attacked(answers, ratios, attack, draw)
            voted = [by_labels(labels, num_classes)[0]]
            told = codes_of(lied)
            votes = [by_density(told, counts, robust) for robust in ("trust", "none")]
            voted += [most_probable(one.probabilities()) for one in votes]
            per_draw.append([scores(one, answers.y)[0] for one in voted])
        found[attack] = dict(
            zip(("majority", "density-ratio", "unbounded sum"), np.mean(per_draw, axis=0), strict=True)
        )
    return found


def main() -> None:
    """Parse the command line, train or read the answers, and tabulate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", required=True, help="folder of the data sets")
    parser.add_argument("--cases", nargs="+", required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[103, 104])
    parser.add_argument("--attacks", action="store_true")
    parser.add_argument(
        "--refine", action="store_true", help="try a second pass at the server; public rows as they are"
    )
    parser.add_argument("--cache", type=Path, help="folder that keeps the parties' answers between calls")
    parser.add_argument("--out", type=Path, help="JSON file for the results")
    options = parser.parse_args()
    found: dict[str, Any] = {}
    for case in options.cases:
        for seed in options.seeds:
            answers = answers_of(case, seed, options.data_root, options.cache)
            found.setdefault(case, {})[seed] = one = measured(answers, attacks=options.attacks)
            cells = {rule: "/".join(f"{x:.3f}" for x in one[rule]) for rule in (*RULES, "unbounded sum")}
            cells |= {
                "coverage": f"{one['coverage']:.2f}",
                "auto": one["auto"],
                "bytes": f"{one['bytes / labels']:.2f}",
            }
            print(f"{case} {seed}", *(f"{name} {value}" for name, value in cells.items()), sep="  ", flush=True)
            if options.refine:
                pairs = zip(answers.probs, answers.counts, strict=True)
                ratios = np.array([density_ratios(np.minimum(probs, 1.0), counts) for probs, counts in pairs])
                probs = by_density(codes_of(ratios), answers.counts, "trust").probabilities()
                made, accuracies = refined(case, seed, options.data_root, most_probable(probs), probs.max(axis=1))
                one["refined"] = scores(made, answers.y)
                one |= accuracies
                cells = [f"refined {'/'.join(f'{x:.4f}' for x in one['refined'])}"]
                print(
                    "   ", *cells, *(f"{name} {value:.4f}" for name, value in accuracies.items()), sep="  ", flush=True
                )
            for attack in ATTACKS if options.attacks else ():
                print(f"    {attack}", *(f"{rule} {value:.3f}" for rule, value in one[attack].items()), sep="  ")
    if options.out:
        command = shlex.join(["python", "benchmarks/density_votes.py", *sys.argv[1:]])
        options.out.write_text(json.dumps({"command": command, "found": found}, indent=1) + "\n")


RULES = ("majority", "dawid-skene", "density-ratio")

if __name__ == "__main__":
    main()

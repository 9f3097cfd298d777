"""Density-ratio votes against majority and Dawid-Skene: parties trained once, every rule tried on their answers.

    python benchmarks/density_votes.py rules --data-root /data --cases digits:0.1 digits:iid --seeds 101 102

A case is ``data:skew[:learner[:public]]``. *skew* is a Dirichlet alpha, ``iid`` or ``one`` (one class a party); *learner*
is ``forest`` (scored out of bag, one fit), ``logistic``, ``bayes``, ``boosting`` or ``mlp`` (three folds); *public* tells
what is done to the public rows: ``scaled`` (x 0.7), ``noise`` (one half of the variance), ``other`` (another data set of
the same width). Ten parties, except where PARTIES says otherwise. The share of public rows labelled right is printed
(for two imbalanced classes the balanced share); rows without a label count as wrong.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

from fedkd_flwr.data.datasets import load_pool
from fedkd_flwr.data.partitioning import partition

PARTIES = {"fraud": 5, "a9a50": 50, "wine": 3, "breast-cancer": 5}
SIZES = {
    "digits": (900, 450, 447), "wine": (90, 50, 38), "breast-cancer": (300, 150, 119), "mushroom": (1500, 800, 1000),
    "fashion-mnist": (6000, 2000, 2000), "mnist": (6000, 2000, 2000), "emnist-letters": (5200, 2000, 1000),
    "a9a": (12000, 2000, 4000), "a9a50": (20000, 4000, 4000), "cod-rna": (12000, 2000, 4000),
    "wine-type": (2500, 1000, 1000),
}  # fmt: skip


class Answers(NamedTuple):
    """What the parties of one federation say, and what is true."""

    probs: NDArray[np.float64]  # (parties, public rows, classes + 1), out of fold
    counts: NDArray[np.int64]  # (parties, classes)
    labels: NDArray[np.int16]  # (parties, public rows) by models of own rows alone
    y: NDArray[np.int16]  # (public rows,)


def rows_of(data: str, seed: int, root: str) -> tuple[Any, ...]:
    """Return private, public and test rows with labels: X, y, X_public, y_public, X_test, y_test."""
    if data.startswith(("made", "fraud")):
        settings: dict[str, Any] = {"fraud": dict(n_samples=24000, n_features=20, n_informative=8, n_classes=2,
            weights=[0.995], flip_y=0.001, class_sep=1.2),
            "made5": dict(n_samples=6000, n_features=16, n_informative=10, n_classes=5, class_sep=1.2),
            "made2": dict(n_samples=6000, n_features=12, n_informative=6, n_classes=2, weights=[0.8]),
            "made6i": dict(n_samples=12000, n_features=16, n_informative=10, n_classes=6,
            weights=[0.6, 0.2, 0.1, 0.06, 0.03, 0.01], class_sep=1.5)}[data]  # fmt: skip
        X, y = make_classification(random_state=seed, n_clusters_per_class=2, **settings)
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


def against_public(
    model: Any, X: Any, y: Any, U: Any, num_classes: int, seed: int, *, scored: Any = None
) -> NDArray[np.float64]:
    """Return (public rows, classes + 1) probabilities of models that saw the own rows and two thirds of the public ones."""
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
    source = Path(__file__).read_bytes()
    kept = cache and cache / f"{case.replace(':', '_')}_{seed}.npz"
    if kept and kept.exists():
        return Answers(**np.load(kept))
    del source
    data, skew, learner, public = (case.split(":") + ["forest", "same"][len(case.split(":")) - 2 :])[:4]
    X, y, U, y_public, _, _ = rows_of(data, seed, root)
    if public == "scaled":
        U = U * 0.7
    elif public == "noise":
        U = U + np.random.default_rng(seed).normal(size=U.shape) * U.std(axis=0) + 0.0
    elif public == "other":
        other = {"mnist": "emnist-letters", "fashion-mnist": "mnist"}[data]
        U, y_public = rows_of(other, seed, root)[2], np.full(len(y_public), -1)
    elif public == "half":  # half of the rows are the domain's, the others noise
        mask = np.random.default_rng(seed).random(len(U)) < 0.5
        U = np.where(
            mask[:, None],
            U,
            U[
                np.random.default_rng(seed + 1).permuted(np.tile(np.arange(len(U))[:, None], (1, U.shape[1])), axis=0),
                np.arange(U.shape[1]),
            ],
        )
        y_public = np.where(mask, y_public, -1)
    elif public == "marginal":  # three of four rows of the most frequent class are gone
        frequent = y_public == np.bincount(y_public).argmax()
        keep = np.flatnonzero(~frequent | (np.random.default_rng(seed).random(len(U)) < 0.25))
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

"""The rows of Adult, who holds which, and the arithmetic of FedKT. Nothing here knows Flower."""

from functools import lru_cache
from pathlib import Path

import numpy as np
from sklearn.datasets import fetch_openml, load_svmlight_file
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

DEPTH, TREES, ALPHA, LEAST = 6, 100, 0.5, 10


@lru_cache(maxsize=1)
def load(path: str, seed: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return private (75 %), public and test rows (12.5 % each) of a9a: a local LIBSVM file, else from OpenML."""
    if path:
        X, y = load_svmlight_file(str(Path(path).expanduser()), n_features=123)
    else:
        X, y = fetch_openml("a9a", version=1, return_X_y=True, as_frame=False)
    X, y = np.asarray(X.todense(), dtype=np.float32), (np.asarray(y, dtype=float) > 0).astype(np.int64)
    order = np.random.default_rng(seed).permutation(len(y))
    private, public, test = np.split(order, [3 * len(y) // 4, 7 * len(y) // 8])
    return {name: (X[i], y[i]) for name, i in (("private", private), ("public", public), ("test", test))}


def deal(y: np.ndarray, parties: int, seed: int) -> list[np.ndarray]:
    """Return the rows of each party: of each class, the rarest first, by shares from a Dirichlet distribution.

    Who holds an equal share of all rows already gets no more, as in the published code.
    """
    rng = np.random.default_rng([seed, 1])
    while True:
        dealt = [np.zeros(0, dtype=np.int64)] * parties
        for c in np.argsort(np.bincount(y)):
            rows = rng.permutation(np.flatnonzero(y == c))
            shares = rng.dirichlet(np.full(parties, ALPHA)) * [len(one) < len(y) / parties for one in dealt]
            cuts = (np.cumsum(shares / shares.sum())[:-1] * len(rows)).astype(int)
            dealt = [np.append(one, part) for one, part in zip(dealt, np.split(rows, cuts), strict=True)]
        if min(map(len, dealt)) >= LEAST:
            return dealt


def student_labels(X: np.ndarray, y: np.ndarray, public: np.ndarray, s: int, t: int, seed: list[int]) -> np.ndarray:
    """Return the labels of a party's s students for the public rows, of shape (s, num_public).

    Each student learns the majority of t teachers, which learnt from disjoint parts of the party's rows.
    """
    rng = np.random.default_rng(seed)
    labels = []
    for _ in range(s):
        counts = np.zeros((len(public), 2))
        for part in np.array_split(rng.permutation(len(y)), t):
            if len(part):
                teacher = DecisionTreeClassifier(max_depth=DEPTH, random_state=int(rng.integers(2**31)))
                counts[np.arange(len(public)), teacher.fit(X[part], y[part]).predict(public)] += 1
        labels.append(forest(public, most(counts, rng), rng).predict(public))
    return np.stack(labels).astype(np.int8)


def most(counts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the class with most votes in each row; equal counts are decided at random."""
    return (counts + rng.uniform(0, 0.5, counts.shape)).argmax(axis=1)


def consistent(labels: np.ndarray) -> np.ndarray:
    """Return votes of shape (num_public, 2): a party, of labels (s, num_public), counts s where its students agree."""
    s, agree = len(labels), (labels == labels[0]).all(axis=0)
    return s * (np.eye(2)[labels[0]] * agree[:, None])


def forest(X: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> RandomForestClassifier:
    """Return a fitted random forest."""
    return RandomForestClassifier(TREES, max_depth=DEPTH, random_state=int(rng.integers(2**31))).fit(X, y)

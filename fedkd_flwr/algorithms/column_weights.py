"""How much each column of noisy sums counts: what a second visit asks, what a party answers, and what is made of it.

Naive Bayes counts twice what two columns both say. A second visit asks how scores go together within records: the
server sends vectors of scores (`asked`), a party adds up their products over its records (`products`), and least
squares finds a weight for each column (`weighed`). A record's vectors are together cut to the length `LENGTH` at the
party, whatever the server sent, so that no record moves the products further (`fedkd_flwr.privacy.noise.sums`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.algorithms.noisy_sums import Sums, shares, shares_of_sums
from fedkd_flwr.privacy.noise.sums import LENGTH

__all__ = ["asked", "num_products", "products", "weighed"]

# chosen on Adult, cod-rna, Mushroom and wine by seeds 11 to 15
_MEAN = 1 / 1.5  # mean squared length of a record's vectors, as a share of the largest
_OF_CLASS = 0.2  # of that, what the class's own vector has


def asked(scores: NDArray[np.float64], sums: Sums, sizes: Sequence[int]) -> NDArray[np.int32]:
    """Return the vectors of all cells, then of all classes: (cells + classes, classes), whole numbers.

    A cell's are its ``scores``, less their mean over classes and over the column's records.
    """
    prior, cuts = shares_of_sums(sums, sizes), np.cumsum(sizes)[:-1]
    filled = np.split(np.maximum(sums.sum(axis=1), 0), cuts)
    held = [part / max(part.sum(), 1) for part in filled]
    scores = scores - scores.mean(axis=1, keepdims=True)
    scores = np.concatenate([part - own @ part for part, own in zip(np.split(scores, cuts), held, strict=True)])
    length = float((np.concatenate(held) * (scores**2).sum(axis=1)).sum())
    of_cells = math.sqrt(_MEAN * (1 - _OF_CLASS) / max(length, 1e-9))
    of_classes = math.sqrt(_MEAN * _OF_CLASS / _impurity(prior))
    vectors = np.vstack([scores * of_cells, (np.eye(len(prior)) - prior) * of_classes]) * LENGTH
    return np.rint(np.clip(vectors, -(2**20), 2**20)).astype(np.int32)


def num_products(columns: int) -> int:
    """Return how many products there are: of each two of a record's vectors, and of each with itself."""
    return (columns + 1) * (columns + 2) // 2


def products(asked: NDArray[np.int32], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the sums of products of each two vectors of a record, the first with all, then the second, ...: flat.

    ``rows``, (records, columns + 1), are the lines of ``asked`` that a record has. Where its vectors are together
    longer than `LENGTH` they are shortened.

    >>> products(np.array([[3, 0], [0, 4]], dtype=np.int32), np.array([[0, 1], [0, 0]])).tolist()
    [18, 9, 25]
    """
    width = rows.shape[1]
    total = np.zeros((width, width))  # whole numbers below 2^53, which floats hold exactly
    step = max(2**22 // (width * asked.shape[1]), 1)
    for at in range(0, len(rows), step):
        vectors = asked[rows[at : at + step]].astype(np.float64)
        length = np.sqrt((vectors**2).sum(axis=(1, 2)))
        vectors = np.trunc(vectors / np.maximum(length / LENGTH, 1.0)[:, None, None])
        vectors[(vectors**2).sum(axis=(1, 2)) > LENGTH**2] = 0.0  # rounding aside there is none
        flat = vectors.transpose(1, 0, 2).reshape(width, -1)
        total += flat @ flat.T
    return total[np.triu_indices(width)].astype(np.int64)


def weighed(
    scores: NDArray[np.float64], sums: Sums, sizes: Sequence[int], released: NDArray[np.integer], noise: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the scores of cells and of classes: ``scores``, each column's times its weight.

    The weights are those of least squares on classes, as far as noise allows: it draws them to one weight for all
    columns. Scale and constants are those of Fisher's linear discriminant. ``released`` are the parties' products
    added up, as `NoisyProducts` gives them, ``noise`` the standard deviation of a square in it.
    """
    columns, prior = len(sizes), shares_of_sums(sums, sizes)
    unit = 2.0 * LENGTH**2
    found = np.zeros((columns + 1, columns + 1))
    found[np.triu_indices(columns + 1)] = released / unit
    found = found + np.triu(found, 1).T
    values, turned = np.linalg.eigh(found[:columns, :columns])
    together = (turned * np.maximum(values, 0.0)) @ turned.T
    with_class, of_class = found[:columns, columns], max(found[columns, columns], noise)
    penalty = noise * math.sqrt(2 * columns)
    same = max(with_class.sum() / max(together.sum(), penalty), 0.0)
    weights = np.linalg.solve(together + penalty * np.eye(columns), with_class + penalty * same)
    told = float(np.clip(with_class @ weights / of_class, 0.0, 0.9))  # share of the classes' variance
    vectors = asked(scores, sums, sizes)[: len(sums)] / LENGTH
    of_classes = math.sqrt(_MEAN * _OF_CLASS / _impurity(prior))
    scale = 1 / (of_classes * _impurity(prior) * (1 - told))
    made = np.repeat(weights, sizes)[:, None] * vectors * scale
    # half of what a record of a class has for it on average, beyond others: what sets the discriminant's constant
    beyond = np.split(made - (made @ prior)[:, None], np.cumsum(sizes)[:-1])
    means = sum((part * share).sum(axis=0) for part, share in zip(beyond, shares(sums, sizes), strict=True))
    total = told / (1 - told)
    means = means * min(total / max(float(prior @ means), 1e-9), 1.0)
    return made, np.log(np.maximum(prior, 1e-6)) - means / 2


def _impurity(prior: NDArray[np.float64]) -> float:
    return max(float(1 - (prior**2).sum()), 1e-3)

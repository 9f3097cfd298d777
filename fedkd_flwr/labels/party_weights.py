"""How much each party counts in an average of answers: equally, as published, or by what its labels are worth.

A weighting returns shares of 1, one a party, for labels (num_parties, num_rows) without `ABSTAIN`: those of one round
only (the argmax of what was sent), so it is post-processing of what the server holds anyway.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.labels.dawid_skene import five_steps
from fedkd_flwr.labels.majority import majority
from fedkd_flwr.labels.voting import Labels

__all__ = [
    "WEIGHTINGS",
    "WeightingName",
    "agreement_weights",
    "dawid_skene_weights",
    "equal_weights",
]

WeightingName = Literal["equal", "agreement", "dawid-skene"]


def equal_weights(label_matrix: Labels, *, num_classes: int) -> NDArray[np.float64]:
    """Return the same weight for every party, as published.

    >>> equal_weights(np.zeros((4, 2), np.int16), num_classes=2).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    return np.full(len(label_matrix), 1 / len(label_matrix))


def agreement_weights(label_matrix: Labels, *, num_classes: int) -> NDArray[np.float64]:
    """Weigh a party by the share of rows on which it gives the label most parties give (ties: the lowest class).

    >>> agreement_weights(np.array([[0, 1], [0, 1], [1, 1]], np.int16), num_classes=2).tolist()
    [0.4, 0.4, 0.2]
    """
    votes = np.zeros((label_matrix.shape[1], num_classes), dtype=np.int32)
    rows = np.arange(label_matrix.shape[1])
    for labels in label_matrix:
        votes[rows, labels] += 1
    return _of_total_one((label_matrix == majority(votes, ties="lowest")).mean(axis=1))


def dawid_skene_weights(label_matrix: Labels, *, num_classes: int) -> NDArray[np.float64]:
    """Weigh a party by how probable its labels are under `five_steps` of Dawid-Skene, above guessing.

    >>> dawid_skene_weights(np.array([[0, 1, 2], [0, 1, 2], [2, 0, 1]], np.int16), num_classes=3).round(2).tolist()
    [0.5, 0.5, 0.0]
    """
    _, probs = five_steps(list(label_matrix), num_classes=num_classes)
    rows = np.arange(label_matrix.shape[1])
    mean = np.array([probs[rows, labels].mean() for labels in label_matrix])
    return _of_total_one(np.maximum(mean - 1 / num_classes, 0))


def _of_total_one(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    total = weights.sum()
    return weights / total if total > 0 else np.full(len(weights), 1 / len(weights))


WEIGHTINGS: dict[str, Callable[..., NDArray[np.float64]]] = {
    "equal": equal_weights,
    "agreement": agreement_weights,
    "dawid-skene": dawid_skene_weights,
}

"""Models that learn from labels of public rows: answers to queries, or labels that the server knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.models.classifier import Classifier

__all__ = ["labels_from_known", "teach"]

_TREES, _MOST_FOLDS = 100, 5


def labels_from_known(
    X: NDArray[Any], rows: NDArray[np.int64], labels: NDArray[np.int16], *, seed: int
) -> NDArray[np.int16]:
    """Return a random forest's labels of all public rows, each by a forest that was not taught that row.

    A forest repeats the rows it was taught. Judged by those it would seem to be right everywhere, and the consensus
    would tell which rows they are. ``rows`` and ``labels`` (num_known,) are the known rows, of each class at least two.
    """
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    forest = RandomForestClassifier(_TREES, random_state=seed)
    said = np.asarray(forest.fit(X[rows], labels).predict(X), dtype=np.int16)
    fewest = int(np.bincount(labels)[np.unique(labels)].min())
    folds = StratifiedKFold(min(_MOST_FOLDS, fewest), shuffle=True, random_state=seed)
    said[rows] = cross_val_predict(forest, X[rows], labels, cv=folds)
    return said


def teach(
    make: Callable[[], Classifier],
    X: NDArray[Any],
    rows: NDArray[np.int64],
    labels: NDArray[np.int16],
    counts: NDArray[np.float64] | None = None,
) -> Classifier:
    """Return a model, made by ``make``, that has learnt from the answered rows; `DataError` if no row has an answer.

    ``X`` (num_public, num_features) are all public rows; ``rows`` (num_queries,) those that were asked, no row twice,
    and ``labels`` (num_queries,), int16, the answers: -1 for none. ``counts`` (num_queries, num_classes) are learnt
    instead of labels.
    """
    answered = labels >= 0
    if counts is None:
        return make().fit(X[rows[answered]], labels[answered])
    return make().fit_soft(X[rows[answered]], counts[answered])

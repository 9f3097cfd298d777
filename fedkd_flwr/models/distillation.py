"""Training a model on answers to queries: labels or noisy counts for some of the public rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.models.classifier import Classifier

__all__ = ["teach"]


def teach(
    make: Callable[[], Classifier],
    X: NDArray[Any],
    rows: NDArray[np.int64],
    labels: NDArray[np.int16],
    counts: NDArray[np.float64] | None = None,
    *,
    self_training: bool = False,
) -> Classifier:
    """Return a model that has learnt from the answered rows.

    Raises `DataError` if no row has an answer.

    Parameters
    ----------
    make : callable
        Returns a fresh model.
    X : ndarray of shape (num_public, num_features)
        All public rows; texts have shape (num_public, 1).
    rows, labels : ndarray of shape (num_queries,), int64 and int16
        Numbers of the rows that were asked, no row twice, and the answers: -1 for a row without one.
    counts : ndarray of shape (num_queries, num_classes), float64, optional
        Noisy counts to learn from instead of the labels.
    self_training : bool
        Whether a first model labels the rows without an answer, and a second one is trained on all rows. With counts
        the first model labels the answered rows too.
    """
    answered = labels >= 0
    rows, labels = rows[answered], labels[answered]
    model = make()
    if counts is None:
        model.fit(X[rows], labels)
    else:
        model.fit_soft(X[rows], counts[answered])
    rest = np.setdiff1d(np.arange(len(X)), rows)
    if not self_training or not len(rest):
        return model
    learnt = model.predict(X) if counts is not None else np.empty(len(X), dtype=np.int16)
    learnt[rest] = model.predict(X[rest])
    if counts is None:
        learnt[rows] = labels
    return make().fit(X, learnt)

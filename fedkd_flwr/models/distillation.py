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
    """Return a model, made by ``make``, that has learnt from the answered rows; `DataError` if no row has an answer.

    ``X`` (num_public, num_features) are all public rows; ``rows`` (num_queries,) those that were asked, no row twice,
    and ``labels`` (num_queries,), int16, the answers: -1 for none. ``counts`` (num_queries, num_classes) are learnt
    instead of labels. With ``self_training`` a first model labels the rows without an answer (with counts the answered
    ones too), and a second one is trained on all rows.
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

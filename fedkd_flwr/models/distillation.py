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

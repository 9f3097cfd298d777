"""What the server's own labelled rows tell of all public rows: the answer of one more party, which is the server."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["labels_from_known"]

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

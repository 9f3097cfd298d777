"""A linear classifier over bins: which thresholds a row's features reach decides its scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin

__all__ = ["BinnedLinear"]


@dataclass(eq=False, repr=False)
class BinnedLinear(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # sklearn has no types
    """Scores that are linear in whether features reach thresholds, as noisy sums give them; nothing is learnt of rows.

    Parameters
    ----------
    columns, thresholds : ndarray of shape (num_thresholds,)
        Feature ``columns[i]`` reaches threshold i from ``thresholds[i]`` on.
    weights : ndarray of shape (num_thresholds, num_classes)
        What reaching a threshold adds to each class's score.
    intercept : ndarray of shape (num_classes,)
        The scores of a row that reaches none.
    sums : ndarray of shape (cells, num_classes), int64
        The released counts that the scores were made from: rows can be drawn from them.
    noises : int
        How often noise was added to what they are the sum of.
    edges, values : list of ndarray
        The bins of each column, as in `fedkd_flwr.data.bins.Bins`.
    """

    columns: Any = None
    thresholds: Any = None
    weights: Any = None
    intercept: Any = None
    sums: Any = None
    noises: int = 0
    edges: Any = None
    values: Any = None

    def fit(self, X: NDArray[Any], y: NDArray[Any]) -> Self:
        """Take note of the classes and the number of features; the scores are given."""
        self.classes_, self.n_features_in_ = np.unique(y), X.shape[1]
        return self

    def predict(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the label of each row."""
        return np.asarray(self.classes_[self._scores(X).argmax(axis=1)])

    def predict_proba(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """Return the probability of each class."""
        return np.asarray(softmax(self._scores(X), axis=1))

    def _scores(self, X: NDArray[Any]) -> NDArray[np.float64]:
        reached = np.asarray(X)[:, self.columns] >= self.thresholds
        return np.asarray(reached @ self.weights + self.intercept)

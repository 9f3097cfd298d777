"""Regressors among classifiers: one that learns the numbers that classes stand for, and answers with probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone

__all__ = ["ByValues"]


@dataclass(eq=False, repr=False)
class ByValues(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # sklearn has no types
    """A regressor over what classes stand for (``values``, ascending), as a classifier over the classes.

    It learns each row's number: its class's, or the mean under the weights of its classes. A prediction becomes the
    probabilities of the two classes around it whose mean it is, so that nothing of it is lost between the ends.

    >>> from sklearn.linear_model import LinearRegression
    >>> model = ByValues(LinearRegression(), (0.0, 10.0, 20.0)).fit(np.array([[0.0], [2.0]]), np.array([0, 2]))
    >>> model.predict_proba(np.array([[1.2]])).round(2).tolist()
    [[0.0, 0.8, 0.2]]
    """

    regressor: Any = None
    values: Any = ()
    keeps_label_space = True  # its outputs stand for all classes, also for absent ones

    def fit(self, X: NDArray[Any], y: NDArray[Any]) -> Self:
        """Learn from rows and their classes."""
        return self._learn(X, np.asarray(self.values)[y])

    def fit_soft(self, X: NDArray[Any], weights: NDArray[np.floating]) -> Self:
        """Learn from rows and weights of their classes, of total 1 in each row."""
        return self._learn(X, weights @ np.asarray(self.values))

    def _learn(self, X: NDArray[Any], numbers: NDArray[np.floating]) -> Self:
        self.fitted_ = clone(self.regressor).fit(X, numbers)
        self.classes_, self.n_features_in_ = np.arange(len(self.values)), X.shape[1]
        return self

    def predict(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the class of each row whose value is nearest to the prediction."""
        return np.asarray(self.predict_proba(X).argmax(axis=1))

    def predict_proba(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """Return the probability of each class: of the two around the prediction, in the share of their distance."""
        values = np.asarray(self.values, dtype=np.float64)
        found = np.clip(self.fitted_.predict(X), values[0], values[-1])
        low = np.clip(np.searchsorted(values, found, side="right") - 1, 0, len(values) - 2)
        rows, probs = np.arange(len(found)), np.zeros((len(found), len(values)))
        probs[rows, low + 1] = (found - values[low]) / (values[low + 1] - values[low])
        probs[rows, low] = 1.0 - probs[rows, low + 1]
        return probs

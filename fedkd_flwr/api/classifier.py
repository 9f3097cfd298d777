"""A whole federation as one classifier of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from fedkd_flwr.api.federated import Federated
from fedkd_flwr.data.columns import canonical
from fedkd_flwr.errors import DataError, explain

__all__ = ["FederatedClassifier"]

_RULE = "hold classes with different names, none of them a word for a missing value"


class FederatedClassifier(ClassifierMixin, Federated):  # type: ignore[misc]  # scikit-learn has no types
    """A classifier that learns as a federation would: `fit` simulates one, and the server's model answers.

    Where the algorithm leaves the server no model (fedct), the probabilities of all parties' models are averaged.
    Parameters as in `fedkd_flwr.api.federated.Federated`: ``estimator``, ``algorithm``, ``n_parties``, ``partitioner``,
    ``settings``, ``random_state``.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    result_ : FederationResult
        Figures of the federation, and all its models.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = FederatedClassifier(DecisionTreeClassifier(), n_parties=3, random_state=0).fit(X, y)
    >>> model.predict(X[:2]).tolist()
    [0, 0]
    """

    _target = "classes"

    def _checked(self, y: NDArray[Any]) -> NDArray[Any]:
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise DataError(explain("y", "hold at least two classes", f"{len(self.classes_)} class"))
        names = [canonical(value) for value in self.classes_]
        if None in names or len(set(names)) < len(names):
            raise DataError(explain("y", _RULE, str(self.classes_.tolist())))
        return y

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of each row, an array of shape (n,)."""
        answers = self._answers(X)
        position = {value: i for i, value in enumerate(self.classes_.tolist())}
        return self.classes_[np.array([position[value] for value in answers.tolist()], dtype=np.intp)]

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each class for each row, (n, n_classes) float64 in the order of ``classes_``."""
        check_is_fitted(self)
        found = self.result_.predict_proba(self._rows(X))
        known = self.result_.classes
        return found.to_numpy()[:, [known.index(value) for value in self.classes_.tolist()]]

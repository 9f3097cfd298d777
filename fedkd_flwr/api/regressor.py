"""A whole federation as one regressor of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.multiclass import type_of_target

from fedkd_flwr.api.federated import Federated
from fedkd_flwr.errors import DataError, explain

__all__ = ["FederatedRegressor"]


class FederatedRegressor(RegressorMixin, Federated):  # type: ignore[misc]  # scikit-learn has no types
    """A regressor that learns as a federation would: parties vote on bins of y, and the server's model answers.

    Where the algorithm leaves the server no model (fedct), the probabilities of all parties' models are averaged.
    Parameters as in `fedkd_flwr.api.federated.Federated`: ``estimator`` (a regressor, or a classifier of the bins),
    ``algorithm``, ``n_parties``, ``partitioner`` (by bins), ``settings``, such as
    ``{"target": "number(bins=20)"}``, ``random_state``.

    Attributes
    ----------
    n_features_in_ : int
    result_ : FederationResult
        Figures of the federation, and all its models.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.linspace(0, 9, 90)[:, None]
    >>> model = FederatedRegressor(DecisionTreeRegressor(), n_parties=2, random_state=0).fit(X, 2 * X[:, 0])
    >>> bool(abs(model.predict([[4.0]])[0] - 8.0) < 2)
    True
    """

    _target = "number"

    def _checked(self, y: NDArray[Any]) -> NDArray[Any]:
        try:
            numbers = y.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(explain("y", "hold numbers", f"{type_of_target(y)} labels")) from error
        if len(np.unique(numbers)) < 2:
            raise DataError(
                explain("y", "hold two different numbers or more", f"n_samples={len(y)}, all of them alike")
            )
        return numbers

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the number of each row, an array of shape (n,), float64."""
        return self._answers(X).to_numpy(dtype=np.float64)

"""A whole federation as one estimator of scikit-learn: a classifier, or a regressor."""

from __future__ import annotations

import tempfile
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import assert_all_finite, check_consistent_length, check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from fedkd_flwr.api.rows import free_name, given_rows, settings_of, table_of
from fedkd_flwr.api.simulate import run
from fedkd_flwr.data.columns import canonical
from fedkd_flwr.errors import DataError, explain

__all__ = ["Federated", "FederatedClassifier", "FederatedRegressor"]


class Federated(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Base of the estimators that simulate a federation in `fit`. Subclasses say what is asked of y: `_target`.

    Parameters
    ----------
    estimator : estimator, torch module, str or dict
        The parties' model, as ``model`` of `fedkd_flwr.simulate`; by default a random forest.
    algorithm : str
        Such as fedkt, fedct, pate or fedmd.
    n_parties : int
        How many parties the rows are split among, where `fit` is given no groups.
    partitioner : str
        How: iid, dirichlet, ...
    settings : dict, optional
        Other settings of a run, in snake_case.
    random_state : int, RandomState or None
        What the run's seed is drawn from.
    """

    _target = ""  # of a run: what its label is

    def __init__(
        self,
        estimator: Any = None,
        algorithm: str = "fedkt",
        n_parties: int = 5,
        *,
        partitioner: str = "iid",
        settings: dict[str, Any] | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.algorithm = algorithm
        self.n_parties = n_parties
        self.partitioner = partitioner
        self.settings = settings
        self.random_state = random_state

    def fit(self, X: Any, y: Any, groups: Any = None, public: Any = None) -> Self:
        """Simulate a federation on these rows.

        Parameters
        ----------
        X : frame or array of shape (n, features)
            Columns may hold numbers, categories and dates, and cells may be empty.
        y : array of shape (n,)
            What is to be predicted.
        groups : array of shape (n,), optional
            Whose row each is.
        public : like X, optional
            Rows that all parties may see. By default a quarter of X is held out for that.

        Raises
        ------
        ValueError
            If the rows do not fit.
        """
        table, y = self._rows(X, reset=True), column_or_1d(y, warn=True)
        check_consistent_length(table, y)
        assert_all_finite(y, input_name="y")
        y = self._checked(y)
        seed = self.random_state
        if not isinstance(seed, int | np.integer):
            seed = check_random_state(seed).randint(2**31 - 1)
        told = {"partitioner": self.partitioner, **(self.settings or {})} if groups is None else self.settings or {}
        given = {"model": self.estimator, "algorithm": self.algorithm, "seed": int(seed), "target": self._target}
        given |= {"party_test_fraction": 0.0, "centralised": False, "save_party_models": True, **told}
        label = free_name("label of the row", table.columns)
        whole = table.assign(**{label: y})
        # whoever fits an estimator measures it elsewhere: one row is enough for the test that a run makes
        more = {"parties": self.n_parties if groups is None else groups, "public": public, "test": whole.iloc[:1]}
        with tempfile.TemporaryDirectory() as folder, given_rows(whole, label=label, **more) as (rows, values):
            self.result_ = run({**rows, **settings_of(given), "output-dir": folder}, values, progress=False)
        return self

    def _checked(self, y: NDArray[Any]) -> NDArray[Any]:
        """Return y, after it is refused where it cannot be learnt."""
        return y

    def _answers(self, X: Any) -> pd.Series[Any]:
        check_is_fitted(self)
        return self.result_.predict(self._rows(X))

    def _rows(self, X: Any, *, reset: bool = False) -> pd.DataFrame:
        if hasattr(X, "to_pandas"):
            X = X.to_pandas()
        if isinstance(X, pd.DataFrame):
            validate_data(self, X, skip_check_array=True, reset=reset)
        else:
            X = validate_data(self, X, dtype=None, ensure_all_finite="allow-nan", reset=reset)
        return table_of(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.categorical = tags.input_tags.string = True
        return tags


_RULE = "hold classes with different names, none of them a word for a missing value"


class FederatedClassifier(ClassifierMixin, Federated):  # type: ignore[misc]  # scikit-learn has no types
    """A classifier that learns as a federation would: `fit` simulates one, and the server's model answers.

    Where the algorithm leaves the server no model (fedct), the probabilities of all parties' models are averaged.
    Parameters as in `fedkd_flwr.api.estimators.Federated`: ``estimator``, ``algorithm``, ``n_parties``,
    ``partitioner``, ``settings``, ``random_state``.

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


class FederatedRegressor(RegressorMixin, Federated):  # type: ignore[misc]  # scikit-learn has no types
    """A regressor that learns as a federation would: parties vote on bins of y, and the server's model answers.

    Where the algorithm leaves the server no model (fedct), the probabilities of all parties' models are averaged.
    Parameters as in `fedkd_flwr.api.estimators.Federated`: ``estimator`` (a regressor, or a classifier of the bins),
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
            seen = f"n_samples={len(y)}, all of them alike"
            raise DataError(explain("y", "hold two different numbers or more", seen))
        return numbers

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the number of each row, an array of shape (n,), float64."""
        return self._answers(X).to_numpy(dtype=np.float64)

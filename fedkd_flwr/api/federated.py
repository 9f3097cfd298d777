"""What a whole federation needs to be one estimator of scikit-learn, whatever it predicts."""

from __future__ import annotations

import tempfile
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import (
    assert_all_finite,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from fedkd_flwr.api.rows import free_name, given_rows, settings_of, table_of
from fedkd_flwr.api.run import run

__all__ = ["Federated"]


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
        given = {
            "model": "random-forest" if self.estimator is None else self.estimator,
            "algorithm": self.algorithm,
            "seed": int(seed),
            "party_test_fraction": 0.0,
            "centralised": False,
            "save_party_models": True,
            "target": self._target,
            **told,
        }
        label = free_name("label of the row", table.columns)
        whole = table.assign(**{label: y})
        parties = self.n_parties if groups is None else groups
        # whoever fits an estimator measures it elsewhere: one row is enough for the test that a run makes
        more = {"parties": parties, "public": public, "test": whole.iloc[:1]}
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

"""scikit-learn style estimators of our own."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.neighbors import KNeighborsRegressor
from sklearn.preprocessing import StandardScaler

from fedkd_flwr.errors import import_extra

__all__ = ["BinnedLinear", "ByValues", "NearestNeighbours", "NumberScaler", "RuleFit", "require_extra"]

_LIBRARIES = {
    "xgboost": ("xgboost",),
    "rulefit": ("imodels",),
    "torch": ("torch", "safetensors"),
    "text": ("torch", "transformers", "safetensors"),
}
_PARTS = 3  # of own rows, each left out once
MAX_ALPHA = 1e4  # where imodels' own search starts; no rule is left there


def require_extra(extra: str) -> None:
    """Import every library of an extra, so that the error names the one that is missing; raises as `import_extra`."""
    for library in _LIBRARIES.get(extra, ()):
        import_extra(library, extra)


class NumberScaler(StandardScaler):  # type: ignore[misc]  # sklearn has no types
    """Standardises numbers and leaves columns of 0 and 1 as they are.

    A category is such a column for each of its values, and dividing by the deviation would make the rarest values weigh
    most: ten times as much as a number where one row in a hundred has the value.
    """

    def fit(self, X: NDArray[Any], y: Any = None, sample_weight: NDArray[np.floating] | None = None) -> Self:
        """Find mean and deviation of each column that holds anything else than 0 and 1."""
        super().fit(X, y, sample_weight)
        X = np.asarray(X)
        flags = ((X == 0) | (X == 1)).all(axis=0)
        self.mean_[flags], self.scale_[flags] = 0.0, 1.0
        return self


@dataclass(eq=False, repr=False)
class NearestNeighbours(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # sklearn has no types
    """k nearest neighbours on standardised numbers; k is lowered to the number of rows if a party holds fewer.

    scikit-learn's own estimator raises at the first prediction then. Parameters as in its ``KNeighborsClassifier``.
    """

    n_neighbors: int = 5
    weights: str = "uniform"
    p: float = 2

    def fit(self, X: NDArray[Any], y: NDArray[Any]) -> Self:
        """Remember the rows."""
        self.classes_, codes = np.unique(y, return_inverse=True)
        return self._remember(X, np.eye(len(self.classes_))[codes])

    def fit_soft(self, X: NDArray[Any], weights: NDArray[np.float64]) -> Self:
        """Remember rows whose classes, 0 and on, have weights of sum 1: (num_rows, num_classes)."""
        self.classes_ = np.arange(weights.shape[1])
        return self._remember(X, weights)

    def _remember(self, X: NDArray[Any], weights: NDArray[np.float64]) -> Self:
        self.scaler_ = NumberScaler().fit(X)
        # brute force is fast enough at these sizes, and can be saved as plain arrays, unlike a tree
        self.knn_ = KNeighborsRegressor(
            min(self.n_neighbors, len(X)), weights=self.weights, p=self.p, algorithm="brute", n_jobs=1
        ).fit(self.scaler_.transform(X), weights)
        self.n_features_in_ = X.shape[1]
        return self

    def predict(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the label of each row: the class with most weight, the lowest of equal ones."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])

    def predict_proba(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the mean weight of each class among the neighbours."""
        return np.asarray(self.knn_.predict(self.scaler_.transform(X)))


@dataclass(eq=False, repr=False)
class ByValues(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # sklearn has no types
    """A regressor over what classes stand for (``values``, ascending), as a classifier over the classes.

    It learns each row's number: its class's, or the mean under the weights of its classes. A prediction becomes the
    probabilities of the two classes around it whose mean it is, so that nothing of it is lost between the ends.

    Where the first ``own_rows`` rows are a party's own, a column more tells them from the others: the party's numbers
    may be higher for the same features. ``home``: whether it answers for rows like these, 1, or like the others, 0.
    Where three fits, which leave a third of the own rows out each, answer these no better as own, it never does. A
    regressor that takes no such column learns without it.

    >>> from sklearn.linear_model import LinearRegression
    >>> model = ByValues(LinearRegression(), (0.0, 10.0, 20.0)).fit(np.array([[0.0], [2.0]]), np.array([0, 2]))
    >>> model.predict_proba(np.array([[1.2]])).round(2).tolist()
    [[0.0, 0.8, 0.2]]
    """

    regressor: Any = None
    values: Any = ()
    own_rows: int = 0
    home: float = 0.0
    keeps_label_space = True  # its outputs stand for all classes, also for absent ones

    def fit(self, X: NDArray[Any], y: NDArray[Any]) -> Self:
        """Learn from rows and their classes."""
        return self._learn(X, np.asarray(self.values)[y])

    def fit_soft(self, X: NDArray[Any], weights: NDArray[np.floating]) -> Self:
        """Learn from rows and weights of their classes, of total 1 in each row."""
        return self._learn(X, weights @ np.asarray(self.values))

    def _learn(self, X: NDArray[Any], numbers: NDArray[np.floating]) -> Self:
        self.classes_, self.n_features_in_ = np.arange(len(self.values)), X.shape[1]
        own, errors = np.arange(len(X)) < (0 if X.dtype == object else self.own_rows), np.zeros(2)
        self.marked_ = bool(own.sum() >= _PARTS)
        try:
            for part in range(_PARTS if self.marked_ else 0):
                out = own & (np.arange(len(X)) % _PARTS == part)
                self.fitted_ = clone(self.regressor).fit(self._with(X[~out], own[~out]), numbers[~out])
                told = [self.fitted_.predict(self._with(X[out], np.full(out.sum(), mark))) for mark in (False, True)]
                errors += ((np.array(told) - numbers[out]) ** 2).sum(axis=1)
            self.fitted_ = clone(self.regressor).fit(self._with(X, own), numbers)
        except (IndexError, RuntimeError, ValueError):
            if not self.marked_:
                raise
            self.marked_, self.fitted_ = False, clone(self.regressor).fit(X, numbers)
        self.differs_ = bool(errors[1] < errors[0])
        return self

    def _with(self, X: NDArray[Any], own: NDArray[np.bool_]) -> NDArray[Any]:
        return np.column_stack((X, own)) if self.marked_ else X

    def predict(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the class of each row whose value is nearest to the prediction."""
        return np.asarray(self.predict_proba(X).argmax(axis=1))

    def predict_proba(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """Return the probability of each class: of the two around the prediction, in the share of their distance."""
        values = np.asarray(self.values, dtype=np.float64)
        mark = np.full(len(X), bool(self.home) and self.differs_)
        found = np.clip(self.fitted_.predict(self._with(X, mark)), values[0], values[-1])
        low = np.clip(np.searchsorted(values, found, side="right") - 1, 0, len(values) - 2)
        rows, probs = np.arange(len(found)), np.zeros((len(found), len(values)))
        probs[rows, low + 1] = (found - values[low]) / (values[low + 1] - values[low])
        probs[rows, low] = 1.0 - probs[rows, low + 1]
        return probs


@dataclass(eq=False, repr=False)
class BinnedLinear(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # sklearn has no types
    """Scores that are linear in which thresholds features reach, as noisy sums give them; of rows nothing is learnt."""

    columns: Any = None  # feature ``columns[i]`` reaches threshold i from ``thresholds[i]`` on: (num_thresholds,)
    thresholds: Any = None
    weights: Any = None  # what reaching a threshold adds to each class's score: (num_thresholds, num_classes)
    intercept: Any = None  # the scores of a row that reaches none: (num_classes,)
    # the released counts that the scores were made from, int64 (cells, num_classes): rows can be drawn from them
    sums: Any = None
    noises: int = 0  # how often noise was added to what they are the sum of
    lows: Any = None  # the bins of each column, as in `fedkd_flwr.data.bins.Bins`
    highs: Any = None

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


@dataclass(eq=False, repr=False)
class RuleFit(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # sklearn has no types
    """RuleFit as imodels fits it, kept as plain arrays: for any number of classes, fast, and safe to save.

    imodels handles two classes only, evaluates each rule as a pandas query string at every prediction, and its fitted
    object can only be pickled. Here imodels fits the rules (with more than two classes, one class against the others),
    and they are copied into arrays. The probabilities are the same.

    Source: J. H. Friedman, B. E. Popescu, "Predictive learning via rule ensembles", 2008; imodels' `RuleFitClassifier`.
    """

    tree_size: int = 4  # mean number of leaves of the trees that propose rules; 4 in the FedCT paper
    max_rules: int = 200  # upper bound of the terms (rules and columns) of the model; 200 in the FedCT paper
    n_estimators: int = 100  # trees whose branches become rules
    memory_par: float = 0.01  # shrinkage of the trees
    include_linear: bool = True  # whether columns are terms besides the rules
    alpha: float = 1.0  # strength of the L1 penalty, doubled until at most ``max_rules`` terms are left
    random_state: int | None = None

    def fit(self, X: NDArray[Any], y: NDArray[Any]) -> Self:
        """Fit one model of rules for each class; for two classes one model."""
        imodels = import_extra("imodels", "rulefit")
        X = np.asarray(X, dtype=np.float64)  # thresholds are float64; float32 columns would compare differently
        self.classes_ = np.unique(y)
        self.n_features_in_ = X.shape[1]
        positives = self.classes_[1:] if len(self.classes_) == 2 else self.classes_
        self.models_ = [self._fit_rules(imodels, X, (y == positive).astype(np.int64)) for positive in positives]
        return self

    def _fit_rules(self, imodels: Any, X: NDArray[np.float64], y: NDArray[np.int64]) -> dict[str, Any]:
        params = self.get_params()
        while True:
            # without imodels 3.0's cross-validation, whose scores it never uses and which fails on rare classes
            model = imodels.RuleFitClassifier(**params, cv=False)
            with warnings.catch_warnings():
                # imodels uses a parameter that scikit-learn 1.8 deprecated: hundreds of warnings per fit
                warnings.filterwarnings("ignore", message=".*penalty", module="sklearn.linear_model")
                warnings.filterwarnings("ignore", message="Ignoring max_rules parameter")
                model.fit(X, y)
            terms = np.count_nonzero(model.coef)
            if terms <= self.max_rules or params["alpha"] > MAX_ALPHA:
                return _read_rules(model)
            params["alpha"] *= 2

    def predict(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the label of each row."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])

    def predict_proba(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """Return the probability of each class."""
        X = np.asarray(X, dtype=np.float64)
        # imodels' softmax over (1 - s, s)
        positive = np.column_stack([1 / (1 + np.exp(np.clip(1 - 2 * _score(m, X), -700, 700))) for m in self.models_])
        if len(self.classes_) == 2:
            return np.column_stack((1 - positive, positive))
        total = positive.sum(axis=1, keepdims=True)
        return np.asarray(
            np.divide(positive, total, out=np.full_like(positive, 1 / len(self.classes_)), where=total > 0)
        )


def _read_rules(model: Any) -> dict[str, Any]:
    """Read a fitted imodels RuleFit into arrays; a rule is a conjunction of ``column <= or > threshold``."""
    rules = model.rules_without_feature_names_
    terms = [(i, *key, value) for i, rule in enumerate(rules) for key, value in rule.agg_dict.items()]
    linear = np.zeros(model.n_features_)
    lower, upper = np.full(model.n_features_, -np.inf), np.full(model.n_features_, np.inf)
    if model.include_linear:
        linear = np.asarray(model.coef[: model.n_features_], dtype=np.float64)
        if model.lin_standardise:
            lower, upper = model.winsorizer.winsor_lims
            linear = linear * model.friedscale.scale_multipliers
    return {
        "rule": np.array([term[0] for term in terms], dtype=np.int64),
        "column": np.array([int(term[1].removeprefix("X_")) for term in terms], dtype=np.int64),
        "above": np.array([term[2] == ">" for term in terms], dtype=bool),
        "threshold": np.array([float(term[3]) for term in terms], dtype=np.float64),
        "weight": np.array([rule.args[0] for rule in rules], dtype=np.float64),
        "linear": linear,
        "lower": np.asarray(lower, dtype=np.float64),
        "upper": np.asarray(upper, dtype=np.float64),
        "intercept": float(np.ravel(model.intercept)[0]),
    }


def _score(model: dict[str, Any], X: NDArray[np.float64]) -> NDArray[np.float64]:
    score = np.clip(X, model["lower"], model["upper"]) @ model["linear"] + model["intercept"]
    values = X[:, model["column"]]
    holds = np.where(model["above"], values > model["threshold"], values <= model["threshold"])
    fulfilled = np.ones((len(X), len(model["weight"])), dtype=bool)
    for term, rule in enumerate(model["rule"]):
        fulfilled[:, rule] &= holds[:, term]
    return np.asarray(score + fulfilled @ model["weight"])

"""Learning from soft targets: noisy vote counts, margins, averaged probabilities.

A row's targets say how much each class is worth *relative to the others* of that row, so adding a constant to a row
does not change what should be learnt. `soft_weights` adds constants that make every row's weights non-negative with the
same total, which makes them fractional labels. For two classes with margins m and M = max |m| the weights are
proportional to M - m and M + m. A tree's Gini impurity on such fractional labels, ``1 - p_0^2 - p_1^2`` with
p_1 - p_0 = mean(m)/M, differs from the squared error of the margin, ``mean(m^2) - mean(m)^2``, by a factor and by a sum
over rows that no split changes, so both grow the same tree. For more classes it is the squared error of the weight
vectors. `fit_soft_estimator` says how an estimator gets the weights.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.pipeline import Pipeline
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier, ExtraTreeRegressor
from sklearn.tree._tree import Tree
from sklearn.utils.validation import has_fit_parameter

from fedkd_flwr.errors import DataError, explain

__all__ = ["fit_soft_estimator", "soft_weights", "takes_weights"]

_REGRESSORS = {
    DecisionTreeClassifier: DecisionTreeRegressor,
    ExtraTreeClassifier: ExtraTreeRegressor,
    RandomForestClassifier: RandomForestRegressor,
    ExtraTreesClassifier: ExtraTreesRegressor,
}


def soft_weights(targets: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return targets as weights of the classes: >= 0, of total 1 in each row, and with differences in proportion.

    A constant is added to each row so that all rows have the same total R, and all is divided by R. R is the least
    total with which no weight is negative. If no target is negative (votes, probabilities), R is the largest total of a
    row: the votes that a row has fewer are spread evenly over the classes, and probabilities do not change. Both are
    (num_rows, num_classes). Raises `DataError` if no row prefers a class, so that there is nothing to learn.

    Margins of 4 and -2 between two classes (M = 4), and votes of three and of one voter:

    >>> soft_weights(np.array([[-2.0, 2.0], [1.0, -1.0]])).tolist()
    [[0.0, 1.0], [0.75, 0.25]]
    >>> soft_weights(np.array([[3.0, 0.0], [0.0, 1.0]])).round(2).tolist()
    [[1.0, 0.0], [0.33, 0.67]]
    """
    targets = np.asarray(targets, dtype=np.float64)
    if bool((targets == targets[:, :1]).all()):
        raise DataError(explain("targets", "prefer a class in at least one row", "all classes equal in every row"))
    num_classes = targets.shape[1]
    targets = targets / np.abs(targets).max()  # otherwise sums of values near the largest float overflow
    totals = targets.sum(axis=1)
    total = totals.max() if targets.min() >= 0 else (totals - num_classes * targets.min(axis=1)).max()
    weights = (targets + ((total - totals) / num_classes)[:, None]) / total
    weights[weights < 1e-12] = 0  # rounding errors of weights that are zero
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def takes_weights(estimator: Any) -> bool:
    """Return whether an estimator can use weights of classes, and not only the label of the largest weight."""
    if type(estimator) is Pipeline:
        return takes_weights(estimator.steps[-1][1])
    return callable(getattr(estimator, "fit_soft", None)) or has_fit_parameter(estimator, "sample_weight")


def fit_soft_estimator(estimator: Any, X: NDArray[Any], weights: NDArray[np.float64]) -> None:
    """Fit an estimator in place on rows whose classes have weights, as `soft_weights` returns them.

    - An estimator with a method ``fit_soft(X, weights)``, such as our torch nets, gets the weights unchanged.
    - scikit-learn's decision tree, extra tree, random forest and extra trees with Gini impurity learn from the weight
      vectors themselves: the tree that squared error grows on them is the tree that Gini impurity grows on fractional
      labels, and each row is drawn and counted once. (With weighted copies of each row, a forest's bootstrap counts of
      the copies are noise of the size of the signal: 0.63 for 0.71 on digits with Laplace noise of scale 4.)
    - Others whose ``fit`` takes ``sample_weight`` get a copy of each row for every class that has weight in it. A row's
      weights sum to 1, so that thresholds on weights (XGBoost's ``min_child_weight``) and penalties keep their meaning;
      thresholds on numbers of rows, such as ``min_samples_leaf``, count copies.
    - A `Pipeline` fits its transformers on the rows, and its last step in one of these ways.

    Afterwards the estimator, of which `takes_weights` must be true, predicts positions 0..num_classes-1.
    """
    if callable(getattr(estimator, "fit_soft", None)):
        estimator.fit_soft(X, weights)
    elif type(estimator) is Pipeline:
        for _, step in estimator.steps[:-1]:
            if step not in (None, "passthrough"):
                X = step.fit(X, weights.argmax(axis=1)).transform(X)
        fit_soft_estimator(estimator.steps[-1][1], X, weights)
    elif _has_soft_trees(estimator):
        _fit_trees(estimator, X, weights)
    else:
        rows, labels = np.nonzero(weights)
        estimator.fit(X[rows], labels, sample_weight=weights[rows, labels])


def _has_soft_trees(estimator: Any) -> bool:
    """Return whether growing trees by squared error on weights is what this estimator's settings ask for."""
    if type(estimator) not in _REGRESSORS:
        return False
    params = estimator.get_params()
    neutral = {"criterion": "gini", "class_weight": None, "ccp_alpha": 0, "monotonic_cst": None}
    return all(params.get(name, value) == value for name, value in neutral.items())


def _fit_trees(estimator: Any, X: NDArray[Any], weights: NDArray[np.float64]) -> None:
    num_classes = weights.shape[1]
    offsets = weights - 1 / num_classes
    scale = float(np.abs(offsets).max())  # scikit-learn stops below an absolute impurity; rescale the targets
    regressor = _REGRESSORS[type(estimator)]()
    params = estimator.get_params(deep=False)
    params = {name: value for name, value in params.items() if name in regressor.get_params()}
    # squared error is a mean over outputs, Gini impurity a sum
    params["min_impurity_decrease"] /= num_classes * scale**2
    params |= {"criterion": "squared_error", **({"oob_score": False} if "oob_score" in params else {})}
    regressor.set_params(**params).fit(X, offsets / scale)

    def classify(grown: Any, tree: Any) -> Any:
        """Give a classifier's tree the nodes of a grown regressor's."""
        state = grown.tree_.__getstate__()
        probs = np.clip(1 / num_classes + scale * state["values"].reshape(-1, 1, num_classes), 0, 1)
        state["values"] = probs / probs.sum(axis=2, keepdims=True)
        tree.tree_ = Tree(grown.n_features_in_, np.array([num_classes], dtype=np.intp), 1)
        tree.tree_.__setstate__(state)
        tree.max_features_ = grown.max_features_
        return _as_fitted(tree, grown, num_classes)

    if not hasattr(regressor, "estimators_"):
        classify(regressor, estimator)
        return
    estimator.estimator_ = type(estimator)().estimator  # an unfitted tree, as the forest's own fit leaves it
    names = set(estimator.estimator_.get_params())
    estimator.estimators_ = []
    for grown in regressor.estimators_:
        settings = {name: value for name, value in grown.get_params().items() if name in names}
        settings |= {"criterion": "gini", "min_impurity_decrease": estimator.min_impurity_decrease}
        tree = clone(estimator.estimator_).set_params(**settings)
        estimator.estimators_.append(classify(grown, tree))
    for name in [name for name in vars(regressor) if name.startswith("_")]:  # which rows each tree drew
        setattr(estimator, name, getattr(regressor, name))
    _as_fitted(estimator, regressor, num_classes)


def _as_fitted(classifier: Any, regressor: Any, num_classes: int) -> Any:
    classifier.classes_ = np.arange(num_classes)
    classifier.n_classes_ = np.intp(num_classes)
    classifier.n_outputs_ = 1
    classifier.n_features_in_ = regressor.n_features_in_
    return classifier

"""Checks that nodes of trees from foreign bytes point inside the tree and the row.

scikit-learn's compiled prediction follows child and column numbers unchecked, so a forged tree could read outside its
memory or never end. In trees that scikit-learn grows, children always come after their parent.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["check_trees"]


_PREDICTOR = "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor"


def check_trees(model: Any) -> None:
    """Raise ValueError if a node of any tree inside a loaded model points outside the tree or its estimator's rows.

    Estimators of a pipeline read rows of different widths, and each refuses rows of another width than its own.
    """
    seen: set[int] = set()
    found, checked = set(), set()  # predictors of histogram gradient boosting, which do not know their own width
    waiting = [model]
    while waiting:
        item = waiting.pop()
        if id(item) in seen or isinstance(item, str | bytes | int | float | type):
            continue
        seen.add(id(item))
        name = f"{type(item).__module__}.{type(item).__qualname__}"
        if name == "sklearn.tree._tree.Tree":
            _check_tree(item)
        elif name == _PREDICTOR:
            found.add(id(item))
        elif isinstance(item, dict):
            waiting += item.values()
        elif isinstance(item, list | tuple | set):
            waiting += item
        elif isinstance(item, np.ndarray):
            waiting += item.ravel().tolist() if item.dtype == object else []
        if hasattr(item, "__dict__"):  # also of a dict that is more than one
            tree = getattr(item, "tree_", None)
            if tree is not None and tree.n_features != getattr(item, "n_features_in_", None):
                raise ValueError("a tree reads another number of columns than its estimator")
            if hasattr(item, "_predictors"):
                checked |= _check_boosting(item)
            waiting += vars(item).values()
    if not found <= checked:
        raise ValueError("a tree belongs to no estimator that says how many columns it reads")


def _check_tree(tree: Any) -> None:
    if tree.node_count < 1:
        raise ValueError("a tree has no nodes")
    left, right = tree.children_left, tree.children_right
    leaf = left == -1
    if not np.array_equal(leaf, right == -1):
        raise ValueError("a node of a tree has one child")
    _check_nodes(left, right, tree.feature, ~leaf, tree.n_features)


def _check_boosting(estimator: Any) -> set[int]:
    """Check the trees of histogram gradient boosting; return which they are."""
    num_features = estimator.n_features_in_
    if type(num_features) is not int:
        raise ValueError("n_features_in_ of an estimator is no whole number")
    if estimator._preprocessor is not None:
        _check_preprocessor(estimator._preprocessor)  # before it is run: another might hold trees that are not checked
        num_features = estimator._preprocessor.transform(np.zeros((1, num_features))).shape[1]
    categorical = np.asarray(estimator._bin_mapper.is_categorical_, dtype=bool)
    predictors = [predictor for trees in estimator._predictors for predictor in trees]
    for predictor in predictors:
        _check_predictor(predictor, num_features, categorical)
    return {id(predictor) for predictor in predictors}


def _check_preprocessor(preprocessor: Any) -> None:
    """Refuse all but what histogram gradient boosting makes of categories: ordinal codes, other columns as given."""
    parts = [preprocessor, *(part for _, part, _ in preprocessor.transformers_ if not isinstance(part, str))]
    if not {type(part).__name__ for part in parts} <= {"ColumnTransformer", "OrdinalEncoder", "FunctionTransformer"}:
        raise ValueError("the columns of an estimator are made by something else than its own preprocessor")


def _check_predictor(predictor: Any, num_features: int, is_categorical: NDArray[np.bool_]) -> None:
    nodes = predictor.nodes
    if len(nodes) < 1:
        raise ValueError("a tree has no nodes")
    inner = nodes["is_leaf"] == 0
    _check_nodes(nodes["left"], nodes["right"], nodes["feature_idx"], inner, num_features)
    categorical = inner & (nodes["is_categorical"] != 0)
    rows = min(len(predictor.raw_left_cat_bitsets), len(predictor.binned_left_cat_bitsets))
    columns = nodes["feature_idx"][categorical]
    known = len(is_categorical) >= num_features and is_categorical[columns].all()
    if not (known and (nodes["bitset_idx"][categorical] < rows).all()):
        raise ValueError("a node of a tree points outside its categories")


def _check_nodes(
    left: NDArray[Any], right: NDArray[Any], feature: NDArray[Any], inner: NDArray[Any], num_features: int
) -> None:
    own = np.arange(len(inner))[inner]
    for children in (left[inner].astype(np.int64), right[inner].astype(np.int64)):
        if not ((children > own) & (children < len(inner))).all():
            raise ValueError("a node of a tree points outside it")
    columns = feature[inner].astype(np.int64)
    if not ((columns >= 0) & (columns < num_features)).all():
        raise ValueError("a node of a tree reads a column that the rows lack")

"""Checks that nodes of trees from foreign bytes point inside the tree and the row.

scikit-learn's compiled prediction follows child and column numbers unchecked, so a forged tree could read outside its
memory or never end. In trees that scikit-learn grows, children always come after their parent.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["check_trees"]


def check_trees(model: Any, num_features: int | None) -> None:
    """Raise ValueError if a node of any tree inside a loaded model points outside the tree or the row.

    ``num_features`` is the number of columns of its rows, None if it is not fitted.
    """
    seen: set[int] = set()
    waiting = [model]
    while waiting:
        item = waiting.pop()
        if id(item) in seen or isinstance(item, str | bytes | int | float | type):
            continue
        seen.add(id(item))
        name = f"{type(item).__module__}.{type(item).__qualname__}"
        if name == "sklearn.tree._tree.Tree":
            _check_tree(item)
        elif name == "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor":
            _check_predictor(item, num_features or 0)
        elif isinstance(item, dict):
            waiting += item.values()
        elif isinstance(item, list | tuple | set):
            waiting += item
        elif isinstance(item, np.ndarray):
            waiting += item.ravel().tolist() if item.dtype == object else []
        elif hasattr(item, "__dict__"):
            tree = getattr(item, "tree_", None)
            if tree is not None and tree.n_features != getattr(item, "n_features_in_", None):
                raise ValueError("a tree reads another number of columns than its estimator")
            waiting += vars(item).values()


def _check_tree(tree: Any) -> None:
    if tree.node_count < 1:
        raise ValueError("a tree has no nodes")
    left, right = tree.children_left, tree.children_right
    leaf = left == -1
    if not np.array_equal(leaf, right == -1):
        raise ValueError("a node of a tree has one child")
    _check_nodes(left, right, tree.feature, ~leaf, tree.n_features)


def _check_predictor(predictor: Any, num_features: int) -> None:
    nodes = predictor.nodes
    if len(nodes) < 1:
        raise ValueError("a tree has no nodes")
    inner = nodes["is_leaf"] == 0
    _check_nodes(nodes["left"], nodes["right"], nodes["feature_idx"], inner, num_features)
    categorical = inner & (nodes["is_categorical"] != 0)
    rows = min(len(predictor.raw_left_cat_bitsets), len(predictor.binned_left_cat_bitsets))
    if not (nodes["bitset_idx"][categorical] < rows).all():
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

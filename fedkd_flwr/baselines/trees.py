"""Trees as plain arrays: what parties send of forests and boosted trees, and a model that computes with them.

A row goes left where its value is below the threshold. A child's place is its distance from its parent and a leaf's
distances are 0, so trees are put together by concatenation, and no number that passes `checked` leads out of a tree or
back to a parent. Everything is computed with NumPy: a library's compiled code would follow the numbers of another
party's file unchecked. Splits and leaf values leave alone, and not the gains, hessian sums and row counts that
XGBoost's and scikit-learn's own files hold beside each node.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin

from fedkd_flwr.errors import PayloadError, explain
from fedkd_flwr.models.classifier import Classifier

__all__ = ["NAMES", "TreeModel", "Trees"]
__all__ += ["checked", "cut", "leaf_values", "model_of", "of_booster", "of_forest", "outputs_of", "together"]

Trees = dict[str, NDArray[Any]]
"""Arrays by `NAMES`."""

NAMES = ("sizes", "columns", "thresholds", "left", "right", "values")
"""Nodes of each tree; column, threshold (float32) and distance to both children of each node; values of each leaf."""

_MOST = 1e6  # of a boosted leaf: XGBoost computes with float32 and squares
_BLOCK = 2**16  # rows times trees that are looked up at once


@dataclass(eq=False, repr=False)
class TreeModel(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # sklearn has no types
    """What trees say together: the mean of a forest's leaves, or the odds that boosted trees add up to.

    ``trees``: as `Trees`. ``num_classes``: boosted trees of more than two classes belong to class 0, 1, ..., 0, 1, ...
    in their order. ``boosted``: whether leaves hold shares of log-odds, of width 1; else probabilities, of width
    ``num_classes``.
    """

    trees: Any = None
    num_classes: int = 2
    boosted: bool = False

    def fit(self, X: NDArray[Any], y: NDArray[Any]) -> Self:
        """Take note of the classes and the number of features; the trees are given."""
        self.classes_, self.n_features_in_ = np.unique(y), X.shape[1]
        return self

    def predict(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the label of each row."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])

    def predict_proba(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """Return the probability of each class."""
        return self.probabilities(self.sums(X))

    def sums(self, X: NDArray[Any], *, after: int = 0) -> NDArray[np.float64]:
        """Return what the trees from number ``after`` on add up to for each row."""
        return leaf_values(cut(self.trees, after)[1], X, outputs=outputs_of(self.num_classes) if self.boosted else 1)

    def probabilities(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probability of each class for what all trees add up to."""
        if not self.boosted:
            return sums / len(self.trees["sizes"])
        return np.asarray(softmax(sums, axis=1)) if sums.shape[1] > 1 else np.hstack([expit(-sums), expit(sums)])


def model_of(trees: Trees, *, num_classes: int, num_features: int, boosted: bool) -> Classifier:
    """Return the model of these trees."""
    made = Classifier(TreeModel(trees, num_classes, boosted), num_classes=num_classes)
    return made.fit(np.zeros((num_classes, num_features), np.float32), np.arange(num_classes))


def outputs_of(num_classes: int) -> int:
    """Return how many trees a boosting step grows: one for two classes, else one a class."""
    return 1 if num_classes == 2 else num_classes


def leaf_values(trees: Trees, X: NDArray[Any], *, outputs: int) -> NDArray[np.float64]:
    """Return the sum of the leaves that each row reaches, (num_rows, outputs * width).

    ``outputs``: the trees 0, outputs, 2 * outputs, ... are summed up, then 1, outputs + 1, ..., and so on.
    """
    X, sizes = np.asarray(X, dtype=np.float32), trees["sizes"].astype(np.int64)
    roots, number = np.cumsum(sizes) - sizes, np.cumsum(trees["left"] == 0) - 1
    found = np.zeros((len(X), outputs * trees["values"].shape[1]))
    step = max(1, _BLOCK // max(len(sizes), 1))
    for start in range(0, len(X) if len(sizes) else 0, step):
        rows = X[start : start + step]
        at, own = np.tile(roots, len(rows)), np.repeat(np.arange(len(rows)), len(sizes))
        inner = np.arange(len(at))  # of the rows times trees, those that have reached no leaf
        while len(inner):
            node = at[inner]
            below = rows[own[inner], trees["columns"][node]] < trees["thresholds"][node]
            at[inner] = node = node + np.where(below, trees["left"][node], trees["right"][node])
            inner = inner[trees["left"][node] > 0]
        values = trees["values"][number[at]].astype(np.float64)  # (rows * trees, width)
        found[start : start + step] = values.reshape(len(rows), -1, found.shape[1]).sum(axis=1)
    return found


def together(parts: Sequence[Trees]) -> Trees:
    """Return the trees of all parts, one part after another.

    >>> def leaf(value):
    ...     return {name: np.zeros(1, np.uint8) for name in NAMES} | {
    ...         "sizes": np.ones(1, int), "values": np.full((1, 2), value)}
    >>> model_of(together([leaf(0.2), leaf(0.8)]), num_classes=2, num_features=1, boosted=False).predict_proba(
    ...     np.zeros((1, 1))).tolist()
    [[0.5, 0.5]]
    """
    return {name: np.concatenate([part[name] for part in parts]) for name in NAMES}


def cut(trees: Trees, count: int) -> tuple[Trees, Trees]:
    """Return the first ``count`` trees, and the others."""
    nodes = int(trees["sizes"][:count].sum())
    ends = {"sizes": count, "values": int((trees["left"][:nodes] == 0).sum())}
    before = {name: trees[name][: ends.get(name, nodes)] for name in NAMES}
    return before, {name: trees[name][len(before[name]) :] for name in NAMES}


def checked(arrays: Mapping[str, NDArray[Any]], *, num_features: int, num_classes: int, boosted: bool) -> Trees:
    """Return trees that came, if every path of them ends in a leaf with usable values; else raise `PayloadError`."""
    whole = {name: arrays[name] for name in NAMES if name in arrays and arrays[name].dtype.kind in "iu"}
    if list(arrays) != list(NAMES) or sorted([*whole, "thresholds", "values"]) != sorted(NAMES):
        raise PayloadError(explain("trees", f"be {', '.join(NAMES)}, numbers of their kinds", ", ".join(arrays)))
    sizes, columns, left, right = (whole[name].astype(np.int64) for name in ("sizes", "columns", "left", "right"))
    nodes, leaves, values, outputs = len(columns), int((left == 0).sum()), arrays["values"], outputs_of(num_classes)
    shapes = [arrays[name].shape for name in NAMES[1:]]
    if shapes != [(nodes,)] * 4 + [(leaves, 1 if boosted else num_classes)]:
        raise PayloadError(explain("trees", "hold as much for each node, and values for each leaf", str(shapes)))
    if sizes.ndim != 1 or not len(sizes) or sizes.min() < 1 or sizes.max() > nodes or sizes.sum() != nodes:
        raise PayloadError(explain("sizes of trees", f"be above 0 and add up to {nodes}", str(sizes[:5])))
    if boosted and len(sizes) % outputs:
        raise PayloadError(explain("boosted trees", f"be as many for each of {outputs} classes", len(sizes)))
    room = np.repeat(np.cumsum(sizes), sizes) - np.arange(nodes)  # places up to the end of the tree
    if not ((left >= 0) & (left < room) & (right >= 0) & (right < room) & ((left == 0) == (right == 0))).all():
        raise PayloadError(explain("children in trees", "stand after their parent in its tree", "others"))
    if columns.min() < 0 or columns.max() >= num_features:
        raise PayloadError(explain("columns of trees", f"be within 0..{num_features - 1}", int(columns.max())))
    if boosted and not np.abs(values).max() <= _MOST:
        raise PayloadError(explain("leaves of boosted trees", f"be within +-{_MOST:g}", float(np.abs(values).max())))
    if not boosted and not (values.min() >= 0 and np.abs(values.sum(axis=1) - 1).max() <= 1e-3):
        raise PayloadError(explain("leaves of a forest", "be shares of the classes", "others"))
    return {name: arrays[name] for name in NAMES}


# ---------------------------------------------------------------- from a library's trees


def of_booster(booster: Any) -> Trees:
    """Return the trees of one step of an XGBoost booster; of several parallel trees, one of each class in turn."""
    model = json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]["model"]
    parallel = int(model["gbtree_model_param"]["num_parallel_tree"])
    made = []
    for number in sorted(range(len(model["trees"])), key=lambda i: i % parallel):
        tree = model["trees"][number]
        left, right = (np.array(tree[f"{side}_children"]) for side in ("left", "right"))
        conditions = np.array(tree["split_conditions"], np.float32)  # of a leaf: its value
        made.append(_tree(left, right, tree["split_indices"], conditions, conditions[left < 0, None]))
    return together(made)


def of_forest(classifier: Classifier, *, num_trees: int) -> Trees:
    """Return the trees of a fitted forest of scikit-learn; of a constant classifier, as many that say its class."""
    classes, num_classes = classifier.classes, classifier.num_classes
    if classifier.is_constant:
        leaf = _tree(np.full(1, -1), np.full(1, -1), [0], np.zeros(1), np.eye(num_classes)[classes])
        return together([leaf] * num_trees)
    made = []
    for one in classifier.estimator.estimators_:
        tree = one.tree_
        leaves = tree.children_left < 0
        values = np.zeros((int(leaves.sum()), num_classes))
        values[:, classes] = tree.value[leaves, 0]
        values /= values.sum(axis=1, keepdims=True)
        # scikit-learn: a float32 row goes left up to a float64 threshold, thus below the next float32
        below = tree.threshold.astype(np.float32)
        below = np.where(below > tree.threshold, np.nextafter(below, np.float32(-np.inf)), below)
        above = np.nextafter(below, np.float32(np.inf))
        made.append(_tree(tree.children_left, tree.children_right, tree.feature, above, values))
    return together(made)


def _tree(left: Any, right: Any, columns: Any, thresholds: Any, values: Any) -> Trees:
    """Return one tree whose children are numbers of nodes, below 0 at leaves; whole numbers in as few bytes as fit."""
    inner, places = left >= 0, np.arange(len(left))
    whole = {
        "sizes": np.array([len(left)]),
        "columns": np.where(inner, columns, 0),
        "left": np.where(inner, left - places, 0),
        "right": np.where(inner, right - places, 0),
    }
    small = {name: array.astype(np.min_scalar_type(int(array.max()))) for name, array in whole.items()}
    floats = {"thresholds": np.where(inner, thresholds, 0), "values": values}
    return small | {name: array.astype(np.float32) for name, array in floats.items()}

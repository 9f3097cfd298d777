"""XGBoost's own JSON format, checked before XGBoost's parser and predictor see it.

XGBoost's UBJSON reader aborts the whole process on hostile bytes, and its predictor follows node numbers unchecked. So
a payload is compressed JSON: Python parses it, this module checks and copies the fields it knows, and only the copy
goes to XGBoost. Floats survive the trip exactly.
"""

from __future__ import annotations

import json
import re
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["pack", "unpack"]

MAX_TEXT_BYTES = 2**28
ROOT_PARENT = 2**31 - 1
NUMBER = re.compile(r"\[?-?[0-9][-+.,0-9E]{0,10000}\]?")
NODE_FLOATS = ("base_weights", "loss_changes", "split_conditions", "sum_hessian")
NODE_WHOLES = ("default_left", "left_children", "parents", "right_children", "split_indices", "split_type")
CATEGORY_FIELDS = ("categories", "categories_nodes", "categories_segments", "categories_sizes")
OBJECTIVES = {
    "binary:logistic": ("reg_loss_param", {"scale_pos_weight"}),
    "multi:softprob": ("softmax_multiclass_param", {"num_class"}),
}


def pack(raw: bytes, *, num_classes: int, num_features: int) -> bytes:
    """Return the payload of a booster, given its JSON.

    Raise ValueError if it is not a booster of trees without categorical splits, for classification.
    """
    text = json.dumps(_copy_model(json.loads(raw), num_classes, num_features)).encode()
    return zlib.compress(text, 1)


def unpack(payload: bytes, *, num_classes: int, num_features: int) -> bytearray:
    """Return JSON that is safe to give to XGBoost, from a payload that may come from anybody.

    Raise ValueError, KeyError, TypeError or zlib.error if `pack` would not write it for these classes and columns.
    """
    inflate = zlib.decompressobj()
    text = inflate.decompress(payload, MAX_TEXT_BYTES)
    if not inflate.eof:
        raise ValueError("the booster is cut off, or too large")
    model = _copy_model(json.loads(text, parse_constant=_refuse), num_classes, num_features)
    return bytearray(json.dumps(model).encode())


def _refuse(name: str) -> None:
    raise ValueError(f"{name} in a booster")


def _copy_model(model: Any, num_classes: int, num_features: int) -> dict[str, Any]:
    learner = model["learner"]
    groups = 1 if num_classes == 2 else num_classes
    params = _numbers(learner["learner_model_param"])
    expected = {"num_class": 0 if num_classes == 2 else num_classes, "num_feature": num_features, "num_target": 1}
    if any(params.get(key, "1") != str(value) for key, value in expected.items()):
        raise ValueError("the booster's inputs or outputs are not those of the classifier")
    if params["base_score"].count(",") + 1 not in (1, groups):
        raise ValueError("the booster has another number of base scores than outputs")
    objective = learner["objective"]["name"]
    if objective != ("binary:logistic" if num_classes == 2 else "multi:softprob"):
        raise ValueError(f"objective {objective!r} is not the classifier's own")
    section, fields = OBJECTIVES[objective]
    settings = _numbers(learner["objective"][section])
    if set(settings) != fields or settings.get("num_class", str(num_classes)) != str(num_classes):
        raise ValueError("the booster's objective has other parameters")
    if learner["gradient_booster"]["name"] != "gbtree":
        raise ValueError("only boosters of the kind gbtree can be saved")
    return {
        "learner": {
            "attributes": {},
            "feature_names": [],
            "feature_types": [],
            "gradient_booster": {
                "model": _copy_trees(learner["gradient_booster"]["model"], groups, num_features),
                "name": "gbtree",
            },
            "learner_model_param": params,
            "objective": {"name": objective, section: settings},
        },
        "version": _wholes(model["version"], 3, low=0, high=1000),
    }


def _copy_trees(model: Any, groups: int, num_features: int) -> dict[str, Any]:
    trees = [_copy_tree(tree, number, num_features) for number, tree in enumerate(model["trees"])]
    params = _numbers(model["gbtree_model_param"])
    rounds = model["iteration_indptr"]
    starts = _wholes(rounds, len(rounds), low=0, high=len(trees) + 1)
    if params["num_trees"] != str(len(trees)) or not 1 <= int(params["num_parallel_tree"]) <= max(len(trees), 1):
        raise ValueError("the booster announces another number of trees")
    if starts[0] != 0 or starts[-1] != len(trees) or starts != sorted(starts):
        raise ValueError("the booster's rounds do not cover its trees")
    copy = {
        "gbtree_model_param": params,
        "iteration_indptr": starts,
        "tree_info": _wholes(model["tree_info"], len(trees), low=0, high=groups),
        "trees": trees,
    }
    if "cats" in model:  # XGBoost >= 3.1; empty where no column is categorical
        if any(model["cats"].values()):
            raise ValueError("categorical columns are not saved; encode them first")
        copy["cats"] = {"enc": [], "feature_segments": [], "sorted_idx": []}
    return copy


def _copy_tree(tree: Any, number: int, num_features: int) -> dict[str, Any]:
    params = _numbers(tree["tree_param"])
    size = len(tree["left_children"])
    own = {"num_nodes": str(size), "num_feature": str(num_features), "num_deleted": "0"}
    if size < 1 or any(params[key] != value for key, value in own.items()) or params["size_leaf_vector"] not in "01":
        raise ValueError("a tree announces other sizes than it has")
    if any(tree[name] for name in CATEGORY_FIELDS):
        raise ValueError("categorical columns are not saved; encode them first")
    copy: dict[str, Any] = {name: _floats(tree[name], size) for name in NODE_FLOATS}
    for name in NODE_WHOLES:
        flags = [int(flag) for flag in tree[name]]  # XGBoost 2 writes some of them as booleans
        copy[name] = _wholes(flags, size, low=-1, high=2**31)
    left, right, parents = (np.array(copy[name]) for name in ("left_children", "right_children", "parents"))
    _check_shape(left, right, parents)
    if not all(0 <= column < num_features for column in copy["split_indices"]):
        raise ValueError("a node of a tree reads a column that the rows lack")
    if any(copy["split_type"]) or not set(copy["default_left"]) <= {0, 1}:
        raise ValueError("a node of a tree splits in an unknown way")
    return {**copy, **{name: [] for name in CATEGORY_FIELDS}, "id": number, "tree_param": params}


def _check_shape(left: NDArray[Any], right: NDArray[Any], parents: NDArray[Any]) -> None:
    """Check that every node but the root is the child of its parent, so that each walk ends in a leaf."""
    inner = np.flatnonzero(left != -1)
    children = np.concatenate((left[inner], right[inner]))
    expected = np.full(len(left), ROOT_PARENT)
    if not np.array_equal(left == -1, right == -1) or not np.array_equal(np.sort(children), np.arange(1, len(left))):
        raise ValueError("a node of a tree points outside it")
    expected[children] = np.concatenate((inner, inner))
    if not np.array_equal(parents, expected) or not (children > np.concatenate((inner, inner))).all():
        raise ValueError("a node of a tree points outside it")


def _numbers(params: Any) -> dict[str, str]:
    for key, value in params.items():
        if not (isinstance(value, str) and NUMBER.fullmatch(value) and re.fullmatch("[a-z_]{1,40}", key)):
            raise ValueError(f"parameter {str(key)[:40]!r} of a booster is no number")
    return dict(params)


def _wholes(values: Any, size: int, *, low: int, high: int) -> list[int]:
    if not (isinstance(values, list) and len(values) == size and size > 0):
        raise ValueError("a list in a booster has another length")
    if not all(type(value) is int and low <= value < high for value in values):
        raise ValueError("a list in a booster holds other values than numbers in range")
    return values


def _floats(values: Any, size: int) -> list[float]:
    if not (isinstance(values, list) and len(values) == size):
        raise ValueError("a list in a booster has another length")
    limit = float(np.finfo(np.float32).max)
    if not all(type(value) in (int, float) and abs(value) <= limit for value in values):
        raise ValueError("a list in a booster holds other values than finite numbers")
    return values

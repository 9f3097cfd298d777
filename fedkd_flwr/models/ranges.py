"""What a run may ask of a zoo's model at a silo: which parameters, within which ranges, and how much work in all.

A silo's owner may name any parameter for its own node, and whoever simulates may too. A run names numbers and words
from the lists below only: nothing that reads a file, runs code, uses more than one thread, or never ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from fedkd_flwr.errors import RefusalError, explain

__all__ = [
    "BOOSTING",
    "CONVOLUTIONS",
    "FOREST",
    "LOGISTIC",
    "MOST_WORK",
    "NEIGHBOURS",
    "NET",
    "PERCEPTRON",
    "RULES",
    "TEXT",
    "TREE",
    "XGBOOST",
    "Ranges",
    "Rule",
    "check_asked",
    "check_work",
]

MOST_WORK = 2e10
"""Most multiply-adds of a fit per training row. FedMD's published net for CIFAR takes 7e8; the zoo's defaults take 4e9
at most on MNIST's columns."""
_STEP = 1e7  # what one minibatch step costs besides its rows
_OWNER = "The owner of this node can name it in the node's own model and model-params."


@dataclass(frozen=True, kw_only=True)
class Rule:
    """The values of one parameter that a run may name; whatever fits one of the four kinds is taken.

    ``words`` are single values; ``whole`` and ``number`` least and greatest (where both are given, whole numbers are
    those of ``whole`` alone); ``listed`` the longest list of whole numbers within ``whole``, 0 for none.
    """

    words: tuple[Any, ...] = ()
    whole: tuple[int, int] | None = None
    number: tuple[float, float] | None = None
    listed: int = 0

    def takes(self, value: object) -> bool:
        """Tell whether a run may name this value.

        >>> rule = Rule(words=("sqrt", None), whole=(1, 8), number=(0.0, 1.0))
        >>> [rule.takes(value) for value in ("sqrt", None, 8, 0.5, 9, True, "os", float("nan"), [8])]
        [True, True, True, True, False, False, False, False, False]
        """
        if any(type(value) is type(word) and value == word for word in self.words):
            return True
        if isinstance(value, list):
            return 1 <= len(value) <= self.listed and all(self._in_whole(one) for one in value)
        if self.whole is not None and isinstance(value, int):
            return self._in_whole(value)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return self.number is not None and is_number and self.number[0] <= value <= self.number[1]  # type: ignore[operator]

    def _in_whole(self, value: object) -> bool:
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        return self.whole is not None and is_whole and self.whole[0] <= value <= self.whole[1]  # type: ignore[operator]

    def __str__(self) -> str:
        """Return the rule in words.

        >>> str(Rule(words=("sqrt", None), whole=(1, 8), number=(0.0, 1.0)))
        "be 'sqrt', None, a whole number within 1..8 or a number within [0, 1]"
        """
        kinds = [repr(word) for word in self.words]
        if self.whole is not None:
            kinds.append(f"a whole number within {self.whole[0]}..{self.whole[1]}")
        if self.listed:
            kinds.append(f"a list of at most {self.listed} of them")
        if self.number is not None:
            kinds.append(f"a number within [{self.number[0]:g}, {self.number[1]:g}]")
        return "be " + " or ".join(filter(None, (", ".join(kinds[:-1]), kinds[-1])))


Work = Callable[[Mapping[str, Any], int, int], float]
"""``work(params, num_features, num_classes)``: multiply-adds of a fit per training row."""


@dataclass(frozen=True)
class Ranges:
    """What a run may name of one model: rules by parameter, no others, and how much work they ask for together."""

    rules: Mapping[str, Rule]
    work: Work | None = None


def check_asked(model: str, params: Mapping[str, object], ranges: Ranges) -> None:
    """Refuse a parameter that a run may not name, or a value out of its range; raises `RefusalError` with the way out.

    >>> check_asked("random-forest", {"n_estimators": 10**9}, FOREST)
    Traceback (most recent call last):
        ...
    fedkd_flwr.errors.RefusalError: n_estimators of random-forest, named by a run, must be a whole number within \
1..1000, got 1000000000. The owner of this node can name it in the node's own model and model-params.
    """
    for name, value in params.items():
        rule = ranges.rules.get(name)
        if rule is None:
            known = f"be among {', '.join(sorted(ranges.rules))}"
            raise RefusalError(explain(f"A parameter of {model} that a run names", known, name, _OWNER))
        if not rule.takes(value):
            raise RefusalError(explain(f"{name} of {model}, named by a run,", str(rule), value, _OWNER))


def check_work(model: str, params: Mapping[str, Any], ranges: Ranges, *, num_features: int, num_classes: int) -> None:
    """Refuse parameters that are each within range and together ask for too much.

    ``params`` are all parameters of the model, with their defaults. Raises `RefusalError` if a fit takes more than
    `MOST_WORK` multiply-adds per training row.
    """
    asked = ranges.work(params, num_features, num_classes) if ranges.work is not None else 0.0
    if not asked <= MOST_WORK:
        rule = f"ask for at most {MOST_WORK:.2g} multiply-adds per training row together"
        raise RefusalError(explain(f"Parameters of {model}, named by a run,", rule, f"about {asked:.2g}", _OWNER))


# ---------------------------------------------------------------------------------------------------- work per row


def _trees(params: Mapping[str, Any], num_features: int, num_classes: int) -> float:
    count = params.get("n_estimators") or params.get("max_iter") or 1
    depth = params.get("max_depth") or 64
    outputs = num_classes if "learning_rate" in params else 1  # boosting grows a tree for each class
    return float(count * depth * outputs * num_features * (params.get("num_parallel_tree") or 1))


def _iterations(params: Mapping[str, Any], num_features: int, num_classes: int) -> float:
    return 2.0 * float(params["max_iter"]) * num_features * num_classes


def _passes(params: Mapping[str, Any], multiply_adds: float) -> float:
    """Return the work of the passes of a net: three times forwards, and a share of each minibatch's step."""
    return float(params["epochs"] * (3 * multiply_adds + (_STEP + 10 * multiply_adds) / params["batch_size"]))


def _dense(params: Mapping[str, Any], num_features: int, num_classes: int) -> float:
    hidden = params["hidden"] if isinstance(params["hidden"], list | tuple) else (params["hidden"],)
    return _passes(params, sum(a * b for a, b in pairwise((num_features, *hidden, num_classes))))


def _convolutions(params: Mapping[str, Any], num_features: int, num_classes: int) -> float:
    # a convolution of at most 3 x 3 at every pixel, of which each layer leaves about a quarter
    layers = pairwise((1, *params["channels"]))
    return _passes(params, sum(9 * a * b * num_features / 4**i for i, (a, b) in enumerate(layers)))


# ---------------------------------------------------------------------------------------------------- what may be named

_FLAG = Rule(words=(True, False))
_SHARE = Rule(number=(0.0, 1.0))
_FINITE = Rule(number=(0.0, 1e6))
_ROWS = Rule(whole=(1, 10**6), number=(0.0, 1.0))
_BALANCED = Rule(words=(None, "balanced"))
_TREE = {
    "criterion": Rule(words=("gini", "entropy", "log_loss")),
    "max_depth": Rule(words=(None,), whole=(1, 64)),
    "min_samples_split": Rule(whole=(2, 10**6), number=(0.0, 1.0)),
    "min_samples_leaf": _ROWS,
    "min_weight_fraction_leaf": Rule(number=(0.0, 0.5)),
    "max_features": Rule(words=(None, "sqrt", "log2"), whole=(1, 10**6), number=(0.0, 1.0)),
    "max_leaf_nodes": Rule(words=(None,), whole=(2, 10**5)),
    "min_impurity_decrease": _FINITE,
    "class_weight": _BALANCED,
    "ccp_alpha": _FINITE,
}
_FOREST = {
    **_TREE,
    "n_estimators": Rule(whole=(1, 1000)),
    "bootstrap": _FLAG,
    "max_samples": Rule(words=(None,), whole=(1, 10**6), number=(0.0, 1.0)),
    "class_weight": Rule(words=(None, "balanced", "balanced_subsample")),
}
TREE = Ranges({**_TREE, "splitter": Rule(words=("best", "random"))})
FOREST = Ranges(_FOREST, _trees)
BOOSTING = Ranges(
    {
        "learning_rate": _SHARE,
        "max_iter": Rule(whole=(1, 1000)),
        "max_leaf_nodes": Rule(whole=(2, 1024)),
        "max_depth": Rule(words=(None,), whole=(1, 64)),
        "min_samples_leaf": Rule(whole=(1, 10**6)),
        "l2_regularization": _FINITE,
        "max_features": _SHARE,
        "max_bins": Rule(whole=(2, 255)),
        "early_stopping": Rule(words=(True, False, "auto")),
        "validation_fraction": _SHARE,
        "n_iter_no_change": Rule(whole=(1, 1000)),
        "tol": _SHARE,
        "class_weight": _BALANCED,
    },
    _trees,
)
LOGISTIC = Ranges(
    {
        "C": _FINITE,
        "max_iter": Rule(whole=(1, 10_000)),
        "tol": _SHARE,
        # newton-cholesky is left out: its memory grows with the square of columns times classes
        "solver": Rule(words=("lbfgs", "liblinear", "newton-cg", "sag", "saga")),
        "penalty": Rule(words=(None, "l1", "l2", "elasticnet")),
        "l1_ratio": Rule(words=(None,), number=(0.0, 1.0)),
        "fit_intercept": _FLAG,
        "class_weight": _BALANCED,
    },
    _iterations,
)
NEIGHBOURS = Ranges(
    {
        "n_neighbors": Rule(whole=(1, 1000)),
        "weights": Rule(words=("uniform", "distance")),
        "p": Rule(number=(1.0, 16.0)),
    }
)
XGBOOST = Ranges(
    {
        "n_estimators": Rule(whole=(1, 1000)),
        "max_depth": Rule(whole=(1, 16)),
        "max_leaves": Rule(whole=(0, 1024)),
        "max_bin": Rule(whole=(2, 1024)),
        "grow_policy": Rule(words=("depthwise", "lossguide")),
        "tree_method": Rule(words=("hist", "approx")),
        "num_parallel_tree": Rule(whole=(1, 100)),
        "max_delta_step": Rule(number=(0.0, 100.0)),
        **dict.fromkeys(("learning_rate", "subsample"), _SHARE),
        **dict.fromkeys(("colsample_bytree", "colsample_bylevel", "colsample_bynode"), _SHARE),
        **dict.fromkeys(("gamma", "min_child_weight", "reg_alpha", "reg_lambda", "scale_pos_weight"), _FINITE),
    },
    _trees,
)
RULES = Ranges(
    {
        "tree_size": Rule(whole=(2, 16)),
        "max_rules": Rule(whole=(1, 2000)),
        "n_estimators": Rule(whole=(1, 500)),
        "memory_par": _SHARE,
        "include_linear": _FLAG,
        "alpha": Rule(words=(None,), number=(1e-6, 1e4)),
    }
)
_NET = {
    "dropout": Rule(number=(0.0, 0.99)),
    "optimizer": Rule(words=("adam", "sgd")),
    "lr": Rule(number=(0.0, 10.0)),
    "weight_decay": Rule(number=(0.0, 10.0)),
    "momentum": Rule(number=(0.0, 0.999)),
    "batch_size": Rule(whole=(1, 10_000)),
    "epochs": Rule(whole=(1, 1000)),
    "max_steps": Rule(words=(None,), whole=(1, 10**6)),
    "device": Rule(words=("cpu", "auto")),
    "precision": Rule(words=("float32", "bfloat16")),
    "freeze_norm": _FLAG,
}
NET = Ranges(_NET, lambda params, num_features, num_classes: _passes(params, 0.0))
PERCEPTRON = Ranges({**_NET, "hidden": Rule(whole=(1, 4096), listed=8)}, _dense)
CONVOLUTIONS = Ranges({**_NET, "channels": Rule(whole=(1, 1024), listed=3)}, _convolutions)
# not path: it makes a silo read a folder of the run's choice, or ask a hub for it
TEXT = Ranges(
    {
        "train": Rule(words=("head", "all")),
        "max_length": Rule(whole=(8, 512)),
        "lr": Rule(words=(None,), number=(0.0, 1.0)),
        "weight_decay": Rule(number=(0.0, 10.0)),
        "batch_size": Rule(whole=(2, 256)),
        "epochs": Rule(whole=(1, 100)),
        "device": Rule(words=("cpu", "auto")),
    }
)

"""Models by name: a zoo of known ones, users' own by import string, and different ones for different parties.

Every model computes on one thread, because each party is a process of its own, and draws from the given seed only.
scikit-learn's histogram gradient boosting and nearest neighbours always use OpenMP's threads; set ``OMP_NUM_THREADS``
if that matters.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from sklearn.base import BaseEstimator, is_regressor
from sklearn.pipeline import make_pipeline

from fedkd_flwr.checks import check_whole, meant, read_word, split_words
from fedkd_flwr.errors import ConfigError, RefusalError, explain
from fedkd_flwr.models._factory import arguments, call_factory, check_names, import_factory, input_shape, named_by
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.models.estimators import ByValues, NumberScaler, require_extra
from fedkd_flwr.registry import TEXT_MODEL

__all__ = ["DEFAULT_MIX", "NAMES", "make_model", "pick_model"]


@dataclass(frozen=True, kw_only=True)
class _Entry:
    """One name of the zoo: its class, which parameters a run may name, the extra it needs, and defaults of its own."""

    path: str
    asked: str  # parameters that a run may name at a silo
    defaults: Mapping[str, Any] = field(default_factory=dict)
    extra: str = ""
    scaled: bool = False  # whether a NumberScaler comes first
    hidden: tuple[str, ...] = ("random_state",)  # parameters that the user cannot set
    net: str = ""  # the architecture, if its name differs
    regressor: str = ""  # the class that learns numbers, where classes are bins of one


# What a run may name at a silo: nothing that reads a file, runs code, or uses more than one thread, and no whole number
# that is absurd. The node's own limits bound the time and the memory of a fit.
_MOST, _MOST_LAYERS = 10_000, 4
_TREE = (
    "criterion max_depth min_samples_split min_samples_leaf min_weight_fraction_leaf max_features max_leaf_nodes "
    "min_impurity_decrease class_weight ccp_alpha"
)
_FOREST = f"{_TREE} n_estimators bootstrap max_samples"
_BOOSTING = (
    "learning_rate max_iter max_leaf_nodes max_depth min_samples_leaf l2_regularization max_features max_bins "
    "early_stopping validation_fraction n_iter_no_change tol class_weight"
)
_LOGISTIC = "C max_iter tol solver penalty l1_ratio fit_intercept class_weight"
_XGBOOST = (
    "n_estimators max_depth max_leaves max_bin grow_policy tree_method num_parallel_tree max_delta_step learning_rate "
    "subsample colsample_bytree colsample_bylevel colsample_bynode gamma min_child_weight reg_alpha reg_lambda "
    "scale_pos_weight"
)
_NET = "dropout optimizer lr weight_decay momentum batch_size epochs max_steps device precision freeze_norm"
_TEXT = "train max_length lr weight_decay batch_size epochs device"  # not path: the silo would read it


def _tree(name: str, asked: str, **defaults: Any) -> _Entry:
    path = f"sklearn.{name}"
    return _Entry(path=f"{path}Classifier", regressor=f"{path}Regressor", asked=asked, defaults=defaults)


def _xgboost(**defaults: Any) -> _Entry:
    # the library's 1.0 forbids leaves of fewer than four rows, with which small silos learn almost nothing
    common = {"min_child_weight": 0.3, "tree_method": "hist", "n_jobs": 1}
    return _Entry(path="xgboost:XGBClassifier", asked=_XGBOOST, extra="xgboost", defaults=common | defaults)


def _net(*hidden: str, asked: str = _NET, net: str = "", **defaults: Any) -> _Entry:
    fixed = ("net", "net_params", "num_classes", "num_features", "shape", "seed")
    path = "fedkd_flwr.models.networks:TorchNet"
    return _Entry(path=path, asked=asked, extra="torch", hidden=(*fixed, *hidden), net=net, defaults=defaults)


# channels and dropout of the ten parties' nets in FedMD's published configuration for MNIST and EMNIST
# (Li and Wang 2019, https://github.com/diogenes0319/FedMD_clean, conf/EMNIST_balance_conf.json); the text of
# FedMD-NFDP says only "two or three-layer deep neural networks"
_FEDMD: tuple[tuple[tuple[int, ...], float], ...] = (
    ((128, 256), 0.2),
    ((128, 384), 0.2),
    ((128, 512), 0.2),
    ((256, 256), 0.3),
    ((256, 512), 0.4),
    ((64, 128, 256), 0.2),
    ((64, 128, 192), 0.2),
    ((128, 192, 256), 0.2),
    ((128, 128, 128), 0.3),
    ((128, 128, 192), 0.3),
)
_ZOO: dict[str, _Entry] = {
    "decision-tree": _tree("tree:DecisionTree", f"{_TREE} splitter"),
    "random-forest": _tree("ensemble:RandomForest", _FOREST, n_jobs=1),
    "extra-trees": _tree("ensemble:ExtraTrees", _FOREST, n_jobs=1),
    "hist-gradient-boosting": _tree("ensemble:HistGradientBoosting", _BOOSTING, early_stopping=False),
    "logistic-regression": _Entry(
        path="sklearn.linear_model:LogisticRegression", asked=_LOGISTIC, defaults={"max_iter": 1000}, scaled=True
    ),
    "knn": _Entry(path="fedkd_flwr.models.estimators:NearestNeighbours", asked="n_neighbors weights p"),
    "xgboost": _xgboost(n_estimators=50, max_depth=6, learning_rate=0.3),
    # a random forest by XGBoost: of two classes several times as fast to fit as scikit-learn's, which takes some
    # milliseconds of Python for each tree; of ten classes it is no faster, because each class has trees of its own
    "fast-forest": _xgboost(
        n_estimators=1,
        num_parallel_tree=100,
        learning_rate=1.0,
        max_depth=10,
        subsample=0.63,  # as many rows as a bootstrap sample holds different ones
        colsample_bynode=0.3,
        reg_lambda=0.1,
        max_bin=64,
        missing=0.0,  # zeros, most of indicators and images, are not stored; a split sends them to its better side
    ),
    "rulefit": _Entry(
        path="fedkd_flwr.models.estimators:RuleFit",
        asked="tree_size max_rules n_estimators memory_par include_linear alpha",
        extra="rulefit",
    ),
    "mlp": _net("channels", asked=f"{_NET} hidden"),
    "cnn-fedkt": _net("hidden", "channels"),
    "cnn-privatekt": _net("hidden", "channels", dropout=0.2),
    "cnn-fedmd": _net("hidden", asked=f"{_NET} channels", dropout=0.2),
    **{
        f"cnn-fedmd-{number}": _net("hidden", "channels", net="cnn-fedmd", channels=channels, dropout=dropout)
        for number, (channels, dropout) in enumerate(_FEDMD)
    },
    "transformer": _Entry(path=TEXT_MODEL, asked=_TEXT, extra="text", hidden=("num_classes", "seed")),
}
NAMES: tuple[str, ...] = tuple(_ZOO)
_OWN_NET = _net("hidden", "channels", "dropout")

DEFAULT_MIX: tuple[str, ...] = (
    "random-forest",
    "logistic-regression",
    "extra-trees",
    "knn",
    "decision-tree(min_samples_leaf=5)",  # scikit-learn's guide, 1.10.5; a pure leaf says what a single row says
)  # of scikit-learn only, without boosting, which takes ten times as long to fit on ten classes


def make_model(
    spec: str,
    *,
    num_classes: int,
    num_features: int,
    shape: tuple[int, ...] | None = None,
    seed: int,
    params: Mapping[str, object] | None = None,
    of_run: bool = False,
    values: Sequence[float] = (),
) -> Classifier:
    """Make an unfitted classifier from its name or import string.

    ``spec`` is a name of the zoo (`NAMES`), or ``"package.module:factory"``: a class or function that is called with
    ``params``, and with those of ``num_classes``, ``num_features``, ``shape`` and ``seed`` (``random_state`` if it has
    no ``seed``) that it accepts, and returns any object with scikit-learn's ``fit`` and ``predict``. ``shape`` is that
    of an image, (channels, height, width); CNNs know it for 784 and 3,072 columns. With ``of_run`` a run names the
    parameters at a silo, which may only be those listed for runs, else `RefusalError`. ``values`` are what classes
    stand for that are bins of a number: then trees, forests and boosting of the zoo are regressors, and what a factory
    returns may be one (`fedkd_flwr.models.estimators.ByValues`). Raises `ConfigError` where a name, a parameter or a
    factory is wrong, and `MissingExtraError` where the model's library is not installed.

    >>> make_model("random-forest", num_classes=2, num_features=4, seed=1, params={"max_depth": 6}).num_classes
    2
    """
    check_whole("seed", seed)
    check_whole("num_features", num_features, 1)
    spec, named = read_word("model", spec)
    params = {**named, **(params or {})}
    context: dict[str, Any] = {
        "num_classes": num_classes,
        "num_features": num_features,
        "shape": tuple(shape) if shape is not None else None,
        "seed": seed % 2**31,  # what every library takes
    }
    origin: dict[str, Any] | None = None
    if ":" in spec:
        estimator, origin = _own(spec, context, params), {"spec": spec, **context, "params": params}
    elif spec in _ZOO:
        entry = _ZOO[spec]
        entry = replace(entry, path=entry.regressor) if values and entry.regressor else entry
        estimator = _build(spec, entry, context, params, of_run=of_run)
    else:
        known = f"be one of {', '.join(NAMES)}, or an import string"
        raise ConfigError(explain("model", known, spec, meant(spec, NAMES, 'Your own: "package.module:factory".')))
    if hasattr(estimator, "__sklearn_tags__") and is_regressor(estimator):
        if not values:
            way_out = 'Give a classifier, or say that the label is a number: target="number".'
            raise ConfigError(explain("model", "be a classifier where the label holds classes", spec, way_out))
        estimator = ByValues(estimator, tuple(values))
    return Classifier(estimator, num_classes=num_classes, origin=origin)


def pick_model(spec: str, party_index: int) -> str:
    """Return the name of one party's model.

    ``"mixed"`` gives parties the models of `DEFAULT_MIX` in turn, ``"mixed:a,b(x=1)"`` the listed ones.
    Any other spec is returned unchanged.

    >>> [pick_model("mixed:decision-tree,xgboost", i) for i in range(3)]
    ['decision-tree', 'xgboost', 'decision-tree']
    >>> pick_model("random-forest", 7)
    'random-forest'
    """
    check_whole("party_index", party_index)
    if spec == "mixed":
        mix = DEFAULT_MIX
    elif spec.startswith("mixed:"):
        mix = tuple(split_words(spec.removeprefix("mixed:")))
        unknown = [name for name, _ in (read_word("model", one) for one in mix) if name not in _ZOO and ":" not in name]
        if unknown:
            known = f"list names among {', '.join(NAMES)}, or import strings"
            raise ConfigError(explain("model", known, unknown[0] or spec))
    else:
        return spec
    return mix[party_index % len(mix)]


def _own(spec: str, context: Mapping[str, Any], params: Mapping[str, Any]) -> Any:
    """Return what a user's factory makes; a torch module becomes an estimator, as the nets of the zoo are."""
    factory = import_factory(spec)
    offered = {**context, "input_shape": input_shape(context["num_features"], context["shape"])}
    called, rest = arguments(spec, factory, offered, params)
    own_net = _is_module(factory)
    made = None if own_net else call_factory(spec, factory, called)
    if not own_net and not _is_module(made):
        check_names(spec, rest, named_by(factory))
        return made
    own = {key: value for key, value in params.items() if key not in rest}
    return _build(spec, _OWN_NET, {**context, "net_params": own}, rest, of_run=False)


def _is_module(value: Any) -> bool:
    torch = sys.modules.get("torch")  # whoever has made a module has imported it, some factories only as they make it
    if torch is None:
        return False
    return issubclass(value, torch.nn.Module) if isinstance(value, type) else isinstance(value, torch.nn.Module)


def _build(name: str, entry: _Entry, context: Mapping[str, Any], params: Mapping[str, Any], *, of_run: bool) -> Any:
    if of_run:
        way_out = "The owner of this node can name it in the node's own model."
        for one in params:
            if one not in (asked := entry.asked.split()):
                rule = f"be among {', '.join(sorted(asked))}"
                raise RefusalError(explain(f"A parameter of {name} that a run names", rule, one, way_out))
            value = params[one]
            sizes = value if isinstance(value, list) else [value]
            whole = [size for size in sizes if isinstance(size, int)]
            if len(sizes) > _MOST_LAYERS or max(whole, default=0) > _MOST:
                rule = f"be at most {_MOST:,}, and of at most {_MOST_LAYERS} layers"
                raise RefusalError(explain(f"{one} of {name} that a run names", rule, value, way_out))
    require_extra(entry.extra)  # before the entry's own module, so that the message names the missing extra
    cls, takes = _class_of(entry.path)
    check_names(name, params, sorted(takes - set(entry.hidden)))
    values = {**entry.defaults, **params}
    if entry.extra in ("torch", "text"):
        own = {"net": entry.net or name, **context}
        net = cls(**{key: value for key, value in own.items() if key in entry.hidden}, **values)
        net.validate()
        return net
    if "random_state" in takes:
        values["random_state"] = context["seed"]
    estimator = cls(**values)
    if isinstance(estimator, BaseEstimator) and cls.__module__.startswith("sklearn."):
        try:
            estimator._validate_params()  # before any party trains
        except ValueError as error:
            raise ConfigError(f"Parameters of {name}: {error}") from error
    return make_pipeline(NumberScaler(), estimator) if entry.scaled else estimator


@lru_cache
def _class_of(path: str) -> tuple[Any, frozenset[str]]:
    """Return a class of the zoo and the names of its parameters, for which scikit-learn reads a signature each time."""
    module, _, name = path.partition(":")
    cls = getattr(importlib.import_module(module), name)
    return cls, frozenset(cls().get_params())

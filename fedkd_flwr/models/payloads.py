"""The payload of a model file, in the format of its kind, and which payloads are read only with trust.

The kinds are skops for scikit-learn, XGBoost's JSON, safetensors for torch nets and transformers; none uses pickle.
`fedkd_flwr.models.serialize` packs a payload and says which models need trust.
"""

from __future__ import annotations

import io
import json
import sys
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

from fedkd_flwr.errors import ModelBytesError, explain, import_extra
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.models.estimators import require_extra
from fedkd_flwr.registry import TEXT_MODEL
from fedkd_flwr.registry import load as load_registered

__all__ = ["KINDS", "dump_payload", "import_skops", "kind_of", "read_payload"]

_NET = "fedkd_flwr.models.networks:TorchNet"
_KIND_OF = {
    "xgboost.sklearn.XGBClassifier": "xgboost",
    _NET.replace(":", "."): "torch",
    TEXT_MODEL.replace(":", "."): "transformer",
}  # any other estimator is of the kind sklearn
KINDS = ("sklearn", *_KIND_OF.values())
PLAIN = frozenset(
    {
        "fedkd_flwr.models.estimators.BinnedLinear",
        "fedkd_flwr.models.estimators.ByValues",
        "fedkd_flwr.models.estimators.NumberScaler",
        "fedkd_flwr.models.estimators.RuleFit",
        "sklearn.decomposition._pca.PCA",
        "sklearn.discriminant_analysis.LinearDiscriminantAnalysis",
        "sklearn.discriminant_analysis.QuadraticDiscriminantAnalysis",
        "sklearn.dummy.DummyClassifier",
        "sklearn.linear_model._logistic.LogisticRegression",
        "sklearn.linear_model._perceptron.Perceptron",
        "sklearn.naive_bayes.BernoulliNB",
        "sklearn.naive_bayes.ComplementNB",
        "sklearn.naive_bayes.GaussianNB",
        "sklearn.naive_bayes.MultinomialNB",
        "sklearn.pipeline.Pipeline",
        "sklearn.preprocessing._data.MinMaxScaler",
        "sklearn.preprocessing._data.QuantileTransformer",
        "sklearn.preprocessing._data.RobustScaler",
        "sklearn.preprocessing._data.StandardScaler",
        "sklearn.svm._classes.LinearSVC",
    }
)  # types that predict with NumPy and SciPy's functions of arrays alone, which check every index
_LIBRARIES = {"fedkd_flwr", "numpy", "scipy", "sklearn"}
_VALUES = {"DictNode", "JsonNode", "ListNode", "NdArrayNode", "TupleNode", "TypeNode"}  # skops' kinds of plain values


def dump_payload(classifier: Classifier, *, training_state: bool) -> tuple[dict[str, Any], bytes]:
    """Return the parameters and the payload of a classifier, in the format of its kind."""
    kind, fitted = kind_of(classifier), classifier.estimator is not None
    estimator = classifier.estimator if fitted else classifier.template
    if kind == "sklearn":
        return {}, _dump_skops(estimator)
    if kind == "xgboost":
        defaults = type(estimator)().get_params()
        params = {k: v for k, v in estimator.get_params().items() if v is not None and v is not defaults.get(k)}
        params = {k: v for k, v in params.items() if v == v and v != defaults.get(k)}  # `missing` is NaN
        return params, zlib.compress(bytes(estimator.get_booster().save_raw("json")), 1) if fitted else b""
    from safetensors.torch import save as save_tensors

    tensors = estimator.state_tensors(training_state=training_state) if fitted else {}
    params = {key: list(value) if isinstance(value, tuple) else value for key, value in estimator.get_params().items()}
    return params, save_tensors(tensors)


def kind_of(classifier: Classifier) -> str:
    """Return in which of `KINDS` of formats a classifier is written."""
    estimator = classifier.template
    return _KIND_OF.get(f"{type(estimator).__module__}.{type(estimator).__qualname__}", "sklearn")


def read_payload(meta: Mapping[str, Any], payload: bytes, *, trust: bool) -> tuple[Any, Any]:
    """Return the template and, if there is one, the fitted estimator."""
    kind, fitted, params = meta["kind"], meta["fitted"], meta["params"]
    if kind == "sklearn":
        estimator = _load_skops(payload, trust=trust)
        return estimator, estimator if fitted else None
    if kind == "xgboost":
        _require_trust("XGBoost", _FOLLOWS, trust=trust)
        xgboost = import_extra("xgboost", "xgboost")
        template, estimator = (xgboost.XGBClassifier(**params) for _ in range(2))
        if fitted:
            estimator.load_model(bytearray(zlib.decompress(payload)))
        return template, estimator if fitted else None
    if ":" in (own := str(params.get("net", ""))):
        _require_trust(own, _RUNS, trust=trust)
    require_extra("text" if kind == "transformer" else "torch")
    from safetensors.torch import load as load_tensors

    cls = load_registered(TEXT_MODEL if kind == "transformer" else _NET)
    template = cls(**params)
    check = template.check_settings if kind == "transformer" else template.validate
    check()
    if not fitted:
        return template, None
    if (template.num_classes, getattr(template, "num_features", 1)) != (meta["num_classes"], meta["num_features"]):
        raise ValueError("the net's inputs or outputs are not those of the classifier")
    return template, cls(**params).load_state_tensors(load_tensors(payload))


_RUNS = "reading it runs that code"
_FOLLOWS = "its compiled code reads memory at places that the file names"


def _require_trust(what: str, why: str, *, trust: bool) -> None:
    """Refuse a file that somebody else wrote, or changed, and that can do harm."""
    if not trust:
        way_out = f"{why[0].upper()}{why[1:]}. If you trust whoever wrote it: load(path, trust=True), or --trust."
        rule = "be written by a run of this user and unchanged, or be trusted"
        raise ModelBytesError(explain(f"A model file with {what}", rule, "a file of somebody else", way_out))


def import_skops() -> ModuleType:
    """Import skops, without torch: each process that writes a model does so, and torch takes most of that time.

    On its way skops has scikit-learn import all of its packages, also the one that wraps torch's arrays; packages that
    cannot be imported are passed over.
    """
    wraps = "sklearn.externals.array_api_compat.torch"
    if hidden := wraps not in sys.modules and "skops.io" not in sys.modules:
        sys.modules[wraps] = None  # type: ignore[assignment]
    try:
        return import_module("skops.io")
    finally:
        if hidden:
            sys.modules.pop(wraps, None)


def _dump_skops(estimator: Any) -> bytes:
    skops_io = import_skops()
    try:
        return bytes(skops_io.dumps(estimator, compression=zipfile.ZIP_DEFLATED))
    except Exception as error:  # skops raises whatever the object's methods raise
        name = f"{type(estimator).__module__}.{type(estimator).__qualname__}"
        way_out = "skops can write scikit-learn estimators and classes with plain attributes."
        raise ModelBytesError(explain(name, "be writable by skops", f"error {error}", way_out)) from error


def _load_skops(payload: bytes, *, trust: bool) -> Any:
    skops_io = import_skops()
    with zipfile.ZipFile(io.BytesIO(payload)) as archive:
        others = [] if trust else list(dict.fromkeys(_not_plain(json.loads(archive.read("schema.json")))))
    if others:
        foreign = [name for name in others if name.partition(".")[0] not in _LIBRARIES]
        _require_trust(", ".join((foreign or others)[:3]), _RUNS if foreign else _FOLLOWS, trust=trust)
    trusted = skops_io.get_untrusted_types(data=payload) if trust else sorted(PLAIN)
    return skops_io.loads(payload, trusted=trusted)


def _not_plain(node: Any) -> Iterator[str]:
    """Yield what a skops schema names besides plain values and the types of `PLAIN`."""
    if isinstance(node, dict):
        if "__loader__" in node or "__class__" in node:
            name, loader = f"{node.get('__module__')}.{node.get('__class__')}", str(node.get("__loader__"))
            plain = name.startswith(("builtins.", "numpy.")) if loader in _VALUES else loader == "ObjectNode"
            if not plain or (loader == "ObjectNode" and name not in PLAIN):
                yield name
        node = list(node.values())
    if isinstance(node, list):
        for one in node:
            yield from _not_plain(one)

"""Models as bytes: the container, its checks, and which files are read only if the reader trusts them.

The container is a zip of uncompressed members: ``meta.json`` (version, kind, label space, digests), ``payload``, in the
format of its kind (skops for scikit-learn, XGBoost's JSON, safetensors for torch nets and transformers), and perhaps
``encoder.json``, which says how raw rows become what the model reads (`fedkd_flwr.data.encoder`). None uses pickle.

Reading is safe whoever wrote the file for torch nets of the zoo, transformers, and scikit-learn's types of `PLAIN`,
which compute with NumPy on plain arrays. Of trees, forests, boosting, neighbours, libsvm, XGBoost and all others the
compiled code follows numbers of the file unchecked, and a user's own class or net is imported and run. Such a file is
read if one of this user's own runs wrote it and nobody changed it (`fedkd_flwr.models.own_files`), or with ``trust``.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import sys
import zipfile
import zlib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from fedkd_flwr.checks import check_choice, check_flag, check_whole
from fedkd_flwr.errors import FedkdError, ModelBytesError, explain
from fedkd_flwr.files import write_atomic
from fedkd_flwr.models import own_files
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.models.estimators import import_extra, require_extra

__all__ = [
    "MAX_BYTES",
    "PLAIN",
    "describe",
    "dumps",
    "encoder_of",
    "import_skops",
    "load",
    "loads",
    "save",
    "weigh",
    "with_encoder",
]

FORMAT, VERSION = "fedkd-model", 1
_KIND_OF = {
    "xgboost.sklearn.XGBClassifier": "xgboost",
    "fedkd_flwr.models.networks.TorchNet": "torch",
    "fedkd_flwr.models.transformers.TextTransformer": "transformer",
}  # any other estimator is of the kind sklearn
KINDS = ("sklearn", "skorch", *_KIND_OF.values())
# limit of the container and of an unpacked skops payload; BERT-base with AdamW's state takes 1.3 GB
MAX_BYTES = 2**31
MAX_META_BYTES = 2**16
MAX_ENCODER_BYTES = 2**28  # a text column of 2,000 terms takes 60 kB, a category less than its text twice
MAX_MEMBERS = 200_000  # limit of a skops payload; a forest of 1,000 trees has about 5,000
PLAIN = frozenset(
    {
        "fedkd_flwr.models.binned.BinnedLinear",
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


def dumps(classifier: Classifier, *, training_state: bool = True) -> bytes:
    """Return a classifier as bytes.

    Parameters
    ----------
    classifier : Classifier
        It may be unfitted or constant.
    training_state : bool
        Whether to include a torch net's optimiser and random state, so that the reloaded net continues training exactly
        as this one would. Without them the size is that of an upload of the model.

    Raises
    ------
    ModelBytesError
        If a user's own estimator cannot be written in a safe format, or the model is larger than `MAX_BYTES`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> rows = np.array([[0.0], [1.0]], dtype=np.float32)
    >>> model = Classifier(DecisionTreeClassifier(), num_classes=3).fit(rows, np.array([0, 2]))
    >>> loads(dumps(model)).predict(rows).tolist()
    [0, 2]
    """
    estimator = classifier._estimator if classifier._estimator is not None else classifier._template
    fitted = classifier._estimator is not None
    kind = _kind(classifier)
    if kind == "skorch":
        params, payload = _dump_skorch(classifier, training_state=training_state)
    elif kind in ("torch", "transformer"):
        params, payload = _dump_torch(estimator, fitted=fitted, training_state=training_state)
    elif kind == "xgboost":
        params, payload = _dump_xgboost(estimator, fitted=fitted)
    else:
        params, payload = {}, _dump_skops(estimator)
    meta = {
        "format": FORMAT,
        "version": VERSION,
        "kind": kind,
        "fitted": fitted,
        "num_classes": classifier.num_classes,
        "classes": None if classifier._classes is None else classifier._classes.tolist(),
        "num_features": classifier.num_features,
        "types": list(classifier.type_names),
        "params": params,
        "sha256": hashlib.sha256(payload).hexdigest(),
    }
    if not len(payload) + MAX_META_BYTES <= MAX_BYTES:
        way_out = 'Take a smaller one; a transformer with train = "head" keeps no optimiser\'s state of the rest.'
        raise ModelBytesError(explain("A model", f"fit into {MAX_BYTES} bytes", f"{len(payload)} bytes", way_out))
    return _pack(meta, {"payload": payload}, own=True)


def with_encoder(data: bytes, encoder: bytes) -> bytes:
    """Return the bytes of a model with what encodes raw rows for it, as `fedkd_flwr.data.encoder` writes it.

    Raises
    ------
    ModelBytesError
        If the bytes are not such a model, or the encoder is larger than `MAX_ENCODER_BYTES`.
    """
    meta, members = _open(data)
    if not len(encoder) <= MAX_ENCODER_BYTES:
        raise ModelBytesError(explain("An encoder", f"be at most {MAX_ENCODER_BYTES} bytes", len(encoder)))
    own = own_files.is_own(meta)  # nobody else's file becomes one of this user's by this
    meta["encoder_sha256"] = hashlib.sha256(encoder).hexdigest()
    return _pack(meta, {"payload": members["payload"], "encoder.json": encoder}, own=own)


def describe(data: bytes) -> dict[str, Any]:
    """Return what a model's bytes say of it, without rebuilding it; raises `ModelBytesError` as `loads`.

    The keys are ``kind``, ``types`` (full names, as the file says; [] where it does not), ``num_classes`` and
    ``num_features`` (None if it was never fitted).
    """
    meta, _ = _open(data)
    types = meta.get("types")
    known = [str(name) for name in types] if isinstance(types, list) else []
    return {"types": known, **{key: meta.get(key) for key in ("kind", "num_classes", "num_features")}}


def encoder_of(data: bytes) -> bytes | None:
    """Return the encoder of a model's bytes, None if they hold none; raises `ModelBytesError` as `loads`."""
    return _open(data)[1].get("encoder.json")


def _pack(meta: dict[str, Any], members: dict[str, bytes], *, own: bool) -> bytes:
    try:
        text = json.dumps(own_files.marked(meta) if own else meta).encode()
    except TypeError as error:
        raise ModelBytesError(explain(f"Parameters of {meta['kind']}", "be plain values", str(error))) from error
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, content in {"meta.json": text, **members}.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return buffer.getvalue()


def loads(data: bytes, *, trust: bool = False) -> Classifier:
    """Return the classifier that `dumps` wrote.

    Parameters
    ----------
    data : bytes
    trust : bool
        Whether you trust whoever wrote them, if they are not your own; this module's first lines say which models
        need it.

    Raises
    ------
    ModelBytesError
        If the bytes are not such a model, or need trust; the message says why.
    MissingExtraError
        If the model's library is not installed.
    """
    meta, members = _open(data)
    try:
        template, estimator = _read_payload(meta, members["payload"], trust=trust or own_files.is_own(meta))
        origin = meta["params"] if meta["kind"] == "skorch" else None
        classifier = Classifier(template, num_classes=meta["num_classes"], origin=origin)
    except FedkdError:
        raise
    except Exception as error:  # the parsers of four formats may raise anything
        rule, seen = f"hold a readable {meta['kind']} model", f"{type(error).__name__}: {error}"
        raise ModelBytesError(explain("Model bytes", rule, seen)) from error
    if meta["classes"] is not None:
        classifier._classes = np.asarray(meta["classes"], dtype=np.int64)
        classifier._num_features = meta["num_features"]
        classifier._estimator = estimator
    return classifier


def weigh(classifier: Classifier) -> int:
    """Return the size of one upload of a classifier in bytes, for comparison with label exchange.

    For nets and XGBoost it is the size of what `dumps` writes without the training state. For other estimators it is
    the size of a compressed pickle, which is quicker than skops, the same in every run, and what published code
    uploads. The pickle is only measured, never stored or read.

    Raises
    ------
    ModelBytesError
        If the estimator cannot be serialised.
    """
    if _kind(classifier) != "sklearn":
        return len(dumps(classifier, training_state=False))
    try:
        return len(zlib.compress(pickle.dumps(classifier, protocol=5), 1))
    except Exception as error:  # a user's own object may raise anything
        raise ModelBytesError(explain("The model", "be serialisable to be weighed", str(error))) from error


def save(classifier: Classifier, path: str | os.PathLike[str]) -> None:
    """Write a classifier to a file in one step; only the owner can read it.

    Raises
    ------
    ModelBytesError
        As `dumps`.
    """
    write_atomic(path, dumps(classifier))


def load(path: str | os.PathLike[str], *, trust: bool = False) -> Classifier:
    """Read a classifier from a file that `save` wrote.

    Raises
    ------
    ModelBytesError, MissingExtraError
        As `loads`, and if the file is larger than `MAX_BYTES`.
    """
    with Path(path).open("rb") as file:
        return loads(file.read(MAX_BYTES + 1), trust=trust)


def _kind(classifier: Classifier) -> str:
    if classifier.is_skorch:
        return "skorch"
    estimator = classifier.template
    return _KIND_OF.get(f"{type(estimator).__module__}.{type(estimator).__qualname__}", "sklearn")


def _open(data: bytes) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the checked meta data of a container, and its other members by name."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise ModelBytesError(explain("Model bytes", "be bytes", type(data).__name__))
    if not len(data) <= MAX_BYTES:
        raise ModelBytesError(explain("Model bytes", f"be at most {MAX_BYTES} bytes", len(data)))
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            names = sorted(member.filename for member in members)
            if names not in (["meta.json", "payload"], ["encoder.json", "meta.json", "payload"]):
                rule = "hold meta.json and payload, perhaps encoder.json, and no more"
                raise ModelBytesError(explain("Model bytes", rule, f"[{', '.join(names[:5])} ]"))
            limits = {"meta.json": MAX_META_BYTES, "encoder.json": MAX_ENCODER_BYTES}
            for member in members:
                limit = limits.get(member.filename, len(data))
                if member.compress_type != zipfile.ZIP_STORED or not member.file_size <= limit:
                    seen = f"{member.filename} of {member.file_size} bytes, method {member.compress_type}"
                    raise ModelBytesError(explain("Members of model bytes", "be stored as they are", seen))
            contents = {name: archive.read(name) for name in names}
            meta = json.loads(contents.pop("meta.json"))
    except ModelBytesError:
        raise
    except Exception as error:  # zipfile and json may raise anything
        seen = f"{len(data)} bytes ({type(error).__name__}: {error})"
        raise ModelBytesError(explain("Model bytes", "be a model written by fedkd_flwr", seen)) from error
    _check_meta(meta)
    digests = {"payload": meta["sha256"], "encoder.json": meta.get("encoder_sha256")}
    if any(hashlib.sha256(content).hexdigest() != digests[name] for name, content in contents.items()):
        raise ModelBytesError(explain("Model bytes", "match their own digests", "other bytes", "They were damaged."))
    return meta, contents


def _check_meta(meta: Any) -> None:
    if not (isinstance(meta, dict) and meta.get("format") == FORMAT):
        raise ModelBytesError(explain("Model bytes", f"be of format {FORMAT}", "something else"))
    if meta.get("version") != VERSION:
        way_out = "Another version of fedkd_flwr wrote them."
        raise ModelBytesError(explain("Model version", f"be {VERSION}", meta.get("version"), way_out))
    error, of = ModelBytesError, "of model bytes"
    check_choice(f"kind {of}", meta.get("kind"), KINDS, error=error)
    num_classes = check_whole(f"num_classes {of}", meta.get("num_classes"), 2, 2**15 - 1, error=error)
    fitted, classes = check_flag(f"fitted {of}", meta.get("fitted"), error=error), meta.get("classes")
    if classes is not None:
        check_whole(f"num_features {of}", meta.get("num_features"), 1, 2**31 - 1, error=error)
        listed = classes if isinstance(classes, list) else []
        for label in listed:
            check_whole(f"a class {of}", label, 0, num_classes - 1, error=error)
        if not listed or listed != sorted(set(listed)):
            raise ModelBytesError(explain(f"classes {of}", "be different and ascending", str(classes)[:80]))
    if fitted != (classes is not None and len(classes) > 1):
        raise ModelBytesError(explain(f"fitted {of}", "be true with two classes or more, and only then", fitted))
    for name, kind in (("params", dict), ("sha256", str)):
        if not isinstance(meta.get(name), kind):
            raise ModelBytesError(explain(f"{name} {of}", f"be of type {kind.__name__}", str(meta.get(name))[:80]))


def _read_payload(meta: dict[str, Any], payload: bytes, *, trust: bool) -> tuple[Any, Any]:
    """Return the template and, if there is one, the fitted estimator."""
    fitted, params = meta["fitted"], meta["params"]
    if meta["kind"] in ("torch", "transformer"):
        cls = _net_class(meta["kind"])
        if ":" in str(params.get("net", "")):
            _require_trust(str(params["net"]), _RUNS, trust=trust)
        from safetensors.torch import load as load_tensors

        template = cls(**params)
        check = template.check_settings if meta["kind"] == "transformer" else template.validate
        check()
        if not fitted:
            return template, None
        if (template.num_classes, getattr(template, "num_features", 1)) != (meta["num_classes"], meta["num_features"]):
            raise ValueError("the net's inputs or outputs are not those of the classifier")
        return template, cls(**params).load_state_tensors(load_tensors(payload))
    if meta["kind"] == "skorch":
        _require_trust(str(params.get("spec")), _RUNS, trust=trust)
        require_extra("torch")
        from safetensors.torch import load as load_tensors

        from fedkd_flwr.models._skorch_state import restored
        from fedkd_flwr.models.zoo import make_model

        template = make_model(**params).template
        return template, restored(template, load_tensors(payload)) if fitted else None
    if meta["kind"] == "xgboost":
        _require_trust("XGBoost", _FOLLOWS, trust=trust)
        xgboost = import_extra("xgboost", "xgboost")
        template = xgboost.XGBClassifier(**params)
        if not fitted:
            return template, None
        estimator = xgboost.XGBClassifier(**params)
        estimator.load_model(bytearray(zlib.decompress(payload)))
        return template, estimator
    estimator = _load_skops(payload, trust=trust)
    return estimator, estimator if fitted else None


_RUNS = "reading it runs that code"
_FOLLOWS = "its compiled code reads memory at places that the file names"


def _require_trust(what: str, why: str, *, trust: bool) -> None:
    """Refuse a file that somebody else wrote, or changed, and that can do harm."""
    if not trust:
        way_out = f"{why[0].upper()}{why[1:]}. If you trust whoever wrote it: load(path, trust=True), or --trust."
        rule = "be written by a run of this user and unchanged, or be trusted"
        raise ModelBytesError(explain(f"A model file with {what}", rule, "a file of somebody else", way_out))


def _net_class(kind: str) -> Any:
    if kind == "torch":
        require_extra("torch")
        from fedkd_flwr.models.networks import TorchNet

        return TorchNet
    require_extra("text")
    from fedkd_flwr.models.transformers import TextTransformer

    return TextTransformer


def _dump_skorch(classifier: Classifier, *, training_state: bool) -> tuple[dict[str, Any], bytes]:
    if classifier.origin is None:
        way_out = 'Name it by import string, model="package.module:factory".'
        raise ModelBytesError(explain("A skorch net", "be made by a factory that a file can name", "none", way_out))
    from safetensors.torch import save as save_tensors

    from fedkd_flwr.models._skorch_state import state_tensors

    net = classifier.estimator
    params = {key: list(value) if isinstance(value, tuple) else value for key, value in classifier.origin.items()}
    return params, save_tensors({} if net is None else state_tensors(net, training_state=training_state))


def _dump_torch(net: Any, *, fitted: bool, training_state: bool) -> tuple[dict[str, Any], bytes]:
    from safetensors.torch import save as save_tensors

    params = {k: list(v) if isinstance(v, tuple) else v for k, v in net.get_params().items()}
    tensors = net.state_tensors(training_state=training_state) if fitted else {}
    return params, save_tensors(tensors)


def _dump_xgboost(estimator: Any, *, fitted: bool) -> tuple[dict[str, Any], bytes]:
    defaults = type(estimator)().get_params()
    params = {k: v for k, v in estimator.get_params().items() if v is not None and v is not defaults.get(k)}
    params = {k: v for k, v in params.items() if v == v and v != defaults.get(k)}  # `missing` is NaN
    return params, zlib.compress(bytes(estimator.get_booster().save_raw("json")), 1) if fitted else b""


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
        members = archive.infolist()
        unpacked = sum(member.file_size for member in members)
        if not (len(members) <= MAX_MEMBERS and unpacked <= MAX_BYTES):
            seen = f"{unpacked} bytes in {len(members)} members"
            raise ModelBytesError(explain("A skops payload", f"unpack to at most {MAX_BYTES} bytes", seen))
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

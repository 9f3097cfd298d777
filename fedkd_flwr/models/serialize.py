"""Models as bytes: the container, its checks, and which files are read only if the reader trusts them.

The container is a zip of uncompressed members: ``meta.json`` (version, kind, label space, digests), ``payload``, in the
format of its kind (skops for scikit-learn, XGBoost's JSON, safetensors for torch nets and transformers), and perhaps
``encoder.json``, which says how raw rows become what the model reads (`fedkd_flwr.data.public`). None uses pickle.

Reading is safe whoever wrote the file for torch nets of the zoo, transformers, and scikit-learn's types of
`fedkd_flwr.models.payloads.PLAIN`, which compute with NumPy on plain arrays. Of trees, forests, boosting, neighbours,
libsvm, XGBoost and all others the compiled code follows numbers of the file unchecked, and a user's own class or net is
imported and run. Such a file is read if one of this user's own runs wrote it and nobody changed it, which its digest
says, keyed by a secret in ``~/.fedkd``, or with ``trust``.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import io
import json
import os
import pickle
import secrets
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedkd_flwr.checks import check_choice
from fedkd_flwr.errors import FedkdError, ModelBytesError, explain
from fedkd_flwr.files import HOME, make_folder, write_atomic
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.models.payloads import KINDS, dump_payload, kind_of, read_payload

__all__ = ["MAX_BYTES", "dumps", "encoder_of", "load", "loads", "save", "types_of", "weigh", "with_encoder"]

FORMAT, VERSION = "fedkd-model", 1
# limit of the container and of an unpacked skops payload; BERT-base with AdamW's state takes 1.3 GB
MAX_BYTES = 2**31


def dumps(classifier: Classifier, *, training_state: bool = True) -> bytes:
    """Return a classifier, which may be unfitted or constant, as bytes.

    With ``training_state`` they hold a torch net's optimiser and random state, so that the reloaded net continues
    training exactly as this one would. Without them the size is that of an upload of the model. Raises
    `ModelBytesError` if a user's own estimator cannot be written in a safe format, or the model is too large.
    """
    params, payload = dump_payload(classifier, training_state=training_state)
    meta = {
        "format": FORMAT,
        "version": VERSION,
        "kind": kind_of(classifier),
        "fitted": classifier.estimator is not None,
        "num_classes": classifier.num_classes,
        "classes": None if classifier._classes is None else classifier._classes.tolist(),
        "num_features": classifier.num_features,
        "shares": {name: shares.tolist() for name, shares in classifier.shares.items()},
        "types": list(classifier.type_names),
        "params": params,
        "sha256": hashlib.sha256(payload).hexdigest(),
    }
    if not len(payload) <= MAX_BYTES:
        way_out = 'Take a smaller one; a transformer with train = "head" keeps no optimiser\'s state of the rest.'
        raise ModelBytesError(explain("A model", f"fit into {MAX_BYTES} bytes", f"{len(payload)} bytes", way_out))
    return _pack(meta, {"payload": payload}, own=True)


def with_encoder(data: bytes, encoder: bytes) -> bytes:
    """Return a model's bytes with what encodes raw rows for it, as `fedkd_flwr.data.public.Encoder` writes it."""
    meta, members = _open(data)
    own = _is_own(meta)  # nobody else's file becomes one of this user's by this
    meta["encoder_sha256"] = hashlib.sha256(encoder).hexdigest()
    return _pack(meta, {"payload": members["payload"], "encoder.json": encoder}, own=own)


def types_of(data: bytes) -> list[str]:
    """Return the full names of the types that a model's bytes name, without rebuilding it; raises as `loads`."""
    types = _open(data)[0].get("types")
    return [str(name) for name in types] if isinstance(types, list) else []


def encoder_of(data: bytes) -> bytes | None:
    """Return the encoder of a model's bytes, None if they hold none; raises `ModelBytesError` as `loads`."""
    return _open(data)[1].get("encoder.json")


def _pack(meta: dict[str, Any], members: dict[str, bytes], *, own: bool) -> bytes:
    try:
        text = json.dumps(_marked(meta) if own else meta).encode()
    except TypeError as error:
        raise ModelBytesError(explain(f"Parameters of {meta['kind']}", "be plain values", str(error))) from error
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, content in {"meta.json": text, **members}.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return buffer.getvalue()


def loads(data: bytes, *, trust: bool = False) -> Classifier:
    """Return the classifier that `dumps` wrote.

    With ``trust`` you say that you trust whoever wrote them, if they are not your own; this module's first lines say
    which models need it. Raises `ModelBytesError` if the bytes are not such a model, or need trust, and
    `MissingExtraError` if the model's library is not installed.
    """
    meta, members = _open(data)
    try:
        template, estimator = read_payload(meta, members["payload"], trust=trust or _is_own(meta))
        classifier = Classifier(template, num_classes=meta["num_classes"])
        if meta["classes"] is not None:
            classifier._classes = np.asarray(meta["classes"], dtype=np.int64)
            classifier.num_features = meta["num_features"]
            classifier.estimator = estimator
        classifier.shares = {name: np.asarray(shares) for name, shares in meta.get("shares", {}).items()}
    except FedkdError:
        raise
    except Exception as error:  # the parsers of four formats may raise anything
        rule, seen = f"hold a readable {meta['kind']} model", f"{type(error).__name__}: {error}"
        raise ModelBytesError(explain("Model bytes", rule, seen)) from error
    return classifier


def weigh(classifier: Classifier) -> int:
    """Return the size of one upload of a classifier in bytes, for comparison with label exchange.

    For nets and XGBoost it is the size of what `dumps` writes without the training state. For other estimators it is
    the size of a compressed pickle, which is quicker than skops, the same in every run, and what published code
    uploads. The pickle is only measured, never stored or read. Raises `ModelBytesError` if there is none.
    """
    if kind_of(classifier) != "sklearn":
        return len(dumps(classifier, training_state=False))
    try:
        return len(zlib.compress(pickle.dumps(classifier, protocol=5), 1))
    except Exception as error:  # a user's own object may raise anything
        raise ModelBytesError(explain("The model", "be serialisable to be weighed", str(error))) from error


def save(classifier: Classifier, path: str | os.PathLike[str]) -> None:
    """Write a classifier to a file in one step; only the owner can read it. Raises as `dumps`."""
    write_atomic(path, dumps(classifier))


def load(path: str | os.PathLike[str], *, trust: bool = False) -> Classifier:
    """Read a classifier from a file that `save` wrote; raises as `loads`, and for a file larger than `MAX_BYTES`."""
    with Path(path).open("rb") as file:
        return loads(file.read(MAX_BYTES + 1), trust=trust)


def _open(data: bytes) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the checked meta data of a container, and its other members by name."""
    if not len(data) <= MAX_BYTES:
        raise ModelBytesError(explain("Model bytes", f"be at most {MAX_BYTES} bytes", len(data)))
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            contents = {name: archive.read(name) for name in archive.namelist()}
        meta = json.loads(contents.pop("meta.json"))
    except Exception as error:  # zipfile and json may raise anything
        seen = f"{len(data)} bytes ({type(error).__name__}: {error})"
        raise ModelBytesError(explain("Model bytes", "be a model written by fedkd_flwr", seen)) from error
    if not (isinstance(meta, dict) and meta.get("format") == FORMAT):
        raise ModelBytesError(explain("Model bytes", f"be of format {FORMAT}", "something else"))
    if meta.get("version") != VERSION:
        way_out = "Another version of fedkd_flwr wrote them."
        raise ModelBytesError(explain("Model version", f"be {VERSION}", meta.get("version"), way_out))
    check_choice("kind of model bytes", meta.get("kind"), KINDS, error=ModelBytesError)
    digests = {"payload": meta.get("sha256"), "encoder.json": meta.get("encoder_sha256")}
    if any(hashlib.sha256(content).hexdigest() != digests.get(name) for name, content in contents.items()):
        raise ModelBytesError(explain("Model bytes", "match their own digests", "other bytes", "They were damaged."))
    return meta, contents


# ------------------------------------------------------------ which model files this user's own runs wrote

SECRET = HOME / "model-files.key"
_BYTES = 32


def _marked(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Return a file's description with this user's keyed digest of it; without one where no secret can be kept."""
    bare = {name: value for name, value in meta.items() if name != "own"}
    secret = _secret() or _new_secret()
    return {**bare, "own": _keyed_digest(bare, secret)} if secret else bare


def _is_own(meta: Mapping[str, Any]) -> bool:
    """Tell whether this user wrote the file with this description, which holds the digests of all its contents."""
    bare, secret = {name: value for name, value in meta.items() if name != "own"}, _secret()
    return bool(secret) and hmac.compare_digest(_keyed_digest(bare, secret).encode(), str(meta.get("own", "")).encode())


def _keyed_digest(meta: Mapping[str, Any], secret: bytes) -> str:
    as_read = json.loads(json.dumps(meta))  # keys that are numbers become texts in a file, and are sorted otherwise
    return hmac.new(secret, json.dumps(as_read, sort_keys=True).encode(), hashlib.sha256).hexdigest()


def _secret() -> bytes:
    with contextlib.suppress(OSError, RuntimeError):  # RuntimeError: a user without a home
        found = SECRET.expanduser().read_bytes()
        return found if len(found) == _BYTES else b""
    return b""


def _new_secret() -> bytes:
    """Make the secret; of several processes that do so at once, the first one's is everybody's."""
    with contextlib.suppress(OSError, RuntimeError):
        path = SECRET.expanduser()
        make_folder(path.parent)
        handle, draft = tempfile.mkstemp(dir=path.parent, prefix=".key-")  # mode 0600
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(secrets.token_bytes(_BYTES))
            with contextlib.suppress(FileExistsError):
                os.link(draft, path)  # the name appears with the whole content, or another process was first
        finally:
            os.unlink(draft)
    return _secret()

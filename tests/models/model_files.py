"""Small models and forged files of models, for tests of what is written and read."""

import hashlib
import io
import json
import zipfile

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.tree import DecisionTreeClassifier

from fedkd_flwr.models import Classifier, make_model

SMALL = {
    "random-forest": {"n_estimators": 20},
    "extra-trees": {"n_estimators": 20},
    "hist-gradient-boosting": {"max_iter": 6},
    "xgboost": {"n_estimators": 6},
    "fast-forest": {"num_parallel_tree": 20},
    "rulefit": {"n_estimators": 10},
    "mlp": {"hidden": [64], "epochs": 15, "batch_size": 32},
    "cnn-fedkt": {"epochs": 6, "batch_size": 16, "lr": 3e-3},
    "cnn-privatekt": {"epochs": 2, "batch_size": 16, "lr": 1e-3},
    "cnn-fedmd": {"epochs": 3, "batch_size": 16, "channels": [16, 16]},
}
ROWS = np.array([[0.0], [1.0], [2.0], [3.0]], dtype=np.float32)


def mlp(seed=0, **params):
    """Return a small net for the digits."""
    return make_model("mlp", num_classes=10, num_features=64, seed=seed, params={"hidden": [32], **params})


class Own(ClassifierMixin, BaseEstimator):
    """A user's own estimator."""

    def fit(self, X, y):
        self.most_ = int(np.bincount(y).argmax())
        return self

    def predict(self, X):
        return np.full(len(X), self.most_)


class Unwritable(Own):
    def fit(self, X, y):
        self.secret_ = {(1, 2): "keys of JSON are text"}
        return super().fit(X, y)


def fitted_tree():
    return Classifier(DecisionTreeClassifier(random_state=0), num_classes=4).fit(ROWS, np.array([0, 1, 3, 3]))


def forge(data, *, payload=None, compression=zipfile.ZIP_STORED, extra=None, **changes):
    """Return a container with other contents and a digest that fits them, as whoever lacks the secret can make it."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        meta, old = json.loads(archive.read("meta.json")), archive.read("payload")
    payload = old if payload is None else payload
    meta = {**meta, "sha256": hashlib.sha256(payload).hexdigest(), **changes}
    if "own" not in changes:
        del meta["own"]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        archive.writestr("meta.json", json.dumps(meta))
        archive.writestr("payload", payload)
        if extra:
            archive.writestr(extra, b"")
    return buffer.getvalue()

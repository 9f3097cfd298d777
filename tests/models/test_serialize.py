import io
import json
import pickle
import re
import stat
import subprocess
import sys
import zipfile
import zlib

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    BaggingClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    VotingClassifier,
)
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder, PolynomialFeatures, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import Bunch

from fedkd_flwr.errors import MissingExtraError, ModelBytesError
from fedkd_flwr.models import NAMES, Classifier, make_model, serialize
from fedkd_flwr.models._tree_checks import check_trees

SMALL = {
    "random-forest": {"n_estimators": 5},
    "extra-trees": {"n_estimators": 5},
    "hist-gradient-boosting": {"max_iter": 5},
    "xgboost": {"n_estimators": 5},
    "rulefit": {"n_estimators": 10},
    "mlp": {"hidden": [32], "epochs": 2},
    "cnn-fedkt": {"epochs": 1},
    "cnn-privatekt": {"max_steps": 2},
    "cnn-fedmd": {"max_steps": 3, "channels": [4, 6, 8]},
}
ROWS = np.array([[0.0], [1.0], [2.0], [3.0]], dtype=np.float32)


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
    """Return a container with other contents and a digest that fits them."""
    import hashlib

    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        meta, old = json.loads(archive.read("meta.json")), archive.read("payload")
    payload = old if payload is None else payload
    meta = {**meta, "sha256": hashlib.sha256(payload).hexdigest(), **changes}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        archive.writestr("meta.json", json.dumps(meta))
        archive.writestr("payload", payload)
        if extra:
            archive.writestr(extra, b"")
    return buffer.getvalue()


def rows_for(name, digits):
    X, y, X_test, _ = digits
    if name == "rulefit":
        return X[y < 2], y[y < 2] + 4, X_test, None
    if name.startswith("cnn"):
        times = 3 if name == "cnn-fedmd" else 2
        block, side = np.ones((1, times, times), np.float32), 8 * times
        wide = [np.kron(Z.reshape(-1, 8, 8), block).reshape(len(Z), -1) for Z in (X, X_test)]
        return wide[0], y, wide[1], (1, side, side)
    return X, y, X_test, None


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith(("cnn-fedmd-", "transformer"))])
def test_a_reloaded_model_answers_as_the_saved_one(name, digits):
    X, y, X_test, shape = rows_for(name, digits)
    X_test = X_test[:300]
    model = make_model(name, num_classes=10, num_features=X.shape[1], shape=shape, seed=1, params=SMALL.get(name, {}))
    unfitted = serialize.loads(serialize.dumps(model))
    assert not unfitted.is_fitted
    model.fit(X, y)
    again = serialize.loads(serialize.dumps(model))
    assert np.array_equal(model.predict_proba(X_test), again.predict_proba(X_test))
    assert np.array_equal(model.predict(X_test), again.predict(X_test))
    assert (again.num_classes, again.num_features) == (10, X.shape[1])
    # the template survives too: a refit after loading is the refit of the saved one
    assert np.array_equal(model.predict_proba(X_test), again.fit(X, y).predict_proba(X_test))
    assert np.array_equal(model.predict_proba(X_test), unfitted.fit(X, y).predict_proba(X_test))


@pytest.mark.parametrize(
    "optimizer", [{"optimizer": "adam"}, {"optimizer": "sgd", "momentum": 0.9}, {"optimizer": "sgd"}]
)
def test_a_reloaded_net_continues_as_the_unsaved_one_would(optimizer, digits):
    X, y, X_test, _ = digits
    params = {"hidden": [32], "dropout": 0.2, **optimizer}
    model = make_model("mlp", num_classes=10, num_features=64, seed=1, params=params)
    model.update(X[:200], y[:200], X[200:], y[200:], steps=20)
    again = serialize.loads(serialize.dumps(model))
    bare = serialize.loads(serialize.dumps(model, training_state=False))
    probs = [m.update(X[:200], y[:200], X[200:], y[200:], steps=20).predict_proba(X_test) for m in (model, again, bare)]
    assert np.array_equal(probs[0], probs[1])
    assert not np.array_equal(probs[0], probs[2])  # without the state it is another continuation


def test_a_constant_keeps_its_class_and_its_template():
    model = Classifier(DecisionTreeClassifier(random_state=0), num_classes=4).fit(ROWS, np.full(4, 2))
    again = serialize.loads(serialize.dumps(model))
    assert again.is_constant
    assert again.predict(ROWS).tolist() == [2] * 4
    assert again.update(ROWS, np.array([0, 1, 3, 3])).predict(ROWS).tolist() == [0, 1, 3, 3]


def test_absent_classes_stay_absent():
    assert serialize.loads(serialize.dumps(fitted_tree())).predict(ROWS).tolist() == [0, 1, 3, 3]


@pytest.mark.parametrize(
    "estimator", [GradientBoostingClassifier(n_estimators=3), BaggingClassifier(n_estimators=3, max_features=0.5)]
)
def test_ensembles_outside_the_zoo_pass_the_checks_of_their_trees(estimator, digits):
    X, y, X_test, _ = digits
    model = Classifier(estimator, num_classes=10).fit(X, y)
    again = serialize.loads(serialize.dumps(model))
    assert np.array_equal(model.predict(X_test), again.predict(X_test))


@pytest.mark.parametrize(
    "estimator",
    [
        MLPClassifier([4], max_iter=3),
        MLPClassifier([4], max_iter=3, solver="sgd", early_stopping=True),
        CalibratedClassifierCV(GaussianNB()),
        CalibratedClassifierCV(GaussianNB(), method="isotonic", ensemble=False),
        VotingClassifier([("a", GaussianNB()), ("b", DecisionTreeClassifier())]),
        GridSearchCV(DecisionTreeClassifier(), {"max_depth": [2, 3]}),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_estimators_of_scikit_learn_that_are_python_alone_need_no_trust(estimator, digits):
    X, y, X_test, _ = digits
    model = Classifier(estimator, num_classes=10).fit(X, y)
    again = serialize.loads(serialize.dumps(model))
    assert np.array_equal(model.predict(X_test), again.predict(X_test))


def test_a_model_that_needs_trust_says_so_as_it_is_typed(digits):
    X, y, X_test, _ = digits
    model = Classifier(KNeighborsClassifier(algorithm="kd_tree"), num_classes=10).fit(X, y)
    data = serialize.dumps(model)
    with pytest.raises(
        ModelBytesError, match=r"got sklearn.*KDTree .*--trust sklearn.neighbors._kd_tree.KDTree"
    ) as caught:
        serialize.loads(data)
    trusted = re.findall(r"--trust ([\w.]+\w)", str(caught.value))
    assert np.array_equal(serialize.loads(data, trusted=trusted).predict(X_test), model.predict(X_test))


def test_a_forged_tree_is_found_in_what_a_dictionary_hides(digits):
    model = Classifier(VotingClassifier([("a", DecisionTreeClassifier())]), num_classes=4)
    model.fit(ROWS, np.array([0, 1, 3, 3]))
    tree = model.estimator.estimators_[0].tree_
    state = tree.__getstate__()
    state["nodes"]["feature"][0] = 10**6
    tree.__setstate__(state)
    bunch = Bunch(a=1)
    bunch.__dict__["hidden"] = tree
    with pytest.raises(ValueError, match="reads a column that the rows lack"):
        check_trees(bunch)
    with pytest.raises(ModelBytesError, match="reads a column that the rows lack"):
        serialize.loads(serialize.dumps(model))


def test_a_model_weighs_an_upload_without_the_optimiser(digits):
    X, y, _, _ = digits
    model = make_model("mlp", num_classes=10, num_features=64, seed=1, params={"hidden": [100], "epochs": 1}).fit(X, y)
    weights = 4 * (64 * 100 + 100 + 100 * 10 + 10)
    assert weights < serialize.weigh(model) < weights + 2000
    assert len(serialize.dumps(model)) > 3 * weights


def test_saving_is_private_and_leaves_no_draft(tmp_path):
    path = tmp_path / "model.bin"
    path.write_text("an older model, readable by all")
    serialize.save(fitted_tree(), path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [p.name for p in tmp_path.iterdir()] == ["model.bin"]
    assert serialize.load(path).predict(ROWS).tolist() == [0, 1, 3, 3]


def test_a_save_that_fails_keeps_the_older_model(tmp_path, monkeypatch):
    path = tmp_path / "model.bin"
    serialize.save(fitted_tree(), path)
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        serialize.save(fitted_tree(), path)
    assert [p.name for p in tmp_path.iterdir()] == ["model.bin"]
    assert serialize.load(path).is_fitted


def test_a_users_own_type_is_refused_by_name_until_trusted():
    data = serialize.dumps(Classifier(Own(), num_classes=4).fit(ROWS, np.array([0, 3, 3, 3])))
    name = f"{__name__}.Own"
    with pytest.raises(ModelBytesError, match=rf"Types in a model must be known, got {name} .*trusted="):
        serialize.loads(data)
    assert serialize.loads(data, trusted=(name,)).predict(ROWS).tolist() == [3] * 4


def test_an_estimator_that_skops_cannot_write_is_named():
    model = Classifier(Unwritable(), num_classes=4).fit(ROWS, np.array([0, 3, 3, 3]))
    with pytest.raises(ModelBytesError, match="Unwritable must be writable by skops"):
        serialize.dumps(model)


def test_missing_library_is_named_on_loading(monkeypatch):
    model = make_model("xgboost", num_classes=4, num_features=1, seed=0, params={"n_estimators": 2})
    data = serialize.dumps(model.fit(ROWS, np.array([0, 1, 3, 3])))
    monkeypatch.setitem(__import__("sys").modules, "xgboost", None)
    with pytest.raises(MissingExtraError, match=r"fedkd-flwr\[xgboost\]"):
        serialize.loads(data)


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("bytes were executed",))


@pytest.mark.parametrize(
    "data",
    [b"", b"PK", b"no model", pickle.dumps({"a": 1}), pickle.dumps(Bomb()), np.random.default_rng(0).bytes(5000)],
    ids=["empty", "stub", "text", "pickle", "hostile-pickle", "random"],
)
def test_bytes_that_are_no_model_are_refused(data):
    with pytest.raises(ModelBytesError, match=f"Model bytes must be a model written by fedkd_flwr, got {len(data)}"):
        serialize.loads(data)


def test_what_is_no_bytes_is_refused():
    with pytest.raises(ModelBytesError, match="Model bytes must be bytes, got 'str'"):
        serialize.loads("model")


def test_every_truncation_is_refused():
    data = serialize.dumps(fitted_tree())
    for end in range(0, len(data), 61):
        with pytest.raises(ModelBytesError):
            serialize.loads(data[:end])


def test_no_flipped_byte_ever_gives_another_exception():
    data = serialize.dumps(fitted_tree())
    rng = np.random.default_rng(1)
    refused = 0
    for _ in range(200):
        damaged = bytearray(data)
        damaged[rng.integers(len(data))] ^= int(rng.integers(1, 256))
        try:
            serialize.loads(bytes(damaged))  # a flip in a date of the zip changes nothing
        except ModelBytesError:
            refused += 1
    assert refused > 150


def test_another_version_says_so():
    with pytest.raises(ModelBytesError, match=r"Model version must be 1, got 2.*Another version"):
        serialize.loads(forge(serialize.dumps(fitted_tree()), version=2))


def test_a_payload_other_than_its_digest_is_refused():
    data = forge(serialize.dumps(fitted_tree()), sha256="0" * 64)
    with pytest.raises(ModelBytesError, match="match their own digests"):
        serialize.loads(data)


def test_a_path_as_member_is_refused():
    with pytest.raises(ModelBytesError, match=r"hold meta\.json and payload, perhaps encoder\.json, and no more"):
        serialize.loads(forge(serialize.dumps(fitted_tree()), extra="../../etc/passwd"))


def test_a_bomb_in_the_container_is_refused_unread():
    data = forge(serialize.dumps(fitted_tree()), payload=bytes(50_000_000), compression=zipfile.ZIP_DEFLATED)
    assert len(data) < 100_000
    with pytest.raises(ModelBytesError, match="Members of model bytes must be stored as they are"):
        serialize.loads(data)


def test_a_bomb_in_the_skops_payload_is_refused_unread(monkeypatch):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("schema.json", bytes(30_000_000))
    monkeypatch.setattr(serialize, "MAX_BYTES", 20_000_000)
    with pytest.raises(ModelBytesError, match="A skops payload must unpack to at most 20000000 bytes"):
        serialize.loads(forge(serialize.dumps(fitted_tree()), payload=buffer.getvalue()))


def test_more_bytes_than_allowed_are_refused(monkeypatch, tmp_path):
    path = tmp_path / "model"
    serialize.save(fitted_tree(), path)
    monkeypatch.setattr(serialize, "MAX_BYTES", 100)
    with pytest.raises(ModelBytesError, match="be at most 100 bytes"):
        serialize.load(path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kind", "pickle"),
        ("num_classes", 1),
        ("num_classes", True),
        ("num_classes", "4"),
        ("classes", [0, 1, 9]),
        ("classes", [3, 1, 0]),
        ("classes", [0]),
        ("classes", []),
        ("num_features", -1),
        ("fitted", "yes"),
        ("params", None),
    ],
)
def test_wrong_meta_data_is_refused(name, value):
    with pytest.raises(ModelBytesError, match="of model bytes must be "):
        serialize.loads(forge(serialize.dumps(fitted_tree()), **{name: value}))


@pytest.mark.parametrize("name", ["decision-tree", "xgboost", "mlp"])
def test_a_payload_of_noise_is_refused(name, digits):
    X, y, _, _ = digits
    model = make_model(name, num_classes=10, num_features=64, seed=1, params=SMALL.get(name, {})).fit(X, y)
    for payload in (b"", np.random.default_rng(0).bytes(3000)):
        with pytest.raises(ModelBytesError, match="hold a readable"):
            serialize.loads(forge(serialize.dumps(model), payload=payload))


@pytest.mark.parametrize("what", ["child", "loop", "column", "width"])
def test_a_forged_tree_is_refused_because_compiled_code_would_follow_it(what):
    model = fitted_tree()
    tree = model.estimator.tree_
    state = tree.__getstate__()
    if what == "child":
        state["nodes"]["left_child"][0] = 10**6
    elif what == "loop":
        state["nodes"]["left_child"][0] = 0
    elif what == "column":
        state["nodes"]["feature"][0] = 10**6
    else:
        model.estimator.n_features_in_ = 5
    tree.__setstate__(state)
    with pytest.raises(ModelBytesError, match=r"a node of a tree|another number of columns"):
        serialize.loads(serialize.dumps(model))


def test_a_forged_histogram_tree_is_refused(digits):
    X, y, _, _ = digits
    model = make_model("hist-gradient-boosting", num_classes=10, num_features=64, seed=1, params={"max_iter": 2})
    model.fit(X, y)
    model.estimator._predictors[1][3].nodes["feature_idx"][0] = 64
    with pytest.raises(ModelBytesError, match="reads a column that the rows lack"):
        serialize.loads(serialize.dumps(model))


def _boosting(*steps):
    """Return a model of histogram gradient boosting behind other steps, and its boosting."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4)).astype(np.float32)
    estimator = make_pipeline(*steps, HistGradientBoostingClassifier(max_iter=2))
    model = Classifier(estimator, num_classes=2).fit(X, (X[:, 0] * X[:, 1] > 0).astype(int))
    return model, model.estimator[-1], X


@pytest.mark.parametrize("step", [PolynomialFeatures(), PCA(2), StandardScaler()])
def test_histogram_trees_behind_a_step_that_changes_the_number_of_columns_can_be_read_again(step):
    model, _, X = _boosting(step)
    again = serialize.loads(serialize.dumps(model))
    assert np.array_equal(model.predict_proba(X), again.predict_proba(X))


@pytest.mark.parametrize("what", ["column", "width", "no width", "narrow", "foreign", "category", "unowned"])
def test_a_forged_histogram_tree_is_held_against_the_rows_of_its_own_estimator(what):
    """PCA(2) gives rows of two columns: column 3 of the raw rows is none of them."""
    model, boosting, _ = _boosting(PCA(2))
    nodes = boosting._predictors[1][0].nodes
    if what == "column":
        nodes["feature_idx"][0] = 3
    elif what == "width":
        boosting.n_features_in_ = 1  # rows of another width are refused by scikit-learn
        nodes["feature_idx"][0] = 1
    elif what == "no width":
        boosting.n_features_in_ = None
    elif what == "narrow":  # fewer columns than the boosting itself reads
        boosting._preprocessor = ColumnTransformer([("one", OrdinalEncoder(), [0])]).fit(np.eye(2))
        nodes["feature_idx"][0] = 1
    elif what == "foreign":  # what it holds would run before it is checked
        boosting._preprocessor = ColumnTransformer([("one", PCA(1), [0, 1])]).fit(np.eye(2))
    elif what == "category":
        nodes["is_categorical"][0] = 1
    else:
        model.estimator[0].hidden = boosting._predictors[0]
        boosting._predictors = boosting._predictors[1:]
    with pytest.raises(
        ModelBytesError, match=r"a node of a tree|no whole number|belongs to no estimator|by something else"
    ):
        serialize.loads(serialize.dumps(model))


def test_a_net_larger_than_its_weights_is_refused_before_it_is_built(digits):
    X, y, _, _ = digits
    model = make_model("mlp", num_classes=10, num_features=64, seed=1, params=SMALL["mlp"]).fit(X, y)
    data = serialize.dumps(model)
    params = json.loads(zipfile.ZipFile(io.BytesIO(data)).read("meta.json"))["params"]
    huge = {**params, "hidden": [2**19, 2**19, 2**19]}  # a terabyte and more
    with pytest.raises(ModelBytesError, match="other names or shapes"):
        serialize.loads(forge(data, params=huge))


def test_a_net_with_a_broken_optimiser_state_is_refused(digits):
    from safetensors.torch import load, save

    X, y, _, _ = digits
    model = make_model("mlp", num_classes=10, num_features=64, seed=1, params=SMALL["mlp"]).fit(X, y)
    data = serialize.dumps(model)
    tensors = load(zipfile.ZipFile(io.BytesIO(data)).read("payload"))
    for name in ("optimizer.0.exp_avg", "optimizer.0.step", "rng"):
        broken = {**tensors, name: tensors[name].ravel().repeat(2)}
        with pytest.raises(ModelBytesError, match="hold a readable torch model"):
            serialize.loads(forge(data, payload=save(broken)))


def booster_of(data):
    return json.loads(zlib.decompress(zipfile.ZipFile(io.BytesIO(data)).read("payload")))


@pytest.fixture(scope="module")
def boosted(digits):
    X, y, _, _ = digits
    model = make_model("xgboost", num_classes=10, num_features=64, seed=1, params={"n_estimators": 2})
    return serialize.dumps(model.fit(X, y))


@pytest.mark.parametrize(
    ("field", "value"),
    [("left_children", 10**6), ("left_children", 0), ("split_indices", 64), ("split_conditions", "x"), ("parents", 5)],
)
def test_a_forged_booster_is_refused_because_xgboost_would_follow_it(field, value, boosted):
    booster = booster_of(boosted)
    booster["learner"]["gradient_booster"]["model"]["trees"][3][field][0] = value
    payload = zlib.compress(json.dumps(booster).encode())
    with pytest.raises(ModelBytesError, match="hold a readable xgboost model, got ValueError"):
        serialize.loads(forge(boosted, payload=payload))


def test_a_bomb_in_a_booster_is_refused(boosted, monkeypatch):
    monkeypatch.setattr("fedkd_flwr.models._xgboost_json.MAX_TEXT_BYTES", 1000)
    with pytest.raises(ModelBytesError, match="the booster is cut off, or too large"):
        serialize.loads(boosted)


def test_a_booster_of_another_kind_says_so_when_saved():
    model = make_model("xgboost", num_classes=2, num_features=1, seed=0, params={"booster": "dart", "n_estimators": 2})
    model.fit(ROWS, np.array([0, 0, 1, 1]))
    with pytest.raises(ModelBytesError, match="An XGBoost model must be a classifier of plain trees"):
        serialize.dumps(model)


def test_a_forest_of_soft_targets_is_saved_like_any_other_and_refits_as_a_classifier(digits):
    X, y, X_test, _ = digits
    targets = np.eye(10)[y] * 5 + np.random.default_rng(0).laplace(size=(len(y), 10))
    model = make_model("random-forest", num_classes=10, num_features=64, seed=1, params={"n_estimators": 5})
    again = serialize.loads(serialize.dumps(model.fit_soft(X, targets)))
    assert np.array_equal(model.predict_proba(X_test), again.predict_proba(X_test))
    assert np.array_equal(model.fit(X, y).predict(X_test), again.fit(X, y).predict(X_test))


def test_a_booster_of_soft_targets_is_saved_like_any_other(digits):
    X, y, X_test, _ = digits
    targets = np.eye(10)[y] + 0.1
    model = make_model("xgboost", num_classes=10, num_features=64, seed=1, params={"n_estimators": 2})
    again = serialize.loads(serialize.dumps(model.fit_soft(X, targets)))
    assert np.array_equal(model.predict_proba(X_test), again.predict_proba(X_test))


def test_a_net_that_digested_continues_after_reloading_as_if_unsaved(digits):
    X, y, X_test, _ = digits
    model = make_model("mlp", num_classes=10, num_features=64, seed=1, params={"hidden": [32], "dropout": 0.2})
    model.train_epochs(X, y, epochs=2)
    again = serialize.loads(serialize.dumps(model))
    for each in (model, again):
        each.digest(X, np.eye(10)[y], epochs=1, loss="mse-probs")
    assert np.array_equal(model.logits(X_test), again.logits(X_test))


def test_a_process_that_writes_a_forest_imports_no_torch():
    code = (
        "import sys; from fedkd_flwr.models import serialize; serialize.import_skops(); print('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"

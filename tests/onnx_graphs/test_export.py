"""Each model's graph answers as the model: labels on every row, also where trees vote alike, probabilities to 1e-5."""

import json

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from fedkd_flwr.data.bins import Bins
from fedkd_flwr.data.encoder import Encoder
from fedkd_flwr.data.public import make_public_set
from fedkd_flwr.data.schema import Column, Schema
from fedkd_flwr.errors import FedkdError
from fedkd_flwr.models import NAMES, Classifier, make_model
from fedkd_flwr.models.binned import BinnedLinear
from fedkd_flwr.onnx_graphs import check_onnx, onnx_inputs, to_onnx
from fedkd_flwr.stores.saved_model import SavedModel, load, save

SMALL = {
    "random-forest": {"n_estimators": 8, "max_depth": 3},
    "extra-trees": {"n_estimators": 8},
    "hist-gradient-boosting": {"max_iter": 3},
    "xgboost": {"n_estimators": 4},
    "rulefit": {"n_estimators": 4},
    "mlp": {"hidden": [8], "max_steps": 4},
    "cnn-fedkt": {"max_steps": 2},
    "cnn-privatekt": {"max_steps": 1},
    "cnn-fedmd": {"max_steps": 2, "channels": [4, 6, 8]},
}
ZOO = [name for name in NAMES if not name.startswith(("cnn-fedmd-", "transformer"))]
CLASSES = ("no", "perhaps", "yes", "never seen")
SCHEMA = Schema(
    columns=(
        Column(name="age", kind="numeric"),
        Column(name="job title", kind="categorical", categories=("clerk", "smith", "7")),
        Column(name="visits", kind="numeric"),
        Column(name="weight", kind="numeric"),
    ),
    classes=CLASSES,
)
IMAGES = Schema(columns=(), classes=CLASSES, shape=(1, 20, 20))


def _table(count, seed=0):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "weight": rng.normal(60, 9, count),
            "age": rng.integers(18, 90, count).astype(float),
            "visits": rng.integers(0, 4, count).astype(float),
            "job title": rng.choice(["clerk", "smith", "7", "7.0", " clerk ", "astronaut", ""], count),
        }
    )
    table.loc[::7, "age"] = np.nan
    return table


def _rows(name, count, seed):
    if name.startswith("cnn"):
        return np.random.default_rng(seed).integers(0, 256, (count, 400)).astype(np.uint8)
    return _table(count, seed)


def _saved(model, schema=SCHEMA, *, scale=True, y=None):
    """Fit a model on rows of three of the four classes."""
    rows = _rows("cnn" if schema is IMAGES else "", 90, 1)
    public = make_public_set(rows, schema, scale=scale)
    model.fit(public.X, np.arange(90) % 3 if y is None else y)
    return SavedModel(classifier=model, encoder=Encoder.of(public))


@pytest.mark.parametrize("name", ZOO)
def test_each_model_of_the_zoo_answers_alike_from_raw_rows(name):
    schema = IMAGES if name.startswith("cnn") else SCHEMA
    shape, width = (schema.shape, 400) if schema is IMAGES else (None, 6)
    model = make_model(name, num_classes=4, num_features=width, shape=shape, seed=1, params=SMALL.get(name, {}))
    saved = _saved(model, schema)
    rows = _rows(name, 300, 2)
    table = pd.DataFrame(rows, columns=list(schema.column_names)) if schema is IMAGES else rows
    data = to_onnx(saved)
    assert check_onnx(saved, data).rows == 256
    labels, probabilities = onnxruntime.InferenceSession(data).run(None, onnx_inputs(saved, table))
    assert labels.tolist() == saved.predict(table).tolist()
    assert np.abs(probabilities - saved.predict_proba(table)).max() <= 1e-5


@pytest.mark.parametrize("name", ["random-forest", "extra-trees"])
def test_trees_that_vote_alike_give_the_same_class_as_in_scikit_learn(name):
    # an even number of deep trees on noise: exact ties in many rows
    saved = _saved(make_model(name, num_classes=4, num_features=6, seed=3, params={"n_estimators": 6}))
    table = _table(800, 5)
    top = np.sort(saved.predict_proba(table), axis=1)[:, -2:]
    assert (top[:, 0] == top[:, 1]).sum() > 80
    assert check_onnx(saved, to_onnx(saved), table).labels == 0


@pytest.mark.parametrize("estimator", [GaussianNB(), SGDClassifier(random_state=0)])
def test_an_own_estimator_that_skl2onnx_knows_answers_alike_too(estimator):
    saved = _saved(Classifier(estimator, num_classes=4))
    assert check_onnx(saved, to_onnx(saved), _table(200, 4)).labels == 0


def test_two_classes_one_class_and_raw_numbers(tmp_path):
    tree = DecisionTreeClassifier(random_state=0)
    for y in (np.where(np.arange(90) % 2, 3, 1), np.full(90, 2)):
        saved = _saved(Classifier(tree, num_classes=4), y=y)
        assert check_onnx(saved, to_onnx(saved), _table(100, 6)).labels == 0
    numbers = Schema(columns=tuple(c for c in SCHEMA.columns if c.kind == "numeric"), classes=CLASSES)
    table = _table(90).fillna(1)[list(numbers.column_names)]
    public = make_public_set(table, numbers, scale=False)
    model = Classifier(tree, num_classes=4).fit(public.X, np.arange(90) % 3)
    saved = SavedModel(classifier=model, encoder=Encoder.of(public))
    assert check_onnx(saved, to_onnx(saved), table).labels == 0


def test_a_model_on_text_columns_takes_features():
    schema = Schema(columns=(Column(name="said", kind="text"), Column(name="age", kind="numeric")), classes=("a", "b"))
    table = pd.DataFrame({"said": ["good film", "bad day", "good day", "bad"] * 5, "age": range(20)})
    public = make_public_set(table, schema)
    model = Classifier(DecisionTreeClassifier(random_state=0), num_classes=2).fit(public.X, np.arange(20) % 2)
    saved = SavedModel(classifier=model, encoder=Encoder.of(public))
    data = to_onnx(saved)
    assert set(onnx_inputs(saved, table)) == {"features"}
    assert check_onnx(saved, data, table) == check_onnx(saved, data)._replace(rows=20)


def test_the_file_says_what_it_takes_and_which_classes_it_knows():
    session = onnxruntime.InferenceSession(to_onnx(_saved(make_model("knn", num_classes=4, num_features=6, seed=0))))
    facts = session.get_modelmeta().custom_metadata_map
    assert json.loads(facts["classes"]) == list(CLASSES)
    assert (facts["inputs"], facts["schema"]) == ("columns", SCHEMA.to_toml())
    assert {item.name: item.type for item in session.get_inputs()} == {
        "age": "tensor(double)",
        "job title": "tensor(string)",
        "visits": "tensor(double)",
        "weight": "tensor(double)",
    }


class Own(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        self.classes_, self.n_features_in_ = np.unique(y), X.shape[1]
        return self

    def predict(self, X):
        return np.zeros(len(X), dtype=int)


class Reads(Own):
    takes_text = True


def test_a_model_without_a_graph_is_refused_by_name():
    with pytest.raises(FedkdError, match=r"A model of .*test_export\.Own must have a graph in ONNX"):
        to_onnx(_saved(Classifier(Own(), num_classes=4)))


def test_neighbours_by_another_distance_answer_alike_and_by_weights_are_refused():
    """By weights a row's equal decides alone in scikit-learn, and not in the converter's graph."""
    saved, other = (
        _saved(make_model("knn", num_classes=4, num_features=6, seed=0, params=params))
        for params in ({"p": 1}, {"weights": "distance"})
    )
    assert check_onnx(saved, to_onnx(saved), _table(200, 4)).labels == 0
    with pytest.raises(FedkdError, match=r"The graph of NearestNeighbours must answer as the model.* other labels"):
        check_onnx(other, to_onnx(other), _table(200, 4))


def test_a_model_of_raw_text_is_refused_by_name():
    schema = Schema(columns=(Column(name="said", kind="text"),), classes=("a", "b"))
    public = make_public_set(pd.DataFrame({"said": ["good", "bad"]}), schema)
    model = Classifier(Reads(), num_classes=2)
    public = public.as_read_by(model)
    saved = SavedModel(classifier=model.fit(public.X, np.array([0, 1])), encoder=Encoder.of(public))
    with pytest.raises(FedkdError, match="A model of Reads must read numbers or categories to become ONNX"):
        to_onnx(saved)


def test_a_graph_that_answers_otherwise_is_noticed():
    saved, other = (
        _saved(Classifier(DecisionTreeClassifier(random_state=0), num_classes=4), y=(np.arange(90) + shift) % 3)
        for shift in (0, 1)
    )
    with pytest.raises(
        FedkdError, match=r"The graph of DecisionTreeClassifier must answer as the model itself.* other l"
    ):
        check_onnx(saved, to_onnx(other))


def _called(names, model):
    schema = Schema(columns=tuple(Column(name=name, kind="numeric") for name in names), classes=("no", "yes"))
    rows = pd.DataFrame(np.random.default_rng(0).normal(size=(60, len(names))), columns=names)
    public = make_public_set(rows, schema)
    model = Classifier(model, num_classes=2).fit(public.X, np.arange(60) % 2)
    return SavedModel(classifier=model, encoder=Encoder.of(public)), rows


@pytest.mark.parametrize("model", [DecisionTreeClassifier(max_depth=3), GaussianNB()])
def test_a_column_may_be_called_as_a_value_of_the_graph(model):
    kinds = ["Concat", "constant", "Where", "IsNaN", "Sub", "Div", "Cast", "Gather", "part", "scan"]
    names = [f"{kind}_{i}" for kind in kinds for i in range(1, 6)] + ["part_12_X"]
    saved, rows = _called(names, model)
    assert check_onnx(saved, to_onnx(saved), rows).labels == 0


def test_a_column_called_as_an_output_is_refused_by_name():
    saved, _ = _called(["age", "label"], DecisionTreeClassifier())
    with pytest.raises(
        FedkdError, match=r"differ from a graph's outputs, label and probabilities, got 'label'\. Use fedkd"
    ):
        to_onnx(saved)


def test_a_model_of_noisy_sums_is_saved_read_and_exported(tmp_path):
    age = Column(name="age", kind="numeric", bins=(0, 18, 30, 99))
    sex = Column(name="sex", kind="categorical", categories=("f", "m"))
    schema = Schema(columns=(age, sex), classes=("no", "yes", "perhaps"))
    public = make_public_set(pd.DataFrame({"age": [10, 25, 60], "sex": ["f", "m", "f"]}), schema)
    bins = Bins.of(public, most=5)
    weights, rest = bins.by_threshold(np.random.default_rng(1).normal(size=(6, 3)))
    made = BinnedLinear(**bins.arrays(), weights=weights, intercept=rest, sums=np.zeros((6, 3), np.int64), noises=1)
    model = Classifier(made, num_classes=3).fit(np.zeros((3, 3), np.float32), np.arange(3))
    saved = load(save(model, public, tmp_path / "model.fedkd"))
    assert set(saved.predict(pd.DataFrame({"age": ["25", "70"], "sex": ["f", ""]}))) <= set(schema.classes)
    assert check_onnx(saved, to_onnx(saved)).labels == 0

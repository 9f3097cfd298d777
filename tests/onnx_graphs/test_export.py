"""Each model's graph answers as the model: labels on every row, also where trees vote alike, probabilities to 1e-5."""

import json

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from onnx_graphs.saved import CLASSES, SCHEMA, raw_table, saved_model
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeClassifier

from fedkd_flwr.data.bins import Bins
from fedkd_flwr.data.dates import ALONE, DATES
from fedkd_flwr.data.public import Encoder, make_public_set
from fedkd_flwr.data.reading import Reading
from fedkd_flwr.data.schema import Column, Schema
from fedkd_flwr.errors import FedkdError
from fedkd_flwr.models import Classifier, make_model
from fedkd_flwr.models.estimators import BinnedLinear, ByValues
from fedkd_flwr.onnx_graphs import check_onnx, expected_cells, to_onnx
from fedkd_flwr.stores.saved_model import SavedModel, load, save


def test_two_classes_and_one_class():
    tree = DecisionTreeClassifier(random_state=0)
    for y in (np.where(np.arange(90) % 2, 3, 1), np.full(90, 2)):
        saved = saved_model(Classifier(tree, num_classes=4), y=y)
        assert check_onnx(saved, to_onnx(saved), raw_table(100, 6)).labels == 0


def test_the_file_says_what_it_takes_and_which_classes_it_knows():
    session = onnxruntime.InferenceSession(
        to_onnx(saved_model(make_model("knn", num_classes=4, num_features=6, seed=0)))
    )
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


def test_a_model_without_a_graph_is_refused_by_name():
    with pytest.raises(FedkdError, match=r"A model of .*test_export\.Own must have a graph in ONNX"):
        to_onnx(saved_model(Classifier(Own(), num_classes=4)))


def test_a_model_of_a_text_column_is_refused_by_name():
    schema = Schema(columns=(Column(name="said", kind="text"),), classes=("a", "b"))
    public = make_public_set(pd.DataFrame({"said": ["good", "bad"]}), schema)
    model = Classifier(DecisionTreeClassifier(), num_classes=2).fit(public.X, np.array([0, 1]))
    with pytest.raises(FedkdError, match=r"DecisionTreeClassifier must read numbers, .* got the text said"):
        to_onnx(SavedModel(classifier=model, encoder=Encoder.of(public)))


def test_a_graph_that_answers_otherwise_is_noticed():
    saved, other = (
        saved_model(Classifier(DecisionTreeClassifier(random_state=0), num_classes=4), y=(np.arange(90) + shift) % 3)
        for shift in (0, 1)
    )
    with pytest.raises(
        FedkdError, match=r"The graph of DecisionTreeClassifier must answer as the model itself.* other l"
    ):
        check_onnx(saved, to_onnx(other))


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


@pytest.mark.parametrize("dates", [one for one in DATES if one])
def test_made_up_rows_hold_dates_where_a_column_does(dates):
    when = Column(name="when", kind="numeric", reading=Reading(dates=dates))
    schema = Schema(columns=(when, Column(name="age", kind="numeric")), classes=("no", "yes"))
    values = np.arange(20.0) if dates in ALONE else pd.to_datetime(19000 + np.arange(20), unit="D")
    public = make_public_set(pd.DataFrame({"when": values, "age": np.arange(20.0)}), schema)
    tree = Classifier(DecisionTreeClassifier(), num_classes=2).fit(public.X, np.arange(20) % 2)
    saved = SavedModel(classifier=tree, encoder=Encoder.of(public))
    assert check_onnx(saved, to_onnx(saved)).rows == 256


def test_a_model_of_numbers_is_refused_with_the_way_out():
    model = Classifier(ByValues(LinearRegression(), (0.0, 1.0, 2.0, 3.0)), num_classes=4)
    with pytest.raises(FedkdError, match=r"must answer with classes, got numbers or grades\. Use fedkd predict"):
        to_onnx(saved_model(model))


def test_the_rules_by_which_cells_become_what_the_graph_takes_are_said():
    """The graph takes numbers: whoever feeds it without this package must know what a date or '<0.5' becomes."""
    columns = (
        Column(name="admission", kind="numeric", reading=Reading(dates="day-first")),
        Column(name="seen", kind="numeric", reading=Reading(dates="time")),
        Column(name="lactate", kind="numeric", reading=Reading(ranges=True)),
        Column(name="crp", kind="numeric", reading=Reading(unit="mg/l", thousands="'")),
        Column(name="age", kind="numeric"),
        Column(name="ward", kind="categorical", categories=("a",), reading=Reading(missing=("-",))),
    )
    assert expected_cells(Schema(columns=columns, classes=("no", "yes"))) == {
        "admission": "dates='day-first'",
        "seen": "dates='time'",
        "lactate": "ranges=True",
        "crp": "thousands=\"'\", unit='mg/l'",
    }

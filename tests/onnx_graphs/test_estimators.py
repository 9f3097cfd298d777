"""Each model's graph answers as the model: labels on every row, probabilities to 1e-5."""

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from onnx_graphs.saved import IMAGES, SCHEMA, SMALL, ZOO, raw_rows, raw_table, saved_model
from sklearn.linear_model import SGDClassifier
from sklearn.naive_bayes import GaussianNB

from fedkd_flwr.errors import FedkdError
from fedkd_flwr.models import Classifier, make_model
from fedkd_flwr.onnx_graphs import check_onnx, onnx_inputs, to_onnx


@pytest.mark.parametrize("name", ZOO)
def test_each_model_of_the_zoo_answers_alike_from_raw_rows(name):
    schema = IMAGES if name.startswith("cnn") else SCHEMA
    shape, width = (schema.shape, 400) if schema is IMAGES else (None, 6)
    model = make_model(name, num_classes=4, num_features=width, shape=shape, seed=1, params=SMALL.get(name, {}))
    saved = saved_model(model, schema, y=np.arange(90) % 2 if name == "fast-forest" else None)
    rows = raw_rows(name, 300, 2)
    table = pd.DataFrame(rows, columns=list(schema.column_names)) if schema is IMAGES else rows
    data = to_onnx(saved)
    assert check_onnx(saved, data).rows == 256
    labels, probabilities = onnxruntime.InferenceSession(data).run(None, onnx_inputs(saved, table))
    assert labels.tolist() == saved.predict(table).tolist()
    assert np.abs(probabilities - saved.predict_proba(table)).max() <= 1e-5


@pytest.mark.parametrize("estimator", [GaussianNB(), SGDClassifier(random_state=0)])
def test_an_own_estimator_that_skl2onnx_knows_answers_alike_too(estimator):
    saved = saved_model(Classifier(estimator, num_classes=4))
    assert check_onnx(saved, to_onnx(saved), raw_table(200, 4)).labels == 0


def test_a_fast_forest_of_several_classes_is_refused_because_the_converter_takes_its_trees_in_another_order():
    saved = saved_model(make_model("fast-forest", num_classes=4, num_features=6, seed=0))
    with pytest.raises(FedkdError, match=r"The graph of XGBClassifier must answer as the model.* other labels"):
        check_onnx(saved, to_onnx(saved), raw_table(200, 4))


def test_neighbours_by_another_distance_answer_alike_and_by_weights_are_refused():
    """By weights a row's equal decides alone in scikit-learn, and not in the converter's graph."""
    saved, other = (
        saved_model(make_model("knn", num_classes=4, num_features=6, seed=0, params=params))
        for params in ({"p": 1}, {"weights": "distance"})
    )
    assert check_onnx(saved, to_onnx(saved), raw_table(200, 4)).labels == 0
    with pytest.raises(FedkdError, match=r"The graph of NearestNeighbours must answer as the model.* other labels"):
        check_onnx(other, to_onnx(other), raw_table(200, 4))


@pytest.mark.parametrize("name", ["random-forest", "extra-trees"])
def test_trees_that_vote_alike_give_the_same_class_as_in_scikit_learn(name):
    # an even number of deep trees on noise: exact ties in many rows
    saved = saved_model(make_model(name, num_classes=4, num_features=6, seed=3, params={"n_estimators": 6}))
    table = raw_table(800, 5)
    top = np.sort(saved.predict_proba(table), axis=1)[:, -2:]
    assert (top[:, 0] == top[:, 1]).sum() > 80
    assert check_onnx(saved, to_onnx(saved), table).labels == 0

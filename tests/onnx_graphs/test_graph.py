"""Names of columns beside the names of a graph."""

import numpy as np
import pandas as pd
import pytest
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from fedkd_flwr.data.public import Encoder, make_public_set
from fedkd_flwr.data.schema import Column, Schema
from fedkd_flwr.errors import FedkdError
from fedkd_flwr.models import Classifier
from fedkd_flwr.onnx_graphs import check_onnx, to_onnx
from fedkd_flwr.stores.saved_model import SavedModel


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

"""Trees that vote alike."""

import numpy as np
import pytest
from onnx_graphs.saved import raw_table, saved_model

from fedkd_flwr.models import make_model
from fedkd_flwr.onnx_graphs import check_onnx, to_onnx


@pytest.mark.parametrize("name", ["random-forest", "extra-trees"])
def test_trees_that_vote_alike_give_the_same_class_as_in_scikit_learn(name):
    # an even number of deep trees on noise: exact ties in many rows
    saved = saved_model(make_model(name, num_classes=4, num_features=6, seed=3, params={"n_estimators": 6}))
    table = raw_table(800, 5)
    top = np.sort(saved.predict_proba(table), axis=1)[:, -2:]
    assert (top[:, 0] == top[:, 1]).sum() > 80
    assert check_onnx(saved, to_onnx(saved), table).labels == 0

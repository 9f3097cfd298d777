"""A model of noisy sums as ONNX answers as the model itself, for raw rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fedkd_flwr.data.bins import Bins
from fedkd_flwr.data.public import make_public_set
from fedkd_flwr.data.schema import Column, Schema
from fedkd_flwr.models.binned import BinnedLinear
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.stores.saved_model import load, save

pytest.importorskip("onnxruntime")


def test_a_model_of_noisy_sums_is_saved_read_and_exported(tmp_path):
    from fedkd_flwr.onnx_graphs.export import check_onnx, to_onnx

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

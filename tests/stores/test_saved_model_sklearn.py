"""A saved model is a fitted classifier for scikit-learn's tools: scorers, displays, calibration and pipelines."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.inspection import permutation_importance
from sklearn.metrics import RocCurveDisplay, get_scorer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.tree import DecisionTreeClassifier

from fedkd_flwr.data import Column, Schema, make_public_set
from fedkd_flwr.data.encoder import Encoder
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.stores.saved_model import SavedModel

ROWS = pd.DataFrame({"age": [20, 30, 60, 70] * 5, "town": ["A", "B", None, "A"] * 5})
AGES = np.array(["young", "young", "old", "old"] * 5)


def _model(classes=("old", "young"), values=()):
    columns = (Column(name="age", kind="numeric"), Column(name="town", kind="categorical", categories=("A", "B")))
    public = make_public_set(ROWS, Schema(columns=columns, classes=classes))
    tree = Classifier(DecisionTreeClassifier(), num_classes=2).fit(public.X, (ROWS.age < 50).to_numpy().astype(int))
    return SavedModel(classifier=tree, encoder=Encoder.of(public), values=values)


def test_it_says_what_scikit_learn_asks_a_fitted_classifier():
    model = _model()
    assert is_classifier(model)
    assert model.classes_.tolist() == ["old", "young"]
    assert model.feature_names_in_.tolist() == ["age", "town"]
    assert model.n_features_in_ == 2
    assert clone(model) is model


@pytest.mark.parametrize("name", ["accuracy", "balanced_accuracy", "roc_auc", "neg_log_loss"])
def test_scorers_take_it(name):
    assert get_scorer(name)(_model(), ROWS, AGES) == pytest.approx(0.0 if name == "neg_log_loss" else 1.0, abs=1e-9)


def test_score_knows_classes_by_their_names_and_by_what_they_stand_for():
    model = _model(classes=("0", "1"))
    wanted = (ROWS.age < 50).to_numpy()
    assert model.score(ROWS, wanted.astype(float)) == 1.0
    assert model.score(ROWS, wanted.astype(int).astype(str)) == 1.0
    assert model.score(ROWS, 1 - wanted, sample_weight=np.arange(20)) == 0.0


def test_it_answers_with_the_user_s_own_values_where_they_are_known():
    model = _model(classes=("0", "1"), values=(0.0, 1.0))
    assert model.predict(ROWS[:3]).tolist() == [1.0, 1.0, 0.0]
    assert get_scorer("f1")(model, ROWS, (ROWS.age < 50).astype(float)) == 1.0


def test_permutation_importance_finds_the_column_that_matters():
    found = permutation_importance(_model(), ROWS, AGES, n_repeats=3, random_state=0)
    assert found.importances_mean[0] > 0.2
    assert found.importances_mean[1] == 0.0


def test_a_curve_can_be_drawn_and_probabilities_calibrated():
    model = _model()
    assert RocCurveDisplay.from_estimator(model, ROWS, AGES).roc_auc == 1.0
    calibrated = CalibratedClassifierCV(FrozenEstimator(model), cv=2).fit(ROWS, AGES)
    assert calibrated.predict(ROWS).tolist() == AGES.tolist()


def test_it_ends_a_pipeline_which_does_not_change_it():
    pipeline = make_pipeline(FunctionTransformer(), _model()).fit(ROWS, AGES[::-1])
    assert pipeline.predict(ROWS).tolist() == AGES.tolist()


def test_its_repr_has_three_lines():
    lines = repr(_model()).splitlines()
    assert lines[0] == "SavedModel: DecisionTreeClassifier"
    assert lines[1:] == ["  columns: age, town", "  classes: old, young"]

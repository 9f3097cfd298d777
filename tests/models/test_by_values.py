"""Regressors among classifiers."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor

from fedkd_flwr.errors import ConfigError
from fedkd_flwr.models import serialize
from fedkd_flwr.models.by_values import ByValues
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.models.populations import weighs_classes
from fedkd_flwr.models.zoo import make_model

VALUES = (1.0, 2.0, 5.0, 20.0)
X = np.random.default_rng(1).normal(size=(80, 2)).astype(np.float32)
Y = np.digitize(X[:, 0], [-0.5, 0.0, 0.8])


def _model(regressor=None):
    return Classifier(ByValues(regressor or DecisionTreeRegressor(random_state=0), VALUES), num_classes=4)


def test_the_expected_value_of_its_probabilities_is_the_regressor_s_prediction():
    model = _model(LinearRegression()).fit(X, Y)
    probs = model.predict_proba(X)
    plain = LinearRegression().fit(X, np.array(VALUES)[Y]).predict(X)
    assert np.allclose(probs @ VALUES, np.clip(plain, 1.0, 20.0), atol=1e-4)
    assert ((probs > 0).sum(axis=1) <= 2).all()


def test_weights_of_classes_teach_their_mean():
    weights = np.random.default_rng(2).dirichlet(np.ones(4), size=len(X))
    model = _model(LinearRegression()).fit_soft(X, weights)
    plain = LinearRegression().fit(X, weights @ VALUES).predict(X)
    assert np.allclose(model.predict_proba(X) @ VALUES, plain, atol=1e-4)


def test_a_class_that_its_rows_lack_can_be_between_those_they_have():
    rows = np.array([[0.0], [1.0], [2.0]], np.float32)
    model = _model(LinearRegression()).fit(rows[[0, 2]], np.array([0, 2]))
    assert model.predict(rows).tolist() == [0, 1, 2]


def test_it_survives_as_bytes_and_has_no_class_shares():
    model = _model().fit(X, Y)
    assert (serialize.loads(serialize.dumps(model), trust=True).predict_proba(X) == model.predict_proba(X)).all()
    assert weighs_classes(model)


def test_the_zoo_makes_regressors_only_where_classes_are_bins():
    sizes = {"num_classes": 4, "num_features": 2, "seed": 1}
    assert isinstance(make_model("random-forest", **sizes, values=VALUES).template, ByValues)
    assert isinstance(make_model("random-forest", **sizes).template, RandomForestClassifier)
    with pytest.raises(ConfigError, match="be a classifier where the label holds classes"):
        make_model("sklearn.linear_model:Ridge", **sizes)

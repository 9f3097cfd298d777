import warnings

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fedkd_flwr.models.estimators import NearestNeighbours, NumberScaler, RuleFit


def test_neighbours_are_those_of_scikit_learn_on_scaled_columns():
    X, y = load_wine(return_X_y=True)
    bare = make_pipeline(StandardScaler(), KNeighborsClassifier(3)).fit(X[::2], y[::2])
    ours = NearestNeighbours(3).fit(X[::2], y[::2])
    assert np.array_equal(bare.predict(X), ours.predict(X))


def test_numbers_are_standardised_and_columns_of_0_and_1_are_not():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(5, 3, 400), np.eye(12)[rng.integers(0, 12, 400)]]).astype(np.float32)
    scaled = NumberScaler().fit_transform(X)
    assert np.array_equal(scaled[:, 1:], X[:, 1:])
    assert np.allclose((scaled[:, 0].mean(), scaled[:, 0].std()), (0, 1), atol=1e-5)


def test_fewer_rows_than_neighbours_lower_k_instead_of_raising():
    X = np.array([[0.0], [1.0], [9.0]])
    assert NearestNeighbours(5).fit(X, np.array([0, 0, 1])).predict(X).tolist() == [0, 0, 0]


@pytest.fixture(scope="module")
def imodels():
    return pytest.importorskip("imodels")


@pytest.mark.parametrize(("include_linear", "alpha"), [(True, 1.0), (False, None)])
def test_rules_read_out_of_imodels_give_its_probabilities(imodels, include_linear, alpha):
    X, y = load_breast_cancer(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(X))[:60]
    params = {"tree_size": 4, "max_rules": 200, "n_estimators": 10, "random_state": 1}
    params |= {"include_linear": include_linear, "alpha": alpha}
    ours = RuleFit(**params).fit(X[rows].astype(np.float32), y[rows])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = imodels.RuleFitClassifier(**params, cv=False).fit(X[rows].astype(np.float32).astype(float), y[rows])
    assert len(ours.models_[0]["weight"]) > 3
    assert np.allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-12)


def test_several_classes_are_one_against_the_rest(imodels):
    X, y = load_wine(return_X_y=True)
    params = {"n_estimators": 10, "random_state": 1, "alpha": 1.0}
    ours = RuleFit(**params).fit(X[::2], y[::2])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = OneVsRestClassifier(imodels.RuleFitClassifier(**params, max_rules=200, cv=False)).fit(X[::2], y[::2])
    assert np.allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-12)
    assert (ours.predict(X) == y).mean() > 0.9


def test_max_rules_is_kept_by_a_stronger_penalty(imodels):
    X, y = load_breast_cancer(return_X_y=True)
    terms = []
    for limit in (200, 5):
        model = RuleFit(n_estimators=10, max_rules=limit, random_state=1).fit(X[:100], y[:100]).models_[0]
        terms.append(len(model["weight"]) + np.count_nonzero(model["linear"]))
    assert terms[0] > 5 >= terms[1] > 0

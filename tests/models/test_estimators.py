import warnings

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

from fedkd_flwr.errors import ConfigError
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.models.estimators import BinnedLinear, ByValues, NearestNeighbours, NumberScaler, RuleFit
from fedkd_flwr.models.populations import Answering, learnt_shares, weighs_classes
from fedkd_flwr.models.serialize import dumps, loads
from fedkd_flwr.models.zoo import make_model


def test_neighbours_are_those_of_scikit_learn_on_scaled_columns():
    X, y = load_wine(return_X_y=True)
    bare = make_pipeline(StandardScaler(), KNeighborsClassifier(3)).fit(X[::2], y[::2])
    ours = NearestNeighbours(3).fit(X[::2], y[::2])
    assert np.array_equal(bare.predict(X), ours.predict(X))
    three = np.array([[0.0], [1.0], [9.0]])  # fewer rows than neighbours lower k instead of raising
    assert NearestNeighbours(5).fit(three, np.array([0, 0, 1])).predict(three).tolist() == [0, 0, 0]


def test_numbers_are_standardised_and_columns_of_0_and_1_are_not():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(5, 3, 400), np.eye(12)[rng.integers(0, 12, 400)]]).astype(np.float32)
    scaled = NumberScaler().fit_transform(X)
    assert np.array_equal(scaled[:, 1:], X[:, 1:])
    assert np.allclose((scaled[:, 0].mean(), scaled[:, 0].std()), (0, 1), atol=1e-5)


@pytest.fixture(scope="module")
def imodels():
    return pytest.importorskip("imodels")


@pytest.mark.parametrize(("include_linear", "alpha"), [(True, 1.0), (False, 0.5)])
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
    params = {"n_estimators": 5, "random_state": 1, "alpha": 1.0}
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
        model = RuleFit(n_estimators=5, max_rules=limit, random_state=1).fit(X[:60], y[:60]).models_[0]
        terms.append(len(model["weight"]) + np.count_nonzero(model["linear"]))
    assert terms[0] > 5 >= terms[1] > 0


VALUES = (1.0, 2.0, 5.0, 20.0)
ROWS = np.random.default_rng(1).normal(size=(80, 2)).astype(np.float32)
LABELS = np.digitize(ROWS[:, 0], [-0.5, 0.0, 0.8])


def _model(regressor=None):
    return Classifier(ByValues(regressor or DecisionTreeRegressor(random_state=0), VALUES), num_classes=4)


def test_the_expected_value_of_its_probabilities_is_the_regressor_s_prediction_also_of_weights_of_classes():
    model = _model(LinearRegression()).fit(ROWS, LABELS)
    probs = model.predict_proba(ROWS)
    plain = LinearRegression().fit(ROWS, np.array(VALUES)[LABELS]).predict(ROWS)
    assert np.allclose(probs @ VALUES, np.clip(plain, 1.0, 20.0), atol=1e-4)
    assert ((probs > 0).sum(axis=1) <= 2).all()
    weights = np.random.default_rng(2).dirichlet(np.ones(4), size=len(ROWS))
    model = _model(LinearRegression()).fit_soft(ROWS, weights)
    plain = LinearRegression().fit(ROWS, weights @ VALUES).predict(ROWS)
    assert np.allclose(model.predict_proba(ROWS) @ VALUES, plain, atol=1e-4)


def test_a_class_that_its_rows_lack_can_be_between_those_they_have():
    rows = np.array([[0.0], [1.0], [2.0]], np.float32)
    model = _model(LinearRegression()).fit(rows[[0, 2]], np.array([0, 2]))
    assert model.predict(rows).tolist() == [0, 1, 2]


def test_it_survives_as_bytes_and_has_no_class_shares():
    model = _model().fit(ROWS, LABELS)
    assert (loads(dumps(model), trust=True).predict_proba(ROWS) == model.predict_proba(ROWS)).all()
    assert weighs_classes(model)


class _OfOneColumn(DecisionTreeRegressor):
    def fit(self, X, y):
        if X.shape[1] != 1:
            raise ValueError("I know one column.")
        return super().fit(X, y)


def _knows_own_rows(shift, regressor=None):
    """Return a model of 30 own rows, whose numbers are higher by ``shift``, and 60 others; and the rows."""
    model, X = _model(regressor), np.linspace(0, 1, 90, dtype=np.float32)[:, None]
    model.template.own_rows = 30
    y = np.concatenate((1 + shift * np.ones(30, int), np.ones(60, int)))
    order = np.concatenate((np.arange(0, 90, 3), np.setdiff1d(np.arange(90), np.arange(0, 90, 3))))
    model.fit(X[order], np.where(np.arange(90) % 7 == 3, 0, y))
    model.shares = learnt_shares(model, y[:30], None)
    return model, X


def test_a_regressor_answers_for_rows_like_its_owner_s_where_they_differ_from_the_others():
    model, X = _knows_own_rows(2)
    back = loads(dumps(model), trust=True)
    own, common = (Answering(back, back.shares[whose]).predict(X) for whose in ("own", "common"))
    assert (own == 3).mean() > 0.8
    assert (common == 1).mean() > 0.8
    assert Answering(model, None).predict(X).tolist() == common.tolist()


@pytest.mark.parametrize("regressor", [None, _OfOneColumn(random_state=0)])
def test_a_regressor_answers_for_all_rows_alike_where_its_owner_s_are_like_the_others_or_it_takes_no_mark(regressor):
    model, X = _knows_own_rows(0 if regressor is None else 2, regressor)
    own, common = (Answering(model, model.shares.get(whose)).predict(X) for whose in ("own", "common"))
    assert own.tolist() == common.tolist()
    assert bool(model.shares) is (regressor is None)


def test_the_zoo_makes_regressors_only_where_classes_are_bins():
    sizes = {"num_classes": 4, "num_features": 2, "seed": 1}
    assert isinstance(make_model("random-forest", **sizes, values=VALUES).template, ByValues)
    assert isinstance(make_model("random-forest", **sizes).template, RandomForestClassifier)
    with pytest.raises(ConfigError, match="be a classifier where the label holds classes"):
        make_model("sklearn.linear_model:Ridge", **sizes)


REACHING = np.array([[0.0, 1.0], [2.0, 0.0], [5.0, 1.0]], dtype=np.float32)


def _binned() -> Classifier:
    weights = np.array([[0.0, 2.0], [0.0, 3.0], [1.0, 0.0]])
    estimator = BinnedLinear(
        columns=np.array([0, 0, 1]),
        thresholds=np.array([2, 5, 0.5], dtype=np.float32),
        weights=weights,
        intercept=np.array([0.5, 0.0]),
        sums=np.arange(12).reshape(6, 2),
        lows=[np.array([0.0, 2, 5]), np.zeros(0)],
        highs=[np.array([1.0, 4, 9]), np.zeros(0)],
    )
    return Classifier(estimator, num_classes=2).fit(np.zeros((2, 2), np.float32), np.arange(2))


def test_a_row_s_scores_add_up_over_the_thresholds_it_reaches():
    made = _binned()
    assert made.predict(REACHING).tolist() == [0, 1, 1]
    odds = np.log(made.predict_proba(REACHING)[:, 1] / made.predict_proba(REACHING)[:, 0])
    assert np.allclose(odds, [-1.5, 1.5, 3.5])


def test_a_file_of_it_is_read_without_trust_and_keeps_the_sums():
    again = loads(dumps(_binned()))
    assert (again.predict_proba(REACHING) == _binned().predict_proba(REACHING)).all()
    estimator = again.estimator
    assert (estimator.sums == np.arange(12).reshape(6, 2)).all()
    assert [low.tolist() for low in estimator.lows] == [[0.0, 2, 5], []]

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from models.model_files import ROWS
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier

from fedkd_flwr.errors import DataError
from fedkd_flwr.models import Classifier, make_model
from fedkd_flwr.models.soft_targets import soft_weights, takes_weights

TREES = [
    DecisionTreeClassifier(min_samples_leaf=10, random_state=1),
    ExtraTreeClassifier(min_samples_leaf=10, random_state=1),
    RandomForestClassifier(20, random_state=1, min_samples_leaf=10),
    ExtraTreesClassifier(20, random_state=1, bootstrap=True, max_samples=0.7, min_samples_leaf=10),
]


@pytest.fixture(scope="module")
def margins():
    """Return rows of continuous columns and noisy margins that depend on them."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(600, 6)).astype(np.float32)
    return X, 10 * np.sin(2 * X[:, 0]) + 5 * X[:, 1] + rng.laplace(scale=8, size=600)


def both(m):
    """Counts of two classes whose difference is the margin."""
    return np.column_stack((20 - m / 2, 20 + m / 2))


@settings(max_examples=30)
@given(arrays(np.float64, (5, 3), elements=st.floats(-1e6, 1e6).map(lambda v: round(v, 3))))
def test_weights_are_fractional_labels_that_keep_all_differences_to_one_factor(targets):
    if (np.ptp(targets, axis=1) == 0).all():
        return
    weights = soft_weights(targets)
    assert (weights >= 0).all()
    assert np.allclose(weights.sum(axis=1), 1)
    (d, e) = (z - z[:, :1] for z in (targets, weights))
    factor = np.abs(e).max() / np.abs(d).max()
    assert np.allclose(e, d * factor, atol=1e-9)


def test_two_classes_weigh_m_minus_and_m_plus_margin():
    m = np.array([4.0, -2.0, 0.0, 1.0])
    expected = np.column_stack((4 - m, 4 + m)) / 8
    assert np.allclose(soft_weights(np.column_stack((-m / 2, m / 2))), expected)
    assert np.allclose(soft_weights(np.column_stack((-m, 0 * m))), expected)  # whatever each row's constant is
    probs = np.random.default_rng(0).dirichlet(np.ones(5), size=20)
    assert np.allclose(soft_weights(probs), probs)  # probabilities stay as they are
    assert soft_weights(np.array([[1e308, -1e308], [0, 1e308]])).tolist() == [[1, 0], [0.25, 0.75]]


def test_a_tree_splits_where_squared_error_splits_the_margin(margins):
    X, m = margins
    settings = {"max_depth": 6, "min_samples_leaf": 5, "random_state": 3}
    ours = Classifier(DecisionTreeClassifier(**settings), num_classes=2).fit_soft(X, both(m))
    theirs = DecisionTreeRegressor(**settings).fit(X, m)
    for name in ("feature", "children_left", "n_node_samples"):
        assert np.array_equal(getattr(ours.estimator.tree_, name), getattr(theirs.tree_, name))
    assert np.allclose(ours.estimator.tree_.threshold, theirs.tree_.threshold)
    assert np.array_equal(ours.predict(X), theirs.predict(X) > 0)
    # the leaves' probabilities are the margins, on the scale that makes the largest one certain
    top = np.abs(m).max()
    assert np.allclose(np.diff(ours.predict_proba(X))[:, 0] * max(top, 40), theirs.predict(X), atol=1e-6)


def test_a_forest_is_the_regression_forest_on_the_margin(margins):
    X, m = margins
    # leaves so large that no two columns split a node equally well
    settings = {"n_estimators": 30, "min_samples_leaf": 20, "max_features": "sqrt", "random_state": 3}
    ours = Classifier(RandomForestClassifier(**settings), num_classes=2).fit_soft(X, both(m))
    assert np.array_equal(ours.predict(X), RandomForestRegressor(**settings).fit(X, m).predict(X) > 0)
    fitted = Classifier(RandomForestClassifier(3), num_classes=2).fit(X, (m > 0).astype(int))
    assert set(vars(ours.estimator)) == set(vars(fitted.estimator))


@pytest.mark.parametrize("name", ["logistic-regression", "xgboost", "hist-gradient-boosting"])
def test_differences_decide_where_labels_could_not(name):
    """Two of three equal rows lean to 0 by little, the third to 1 by much: labels say 0, the sum says 1."""
    X = np.repeat(np.array([[0.0], [1.0]], dtype=np.float32), 60, axis=0)
    lean = np.where(np.arange(120) % 3 < 2, -1.0, 9.0)
    m = np.where(np.arange(120) < 60, lean, -lean)
    model = make_model(name, num_classes=2, num_features=1, seed=0).fit_soft(X, both(m))
    assert model.predict(X[[0, -1]]).tolist() == [1, 0]
    assert model.fit(X, (m > 0).astype(int)).predict(X[[0, -1]]).tolist() == [0, 1]


def test_an_estimator_without_weights_learns_the_largest_target(digits):
    X, y, X_test, _ = digits
    targets = np.eye(10)[y] + np.random.default_rng(0).random((len(y), 10)) / 2
    model = KNeighborsClassifier(3)
    assert not takes_weights(model)
    assert not takes_weights(make_pipeline(StandardScaler(), model))
    soft = Classifier(model, num_classes=10).fit_soft(X, targets)
    assert np.array_equal(soft.predict(X_test), Classifier(model, num_classes=10).fit(X, y).predict(X_test))


@pytest.mark.parametrize("least", [0.0, 1e-4, 1e-3, 1e-2])
def test_a_tree_is_the_tree_of_weighted_copies_of_each_row_also_with_a_threshold_on_impurity(margins, least):
    X, m = margins
    weights = soft_weights(both(m))
    rows, labels = np.nonzero(weights)
    settings = {"max_depth": 4, "random_state": 3, "min_impurity_decrease": least}
    tree = Classifier(DecisionTreeClassifier(**settings), num_classes=2).fit_soft(X, both(m))
    copies = DecisionTreeClassifier(**settings).fit(X[rows], labels, sample_weight=weights[rows, labels])
    if least:
        assert abs(tree.estimator.tree_.node_count - copies.tree_.node_count) <= 2
    else:
        assert np.array_equal(tree.estimator.tree_.feature, copies.tree_.feature)
        assert np.allclose(tree.predict_proba(X), copies.predict_proba(X))


def test_weights_of_a_row_sum_to_one_and_a_pipeline_scales_rows_and_not_their_copies():
    seen = []

    class Recorder(LogisticRegression):
        def fit(self, X, y, sample_weight=None):
            seen.append((len(X), sample_weight.sum()))
            return super().fit(X, y, sample_weight=sample_weight)

    targets = np.array([[5.0, 0.0], [3.0, 1.0], [0.0, 2.0], [0.0, 5.0]]) * 1000
    Classifier(Recorder(), num_classes=2).fit_soft(ROWS, targets)
    assert seen == [(6, 4.0)]  # the two sure rows have one copy each, so thresholds keep their meaning
    X = np.array([[0.0], [2.0], [10.0]], dtype=np.float32)
    targets = np.array([[1.0, 0.0], [0.4, 0.6], [0.0, 1.0]])  # the middle row alone would be copied
    model = Classifier(make_pipeline(StandardScaler(), LogisticRegression()), num_classes=2).fit_soft(X, targets)
    assert np.isclose(model.estimator[0].mean_[0], 4)


def test_a_class_with_all_weight_is_a_constant_and_one_without_stays_absent():
    model = Classifier(RandomForestClassifier(), num_classes=3).fit_soft(ROWS, np.eye(3)[[2, 2, 2, 2]])
    assert model.is_constant
    assert model.predict(ROWS).tolist() == [2] * 4
    targets = np.array([[0.8, 0, 0.2], [0.7, 0, 0.3], [0.1, 0, 0.9], [0.4, 0, 0.6]])
    for name in ("decision-tree", "xgboost", "logistic-regression"):
        model = make_model(name, num_classes=3, num_features=1, seed=0).fit_soft(ROWS, targets)
        assert model.predict_proba(ROWS)[:, 1].tolist() == [0] * 4
        assert set(model.predict(ROWS)) <= {0, 2}


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (np.ones((4, 2)), "must prefer a class in at least one row"),
        (np.zeros((4, 3)), r"must have shape \(4, 2\), rows by classes, got \(4, 3\)"),
        (np.zeros(4), r"must have shape \(4, 2\)"),
        (np.array([[0, 1], [0, 1], [np.nan, 1], [0, 1]]), r"must be finite, got \[nan, 1.0\] at row 2 \(1 such"),
        (np.full((4, 2), np.inf), r"must be finite, got \[inf, inf\] at row 0 \(4 such rows\)"),
        (np.full((4, 2), "a"), "must hold float32 or float64, got dtype"),
    ],
)
def test_targets_that_are_no_scores_or_prefer_nothing_are_refused(targets, message):
    with pytest.raises(DataError, match=f"targets {message}"):
        Classifier(DecisionTreeClassifier(), num_classes=2).fit_soft(ROWS, targets)

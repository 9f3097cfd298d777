import numpy as np
import pytest
import scipy.sparse
from models.model_files import ROWS
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from fedkd_flwr.errors import Code, ConfigError, DataError, FedkdError
from fedkd_flwr.labels import ABSTAIN
from fedkd_flwr.models import Classifier, make_model


def tree(num_classes=4):
    return Classifier(DecisionTreeClassifier(random_state=0), num_classes=num_classes)


class Recorder(ClassifierMixin, BaseEstimator):
    """Remember the labels of each fit, and answer with `answer`."""

    def __init__(self, answer=None, calls=None):
        self.answer = answer
        self.calls = calls

    def __sklearn_clone__(self):
        return self  # so that the test sees what the clone was given

    def fit(self, X, y):
        self.calls.append((X, y.tolist()))
        return self

    def predict(self, X):
        return np.asarray(self.answer)


def test_labels_and_probabilities_keep_their_classes_when_some_are_absent():
    model = tree().fit(ROWS, np.array([1, 1, 3, 3]))
    assert model.predict(ROWS).tolist() == [1, 1, 3, 3]
    assert model.predict(ROWS).dtype == np.int16
    assert model.predict_proba(ROWS).tolist() == [[0, 1, 0, 0]] * 2 + [[0, 0, 0, 1]] * 2


def test_estimator_sees_contiguous_labels_because_xgboost_demands_them():
    recorder = Recorder([0, 1, 1, 0], [])
    model = Classifier(recorder, num_classes=9).fit(ROWS, np.array([2, 7, 7, 2]))
    assert recorder.calls[0][1] == [0, 1, 1, 0]
    assert recorder.calls[0][0] is ROWS  # float32 is not copied
    assert model.predict(ROWS).tolist() == [2, 7, 7, 2]


def test_one_class_gives_a_constant_without_calling_the_estimator():
    recorder = Recorder([], [])
    model = Classifier(recorder, num_classes=3).fit(ROWS, np.full(4, 2, dtype=np.int16))
    assert recorder.calls == []
    assert model.is_constant
    assert model.estimator is None
    assert model.predict(ROWS).tolist() == [2] * 4
    assert model.predict_proba(ROWS).tolist() == [[0, 0, 1]] * 4


def test_a_fit_that_raises_leaves_the_classifier_as_it_was():
    model = tree().fit(ROWS, np.array([0, 1, 2, 3]))
    model.template.set_params(max_depth=-1)
    with pytest.raises(ValueError, match="max_depth"):
        model.fit(ROWS, np.array([3, 3, 0, 0]))
    assert model.predict(ROWS).tolist() == [0, 1, 2, 3]


def test_without_predict_proba_the_label_has_probability_one():
    model = Classifier(LinearSVC(random_state=0), num_classes=3).fit(ROWS, np.array([0, 0, 2, 2]))
    probs = model.predict_proba(ROWS)
    assert np.array_equal(probs.argmax(axis=1), model.predict(ROWS))
    assert np.array_equal(np.sort(probs, axis=1), [[0, 0, 1]] * 4)


def test_update_of_a_refitting_estimator_is_a_fit_on_both_together(digits):
    X, y, X_test, _ = digits
    both = Classifier(RandomForestClassifier(20, random_state=3), num_classes=10).fit(X, y)
    updated = Classifier(RandomForestClassifier(20, random_state=3), num_classes=10).fit(X[:50], y[:50])
    assert not updated.continues
    updated.update(X[:100], y[:100], X[100:], y[100:], steps=3)
    assert np.array_equal(both.predict_proba(X_test), updated.predict_proba(X_test))


def test_update_with_partial_fit_continues_and_is_one_pass_over_both():
    y, public = np.array([0, 1, 2, 2]), np.array([[5.0]], dtype=np.float32)
    model = Classifier(GaussianNB(), num_classes=3).fit(ROWS, y)
    assert model.continues
    model.update(ROWS, y, public, np.array([2]))
    bare = GaussianNB().fit(ROWS, y).partial_fit(np.concatenate((ROWS, public)), [*y, 2])
    assert model.estimator.class_count_.tolist() == [2, 2, 5]
    assert np.array_equal(model.predict_proba(ROWS), bare.predict_proba(ROWS))


def test_update_with_a_class_unknown_to_partial_fit_refits_on_both():
    y, public = np.array([0, 0, 1, 1]), np.array([[5.0]], dtype=np.float32)
    model = Classifier(SGDClassifier(random_state=0), num_classes=4).fit(ROWS, y)
    model.update(ROWS, y, public, np.array([3]))
    assert model.estimator.classes_.tolist() == [0, 1, 2]
    assert model.estimator.t_ % 5 == 1  # passes over five rows: a fit, not four rows continued by five
    assert set(model.predict(public * 100)) <= {0, 1, 3}


def test_update_leaves_a_constant_when_public_rows_bring_classes():
    model = tree().fit(ROWS[:2], np.array([1, 1]))
    model.update(ROWS[:2], np.array([1, 1]), ROWS[2:], np.array([3, 0]))
    assert model.predict(ROWS).tolist() == [1, 1, 3, 0]


HOLES = np.array([[1, 1, np.nan, np.inf], [1, 1, 1, 1]], dtype=np.float32)
FOUR, NINES = np.array([0, 1, 2, 3]), Recorder([9] * 4, [])


@pytest.mark.parametrize(
    ("use", "error", "message"),
    [
        (lambda: tree(num_classes=1), ConfigError, r"num_classes must be a whole number within 2\.\.32767, got 1"),
        (lambda: Classifier("forest", num_classes=2), ConfigError, r"estimator must be an object with fit\(X, y\)"),
        (lambda: tree().predict(ROWS), FedkdError, "must be fitted before it predicts"),
        (lambda: tree().fit(ROWS, FOUR[:3]), DataError, r"y must have shape \(4,\).*got '\(3,\)'"),
        (lambda: tree().fit(HOLES, FOUR[:2]), DataError, r"X must be finite, got NaN or infinity in column\(s\) 2, 3"),
        (lambda: tree().fit(ROWS.astype(str), FOUR), DataError, "X must hold float32 or float64, got dtype"),
        (lambda: tree().fit(scipy.sparse.csr_matrix(ROWS), FOUR), DataError, "X must be a dense array"),
        (lambda: tree().fit(ROWS, FOUR).predict(HOLES), DataError, "X must have 1 columns, as at the fit, got 4"),
        (lambda: tree().update(ROWS, FOUR, ROWS), DataError, "y_public must be given together"),
        (lambda: tree().update(ROWS, FOUR, steps=0), ConfigError, "steps must be a whole number >= 1, got 0"),
        # test_checks.py says which answers of an estimator are none
        (lambda: Classifier(NINES, num_classes=3).fit(ROWS, FOUR // 2).predict(ROWS), DataError, "9"),
    ],
)
def test_what_a_model_cannot_use_is_refused_by_name(use, error, message):
    with pytest.raises(error, match=message):
        use()


def test_a_label_outside_the_space_is_named_with_its_row():
    with pytest.raises(DataError, match=r"y must lie within 0\.\.3, got 4 at row 2 \(1 such row\)") as error:
        tree().fit(ROWS, np.array([0, 1, 4, 1]))
    assert error.value.code == Code.CLASS_OUTSIDE_SCHEMA
    with pytest.raises(DataError, match="X must hold at least one row") as error:
        tree().fit(ROWS[:0], np.array([], dtype=int))
    assert error.value.code == Code.NO_ROWS


def test_no_rows_get_no_labels_large_values_are_no_infinity_and_unlabelled_public_rows_are_as_none():
    model = tree().fit(ROWS, np.array([0, 1, 2, 3]))
    assert (model.predict(ROWS[:0]).shape, model.predict_proba(ROWS[:0]).shape) == ((0,), (0, 4))
    X = np.full((4, 1), 3e38, dtype=np.float32)
    assert tree().fit(X, np.array([0, 1, 1, 1])).predict(X).tolist() == [1] * 4
    none = np.full(4, ABSTAIN)
    assert tree().update(ROWS, np.arange(4), ROWS[::-1], none).predict(ROWS).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("kind", ["decision-tree", "sgd", "mlp"])
def test_public_rows_without_a_label_are_not_learnt_from(kind):
    if kind == "mlp":
        pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    X, public = rng.normal(size=(30, 3)).astype(np.float32), rng.normal(size=(40, 3)).astype(np.float32)
    y, given = rng.integers(0, 4, 30), np.where(rng.random(40) < 0.4, ABSTAIN, rng.integers(0, 3, 40))
    known = given != ABSTAIN

    def learnt(rows, labels):
        model = Classifier(SGDClassifier(loss="log_loss", random_state=0), num_classes=4)
        if kind != "sgd":
            params = {"hidden": [4], "batch_size": 8} if kind == "mlp" else {}
            model = make_model(kind, num_classes=4, num_features=3, seed=0, params=params)
        for _ in range(2):  # by fitting, and by going on
            model.update(X, y, rows, labels)
        return model.predict_proba(public)

    np.testing.assert_array_equal(learnt(public, given), learnt(public[known], given[known]))
    with pytest.raises(DataError, match=r"y_public must lie within -1\.\.3, got -2 at row"):
        learnt(public, np.where(given == 2, -2, given))


class Broken(DecisionTreeClassifier):
    def predict_proba(self, X):
        raise RuntimeError("no probabilities today")


@pytest.mark.parametrize(
    ("estimator", "y"),
    [(LinearSVC(), [0, 0, 1, 1]), (DecisionTreeClassifier(), [1, 1, 1, 1])],
    ids=["without predict_proba", "one class"],
)
def test_a_model_without_probabilities_has_the_other_metrics(estimator, y):
    found = Classifier(estimator, num_classes=3).fit(ROWS, np.array(y)).metrics(ROWS, np.array(y))
    assert (found.accuracy, found.n, found.no_probabilities, found.roc_auc) == (1.0, 4, True, None)


def test_probabilities_that_fail_cost_no_other_metric(caplog):
    model = Classifier(Broken(), num_classes=2).fit(ROWS, np.array([0, 0, 1, 1]))
    # scikit-learn's tree predicts without predict_proba
    found = model.metrics(ROWS, np.array([0, 0, 1, 1]))
    assert (found.accuracy, found.no_probabilities) == (1.0, True)
    assert "no probabilities today" in caplog.text


def test_naive_bayes_that_finds_two_classes_equally_likely_gives_each_half(caplog):
    """scikit-learn answers [1, 1] where both are so unlikely that a factor 2 is lost; it failed whole runs."""
    rows = np.array([[0.0], [2.0**-30], [1 - 2.0**-30], [1.0]])
    model = Classifier(GaussianNB(var_smoothing=1e-18), num_classes=3).fit(rows, np.array([0, 0, 2, 2]))
    far = np.array([[0.5]])
    assert model.estimator.predict_proba(far).tolist() == [[1.0, 1.0]]
    assert [model.predict_proba(far).tolist() for _ in range(2)] == [[[0.5, 0.0, 0.5]]] * 2
    (said,) = [record.message for record in caplog.records]
    assert said.endswith("predict_proba: 1 of 1 rows of probabilities do not sum to 1. They are divided by their sum.")

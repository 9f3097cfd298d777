"""A model answers for its owner's class shares, the federation's, or others: by Bayes' rule, where it can."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from xgboost import XGBClassifier

from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.models.populations import Answering, learnt_shares, weighs_classes
from fedkd_flwr.models.zoo import make_model


def _two_bells(counts, seed=0):
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1], counts)
    return (rng.normal(size=(len(y), 1)) + 1.5 * y[:, None]).astype(np.float32), y


@pytest.fixture(scope="module")
def even():
    model = Classifier(GaussianNB(), num_classes=2).fit(*_two_bells([2000, 2000]))
    model.shares = learnt_shares(model, np.repeat([0, 1], 2000), None)
    return model


def test_a_model_moved_to_other_shares_is_the_model_that_was_taught_with_them(even):
    X, _ = _two_bells([100, 100], seed=1)
    rows, y = _two_bells([2000, 2000])
    often = np.where(y == 0, 9, 1)  # each row of class 0 nine times: the same densities, other shares
    rare = Classifier(GaussianNB(), num_classes=2).fit(np.repeat(rows, often, axis=0), np.repeat(y, often))
    moved = Answering(even, np.array([0.9, 0.1])).predict_proba(X)
    np.testing.assert_allclose(moved, rare.predict_proba(X), atol=1e-6)
    assert np.abs(even.predict_proba(X) - rare.predict_proba(X)).max() > 0.2


def _without_shares(model):
    model.shares = {}


def _constant(model):
    model.fit(np.zeros((2, 1), np.float32), np.zeros(2, int))


@pytest.mark.parametrize(
    ("estimator", "change"),
    [(GaussianNB(), _without_shares), (GaussianNB(), _constant), (RidgeClassifier(), lambda model: None)],
)
def test_a_model_that_cannot_move_answers_as_it_was_taught(estimator, change):
    X, y = _two_bells([50, 50])
    model = Classifier(estimator, num_classes=2).fit(X, y)
    model.shares = learnt_shares(model, y, None)
    change(model)
    answers = Answering(model, np.array([0.99, 0.01]))
    assert not answers.moves
    assert np.array_equal(answers.predict(X), model.predict(X))
    assert np.array_equal(answers.predict_proba(X), model.predict_proba(X))
    assert answers.metrics(X, y) == model.metrics(X, y)


def test_shares_are_those_of_own_rows_of_public_ones_and_of_both_together():
    model = Classifier(GaussianNB(), num_classes=2)
    found = learnt_shares(model, np.array([0] * 8), np.array([0, 1, 1, -1, 1], np.int16))
    assert {name: shares.round(3).tolist() for name, shares in found.items()} == {
        "taught": [0.714, 0.286],  # 9 and 3 rows, and one more of each
        "own": [0.9, 0.1],
        "common": [0.333, 0.667],
    }
    told = learnt_shares(model, np.array([0] * 8), np.array([0, 1, 1, -1, 1], np.int16), known=(0.25, 0.75))
    assert told["common"].tolist() == [0.25, 0.75]
    noisy = learnt_shares(model, np.array([0] * 8), np.array([0, 1, 1, -1, 1], np.int16), known=None)
    assert sorted(noisy) == ["own", "taught"]


def test_a_net_learns_half_from_own_rows_and_half_from_public_ones():
    net = make_model("mlp", num_classes=2, num_features=1, seed=0)
    found = learnt_shares(net, np.array([0] * 98), np.array([1] * 2, np.int16))
    assert found["taught"].tolist() == [0.5, 0.5]


@pytest.mark.parametrize("labels", [None, np.full(3, -1, np.int16)])
def test_without_labels_a_model_was_taught_with_its_owners_shares_and_knows_no_others(labels):
    found = learnt_shares(Classifier(GaussianNB(), num_classes=2), np.array([0, 1, 1]), labels)
    assert sorted(found) == ["own", "taught"]
    assert found["own"].tolist() == found["taught"].tolist() == [0.4, 0.6]


@pytest.mark.parametrize(
    ("estimator", "weighs"),
    [
        (LogisticRegression(), False),
        (LogisticRegression(class_weight="balanced"), True),
        (make_pipeline(StandardScaler(), LogisticRegression(class_weight={0: 1, 1: 5})), True),
        (XGBClassifier(), False),
        (XGBClassifier(scale_pos_weight=1), False),
        (XGBClassifier(scale_pos_weight=4.0), True),
    ],
)
def test_whoever_weighs_classes_has_chosen_the_population(estimator, weighs):
    model = Classifier(estimator, num_classes=2)
    assert weighs_classes(model) is weighs
    assert (learnt_shares(model, np.array([0, 1]), None) == {}) is weighs

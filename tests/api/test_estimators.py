"""A federation as one classifier of scikit-learn, which its own checks and tools take."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import check_estimator

from fedkd_flwr import FederatedClassifier

X, Y = load_iris(return_X_y=True)
FEW = {"consensus": "majority", "students_per_party": 1, "teachers_per_student": 2}
FAST = FederatedClassifier(DecisionTreeClassifier(max_depth=4), n_parties=2, settings=FEW, random_state=0)


@pytest.mark.slow
def test_scikit_learn_s_own_checks_pass():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of data made to be difficult
        check_estimator(clone(FAST).set_params(settings=FEW | {"paper.party-models": False}))


@pytest.mark.parametrize("y", [["1", 1, "2"] * 50, ["NA", "a", "b"] * 50])
def test_classes_that_a_run_could_not_tell_apart_are_refused(y):
    with pytest.raises(ValueError, match="y must hold classes with different names"):
        clone(FAST).fit(X, np.array(y, dtype=object) if "NA" in y else np.array(["true", "True", "b"] * 50))


def test_groups_are_the_parties_and_classes_and_probabilities_keep_their_order_and_kind():
    names = np.array(["ten", "nine", "two"])[Y]
    groups = np.where(np.arange(len(Y)) % 3, "north", "south")
    columns = ["label of the row", "b", "party", "d"]  # called as the label and the parties are inside
    model = clone(FAST).fit(pd.DataFrame(X, columns=columns), names, groups=groups)
    assert model.classes_.tolist() == ["nine", "ten", "two"]
    assert model.feature_names_in_.tolist() == columns
    assert [party.name for party in model.result_.record.parties] == ["north", "south"]
    shares = model.predict_proba(pd.DataFrame(X, columns=columns))
    assert (model.classes_[shares.argmax(axis=1)] == names).mean() > 0.85
    numbers = np.array([10, 9, -2])[Y]  # which sort otherwise than their texts
    model = clone(FAST).fit(X[::2], numbers[::2], public=X[1::2])  # own public rows leave all rows to the parties
    assert model.classes_.tolist() == [-2, 9, 10]
    assert (model.classes_[model.predict_proba(X).argmax(axis=1)] == model.predict(X)).all()
    assert model.score(X, numbers) > 0.85
    assert model.result_.record.num_public == 75
    assert sum(sum(party.class_counts) for party in model.result_.record.parties) == 75


def test_it_is_cloned_scored_searched_and_put_into_a_pipeline():
    assert clone(FAST).get_params()["estimator__max_depth"] == 4
    search = GridSearchCV(FAST, {"estimator__max_depth": [1, 4]}, cv=2).fit(X, Y)
    assert search.best_params_ == {"estimator__max_depth": 4}
    assert search.best_score_ > 0.85
    assert make_pipeline(StandardScaler(), FAST).fit(X, Y).score(X, Y) > 0.85


def test_categories_and_empty_cells_are_learnt_from_as_they_are():
    rows = pd.DataFrame({"colour": ["red", "blue"] * 40, "size": [1.0, None, 2.0, 3.0] * 20})
    y = rows.colour == "red"
    assert clone(FAST).fit(rows, y).predict(rows).tolist() == y.tolist()


def test_an_algorithm_without_a_server_s_model_answers_by_all_parties():
    fedct = clone(FAST).set_params(algorithm="fedct", settings={"num_rounds": 1}).fit(X, Y)
    assert "" not in fedct.result_.model_bytes
    assert fedct.score(X, Y) > 0.85

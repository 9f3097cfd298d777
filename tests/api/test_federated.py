"""A federation is one estimator of scikit-learn, whatever it predicts."""

import pandas as pd
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from fedkd_flwr import FederatedClassifier

X, Y = load_iris(return_X_y=True)
FEW = {"consensus": "majority", "students_per_party": 1, "teachers_per_student": 2}
FAST = FederatedClassifier(DecisionTreeClassifier(max_depth=4), n_parties=2, settings=FEW, random_state=0)


def test_it_is_cloned_scored_searched_and_put_into_a_pipeline():
    assert clone(FAST).get_params()["estimator__max_depth"] == 4
    assert cross_val_score(FAST, X, Y, cv=2).mean() > 0.85
    search = GridSearchCV(FAST, {"estimator__max_depth": [1, 4]}, cv=2).fit(X, Y)
    assert search.best_params_ == {"estimator__max_depth": 4}
    assert make_pipeline(StandardScaler(), FAST).fit(X, Y).score(X, Y) > 0.85


def test_categories_and_empty_cells_are_learnt_from_as_they_are():
    rows = pd.DataFrame({"colour": ["red", "blue"] * 40, "size": [1.0, None, 2.0, 3.0] * 20})
    y = rows.colour == "red"
    assert clone(FAST).fit(rows, y).predict(rows).tolist() == y.tolist()


def test_an_algorithm_without_a_server_s_model_answers_by_all_parties():
    fedct = clone(FAST).set_params(algorithm="fedct", settings={"num_rounds": 1}).fit(X, Y)
    assert "" not in fedct.result_.model_bytes
    assert fedct.score(X, Y) > 0.85

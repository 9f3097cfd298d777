"""Who learns from labels of public rows learns from answered rows alone; no forest answers for a row it was taught."""

import numpy as np
import pytest

from fedkd_flwr.errors import DataError
from fedkd_flwr.models import taught
from fedkd_flwr.models.taught import labels_from_known, teach


@pytest.fixture(autouse=True)
def _few_trees(monkeypatch):
    monkeypatch.setattr(taught, "_TREES", 20)


def _rows(count=200, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(count, 3)).astype(np.float32)
    return X, (X[:, 0] > 0).astype(np.int16)


def test_a_known_row_is_answered_by_a_forest_that_was_not_taught_it():
    """Else labels drawn by lot would seem to be learnt, and the consensus would tell which rows are known."""
    X, _ = _rows()
    by_lot = np.random.default_rng(2).integers(2, size=120).astype(np.int16)
    said = labels_from_known(X, np.arange(120), by_lot, seed=1)
    assert 0.35 < (said[:120] == by_lot).mean() < 0.65


def test_a_few_rows_tell_of_all_others_and_the_seed_decides_how():
    X, y = _rows()
    said, again = (labels_from_known(X, np.arange(50), y[:50], seed=1) for _ in range(2))
    assert said.dtype == np.int16
    assert (said[50:] == y[50:]).mean() > 0.9
    assert np.array_equal(said, again)


X = np.arange(6, dtype=np.float32)[:, None]
ROWS = np.array([4, 0, 2])  # in no order: answers belong to rows, not to positions


class Model:
    """Remembers what it was fitted on; predicts 9 plus the number of models made before it."""

    def __init__(self, made):
        self.made, self.number = made, len(made)
        made.append(self)
        self.fitted = self.soft = None

    def fit(self, rows, labels):
        self.fitted = (rows[:, 0].tolist(), np.asarray(labels).tolist())
        return self

    def fit_soft(self, rows, weights):
        self.soft = (rows[:, 0].tolist(), weights.tolist())
        return self

    def predict(self, rows):
        return np.full(len(rows), 9 + self.number, dtype=np.int16)


def _teach(labels, counts=None, *, rows=ROWS):
    made: list[Model] = []
    answers = np.array(labels, dtype=np.int16)
    model = teach(lambda: Model(made), X, rows, answers, None if counts is None else np.array(counts))
    assert model is made[-1]
    return made


def test_only_answered_rows_are_learnt_each_with_its_own_answer_or_with_counts_in_place_of_labels():
    (model,) = _teach([2, -1, 1])
    assert model.fitted == ([4.0, 2.0], [2, 1])
    assert model.soft is None
    (model,) = _teach([2, -1, 1], [[0.5, 1.5], [7, 7], [3, -1]])
    assert model.soft == ([4.0, 2.0], [[0.5, 1.5], [3.0, -1.0]])
    assert model.fitted is None


def test_no_answers_are_refused_by_the_model():
    from sklearn.tree import DecisionTreeClassifier

    from fedkd_flwr.models import Classifier

    nothing = np.full(3, -1, dtype=np.int16)
    for counts in (None, np.zeros((3, 2))):
        with pytest.raises(DataError, match="at least one row"):
            teach(lambda: Classifier(DecisionTreeClassifier(), num_classes=2), X, ROWS, nothing, counts)

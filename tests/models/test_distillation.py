"""A model learns from the answered rows alone."""

import numpy as np
import pytest

from fedkd_flwr.errors import DataError
from fedkd_flwr.models.distillation import teach

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


def test_only_answered_rows_are_learnt_each_with_its_own_answer():
    (model,) = _teach([2, -1, 1])
    assert model.fitted == ([4.0, 2.0], [2, 1])
    assert model.soft is None


def test_counts_are_learnt_in_place_of_labels_from_answered_rows():
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

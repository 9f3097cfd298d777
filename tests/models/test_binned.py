"""BinnedLinear: given scores, and the usual file."""

import numpy as np

from fedkd_flwr.models.binned import BinnedLinear
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.models.payloads import PLAIN
from fedkd_flwr.models.serialize import dumps, loads

ROWS = np.array([[0.0, 1.0], [2.0, 0.0], [5.0, 1.0]], dtype=np.float32)


def model() -> Classifier:
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
    made = model()
    assert made.predict(ROWS).tolist() == [0, 1, 1]
    odds = np.log(made.predict_proba(ROWS)[:, 1] / made.predict_proba(ROWS)[:, 0])
    assert np.allclose(odds, [-1.5, 1.5, 3.5])


def test_a_file_of_it_is_read_without_trust_and_keeps_the_sums():
    again = loads(dumps(model()))
    assert (again.predict_proba(ROWS) == model().predict_proba(ROWS)).all()
    assert "fedkd_flwr.models.binned.BinnedLinear" in PLAIN
    estimator = again.estimator
    assert (estimator.sums == np.arange(12).reshape(6, 2)).all()
    assert [low.tolist() for low in estimator.lows] == [[0.0, 2, 5], []]

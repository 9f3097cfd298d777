"""What the server's own labelled rows tell of the others: a forest that never answers for a row it was taught."""

import numpy as np
import pytest

from fedkd_flwr.models import known_rows
from fedkd_flwr.models.known_rows import labels_from_known


@pytest.fixture(autouse=True)
def _few_trees(monkeypatch):
    monkeypatch.setattr(known_rows, "_TREES", 20)


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


@pytest.mark.filterwarnings("error")
def test_three_rows_of_a_class_are_enough():
    X, y = _rows()
    rows = np.sort(np.concatenate([np.flatnonzero(y == 1)[:3], np.flatnonzero(y == 0)[:40]]))
    assert labels_from_known(X, rows, y[rows], seed=1).shape == (200,)


def test_a_few_rows_tell_of_all_others_and_the_seed_decides_how():
    X, y = _rows()
    said, again = (labels_from_known(X, np.arange(50), y[:50], seed=1) for _ in range(2))
    assert said.dtype == np.int16
    assert (said[50:] == y[50:]).mean() > 0.9
    assert np.array_equal(said, again)

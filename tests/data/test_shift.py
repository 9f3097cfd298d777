"""How far private rows are from public ones; the doctest of `find_shift` has rows that are alike and apart."""

import numpy as np
import pandas as pd
import pytest
from schemas import column, schema_of

from fedkd_flwr.data.shift import column_differences, find_shift
from fedkd_flwr.errors import DataError

SCHEMA = schema_of(column("age"), column("dose"), column("job", "cook", "smith"), label="y")


def test_columns_are_named_by_how_differently_they_are_filled():
    public = pd.DataFrame({"age": [1, 2, 3, 4], "dose": [1, 2, 3, 4], "job": ["cook", "cook", "smith", "smith"]})
    own = pd.DataFrame({"age": [1, 2, 3, 4], "dose": [10, 20, 30, ""], "job": ["cook", "cook", "cook", ""]})
    assert column_differences(own, public, SCHEMA) == [("dose", 0.75), ("job", 0.5), ("age", 0.0)]


def test_a_party_with_one_class_of_four_is_told_apart_and_still_fits_and_of_too_few_rows_nothing_is_said():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 2)) + 4.0 * np.repeat(np.array([[0, 0], [0, 1], [1, 0], [1, 1]]), 100, axis=0)
    order = rng.permutation(400)
    own, public = rows[order[:200][order[:200] < 100]], rows[order[200:]]
    shift = find_shift(own, public, rng=rng)
    assert shift.auc > 0.75
    assert shift.fit > 0.5
    with pytest.raises(DataError, match="19 private and 30 public"):
        find_shift(np.zeros((19, 1)), np.zeros((30, 1)), rng=np.random.default_rng(0))

"""Raw rows become features by what was learnt from public rows alone."""

import numpy as np
import pandas as pd
import pytest

from fedkd_flwr.data.public import Preprocessor, make_public_set
from fedkd_flwr.data.schema import Schema
from fedkd_flwr.errors import DataError

IMAGES = Schema(columns=(), classes=("0", "1"), shape=(1, 2, 2))


def test_private_rows_never_move_the_scale_a_missing_number_is_the_public_median_and_a_new_category_all_zeros(
    people, schema
):
    preprocessor = Preprocessor().fit(people, schema)
    alone = preprocessor.transform(people.iloc[:1])
    among = preprocessor.transform(pd.concat([people.iloc[:1], people.assign(age=1e6)]))
    assert alone[0].tolist() == among[0].tolist()
    row = pd.DataFrame({"age": ["?"], "job": ["poet"], "other": ["ignored"]})
    assert preprocessor.transform(row).tolist() == [[0.0, 0.0, 0.0]]


def test_constant_and_empty_public_columns_do_not_divide_by_zero(schema):
    table = pd.DataFrame({"age": [0.1, 0.1, 0.1], "job": ["cook"] * 3})
    assert Preprocessor().fit(table, schema).transform(table.assign(age=1.1))[:, 0].tolist() == pytest.approx([1.0] * 3)
    assert Preprocessor().fit(table.assign(age=np.nan), schema).transform(table.assign(age=""))[0, 0] == 0.0


@pytest.mark.parametrize(
    ("fitted", "changes", "message"),
    [
        (True, {"age": ["forty"] * 3}, r"column 'age' must hold numbers, got 'forty'"),
        (True, {"age": [1e300] * 3}, r"column 'age' must stay finite after scaling .*1e\+300 in row 1"),
        (False, {"age": [1e308, -1e308, 1e308]}, "column 'age' must hold numbers of moderate size"),
        (False, None, r"columns must include the 2 feature columns .* without age, job.* add them, empty if need be"),
    ],
)
def test_what_cannot_be_scaled_is_named(people, schema, fitted, changes, message):
    table = people[["income"]] if changes is None else people.assign(**changes)
    preprocessor = Preprocessor().fit(people, schema)
    with pytest.raises(DataError, match=message):
        preprocessor.transform(table) if fitted else Preprocessor().fit(table, schema)
    with pytest.raises(DataError, match="preprocessor must be fitted"):
        Preprocessor().transform(table)


def test_pixels_are_divided_by_255_and_never_standardised():
    pixels = np.array([[0, 51, 102, 255]], dtype=np.uint8)
    np.testing.assert_allclose(make_public_set(pixels, IMAGES).X, [[0, 0.2, 0.4, 1.0]], rtol=1e-6)


@pytest.mark.parametrize(("value", "rule"), [(-1.0, "within 0 to 255"), (0.5, "whole numbers"), (np.nan, "within 0")])
def test_pixels_that_are_no_bytes_are_refused(value, rule):
    with pytest.raises(DataError, match=f"pixels must be .*{rule}"):
        make_public_set(np.array([[0, 0, 0, value]]), IMAGES)

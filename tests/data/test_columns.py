from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fedkd_flwr.data.columns import canonical, column_numbers, column_texts
from fedkd_flwr.errors import DataError


def test_number_spellings_are_one_text_but_identifiers_keep_their_zeros():
    assert {canonical(v) for v in (1, 1.0, "1", "1.0", "+1", " 1.000 ", np.float32(1))} == {"1"}
    assert [canonical(v) for v in ("007", "1e3", "0.50", "-0", -0.0, True)] == ["007", "1e3", "0.5", "0", "0", "True"]


def test_missing_markers_are_none_whatever_the_type():
    values = ["", " ? ", "NA", None, float("nan"), pd.NA]
    assert column_texts(pd.Series(values, dtype=object)).tolist() == [None] * 6


def test_column_numbers_name_the_column_and_value_they_cannot_read():
    with pytest.raises(DataError, match=r"column 'age' must hold numbers .* got 'old'.*categorical"):
        column_numbers(["1", "old"], "age")


def test_column_numbers_refuse_what_only_python_calls_a_number():
    with pytest.raises(DataError, match="column 'age' must hold numbers"):
        column_numbers(["1", "1_000"], "age")


def test_column_numbers_refuse_a_decimal_comma():
    with pytest.raises(DataError, match=r"'1,5'.*decimal point"):
        column_numbers(["1,5"], "age")


@pytest.mark.parametrize("value", ["inf", "-Infinity", np.inf])
def test_column_numbers_refuse_infinity(value):
    with pytest.raises(DataError, match=r"column 'age' must hold finite numbers, got -?inf in row 1"):
        column_numbers(pd.Series([1, value], dtype=object), "age")


def test_text_numbers_are_parsed_to_the_nearest_double():
    text = "0.1234567890123456789"
    assert column_numbers([text], "x")[0] == float(text)

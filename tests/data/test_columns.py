import numpy as np
import pandas as pd
import pytest

from fedkd_flwr.data.columns import MISSING, canonical, column_texts
from fedkd_flwr.data.reading import column_numbers
from fedkd_flwr.data.schema import Column, Schema
from fedkd_flwr.data.text import text_values
from fedkd_flwr.errors import DataError


def test_number_spellings_are_one_text_but_identifiers_keep_their_zeros():
    assert {canonical(v) for v in (1, 1.0, "1", "1.0", "+1", " 1.000 ", np.float32(1))} == {"1"}
    assert canonical("Mu\u0308nchen") == canonical("M\u00fcnchen") == "M\u00fcnchen"
    assert column_texts(pd.Series([None, float("nan"), pd.NA], dtype=object)).tolist() == [None] * 3
    assert [canonical(v) for v in ("007", "1e3", "0.50", "-0", -0.0, True)] == ["007", "1e3", "0.5", "0", "0", "True"]


def test_cells_that_hold_lists_or_tables_are_their_texts():
    """A Parquet file may hold them: an error here would tell a server what is in a private file."""
    values = pd.Series([np.array([1, 2]), {"a": 1}, None, np.array([1, 2])], dtype=object)
    assert column_texts(values).tolist() == ["[1, 2]", "{'a': 1}", None, "[1, 2]"]


def test_a_word_for_no_value_that_is_a_number_is_meant_in_every_spelling():
    values = pd.Series(["-999", "-999.0", -999, -999.0, "a"], dtype=object)
    for word in ("-999", "-999.0"):
        assert column_texts(values, (word,)).tolist() == [None, None, None, None, "a"]


def test_a_truth_value_is_one_category_in_every_spelling():
    """Python writes True, Arrow's CSV writer true, and a spreadsheet TRUE."""
    values = pd.Series([True, np.True_, "True", "true", " TRUE ", False, "false"], dtype=object)
    assert column_texts(values).tolist() == ["True"] * 5 + ["False"] * 2
    assert column_texts(np.array([True, False])).tolist() == ["True", "False"]


@pytest.mark.parametrize("word", sorted(MISSING))
def test_a_word_for_no_value_is_one_in_every_kind_of_column_and_no_class(word):
    """NA and nan were empty, None was a category, and #N/A a class."""
    assert canonical(f" {word} ") is None
    assert column_texts(["a", word]).tolist() == ["a", None]
    assert np.isnan(column_numbers(["1", word], "a")).tolist() == [False, True]
    assert text_values(["a b", word]).tolist() == ["a b", ""]
    with pytest.raises(DataError, match="mean a missing value"):
        Schema(columns=(Column(name="a", kind="numeric"),), classes=("a", word))

import numpy as np
import pandas as pd
import pytest
from schemas import column

from fedkd_flwr.data.columns import MISSING, canonical, column_texts
from fedkd_flwr.data.reading import column_numbers
from fedkd_flwr.data.schema import Schema
from fedkd_flwr.data.text import text_values
from fedkd_flwr.errors import DataError


def test_cells_that_hold_lists_or_tables_are_their_texts():
    """A Parquet file may hold them: an error here would tell a server what is in a private file."""
    values = pd.Series([np.array([1, 2]), {"a": 1}, None, np.array([1, 2])], dtype=object)
    assert column_texts(values).tolist() == ["[1, 2]", "{'a': 1}", None, "[1, 2]"]


def test_a_word_for_no_value_that_is_a_number_is_meant_in_every_spelling():
    values = pd.Series(["-999", "-999.0", -999, -999.0, "a"], dtype=object)
    for word in ("-999", "-999.0"):
        assert column_texts(values, (word,)).tolist() == [None, None, None, None, "a"]


@pytest.mark.parametrize("word", sorted(MISSING))
def test_a_word_for_no_value_is_one_in_every_kind_of_column_and_no_class(word):
    """NA and nan were empty, None was a category, and #N/A a class."""
    assert canonical(f" {word} ") is None
    assert column_texts(["a", word]).tolist() == ["a", None]
    assert np.isnan(column_numbers(["1", word], "a")).tolist() == [False, True]
    assert text_values(["a b", word]).tolist() == ["a b", ""]
    with pytest.raises(DataError, match="mean a missing value"):
        Schema(columns=(column("a"),), classes=("a", word))

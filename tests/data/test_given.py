"""Tables that a program hands over are read by name as files are, as long as they are given."""

import pandas as pd
import pytest

from fedkd_flwr.data.given import given_table, giving
from fedkd_flwr.data.tables import read_table
from fedkd_flwr.errors import DataError


def test_a_table_is_read_by_its_name_until_it_is_no_longer_given():
    rows = pd.DataFrame({"a": [1, 2], 3: ["x", None]}, index=[7, 8])
    with giving(rows) as name:
        read = read_table(name)
        assert read.columns.tolist() == ["a", "3"]
        assert read.index.tolist() == [0, 1]
        read["a"] = 0
        assert read_table(name)["a"].tolist() == [1, 2]  # each reader has a copy of its own
    assert given_table(name) is None
    with pytest.raises(DataError, match="file must exist"):
        read_table(name)


def test_equal_tables_have_equal_names_and_others_have_others():
    names = []
    for value in (1, 1, 2, [1, 2]):  # a list has no hash
        with giving(pd.DataFrame({"a": pd.Series([value, 3], dtype=object)})) as name:
            names.append(name)
    assert names[0] == names[1]
    assert len(set(names)) == 3


def test_two_columns_of_one_name_are_refused():
    with (
        pytest.raises(DataError, match="columns of the table must have distinct names"),
        giving(pd.DataFrame([[1, 2]], columns=["a", "a"])),
    ):
        pass

"""What a user says about a table: rules that name no column or choice."""

import pandas as pd
import pytest

from fedkd_flwr.data.look import look
from fedkd_flwr.data.rules import Rules
from fedkd_flwr.errors import DataError


def test_a_rule_that_names_no_column_or_no_choice_is_refused():
    table = pd.DataFrame({"x": [0.5, 1.5] * 60, "y": ["no", "yes"] * 60})
    with pytest.raises(DataError, match="decimal must be one of"):
        Rules(decimal=";")
    with pytest.raises(DataError, match=r"drop must name columns other than the label: x, got z\. Spell|got 'z'"):
        look(table, label="y", rules=Rules(drop=("z",)))
    with pytest.raises(DataError, match="table must hold a column to learn from, got columns x, y"):
        look(table, label="y", rules=Rules(drop=("x",)))

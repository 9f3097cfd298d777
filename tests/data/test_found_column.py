"""A column while it is looked at: which cells are meant, and what is said of them."""

import numpy as np
import pandas as pd
import pytest

from fedkd_flwr.data.found_column import FEW_TEXTS, Cells, ColumnLook
from fedkd_flwr.data.reading import Reading
from fedkd_flwr.data.rules import mark

CELLS = Cells.of(pd.Series(["1", "-", None, "-", " 1", "x" * 50, "y"]))


def test_distinct_texts_are_counted_and_an_empty_cell_has_none():
    dash = np.array([text == "-" for text in CELLS.texts])
    assert CELLS.chosen(dash) == ["-"]
    assert CELLS.number(dash) == 2
    assert CELLS.number(np.ones(len(CELLS.texts), dtype=bool)) == 6
    numbers = np.array([float(text) if text == "1" else np.nan for text in CELLS.texts])
    assert np.isnan(CELLS.rows(numbers)).tolist() == [False, True, True, True, False, True, True]


def test_cells_are_named_with_their_first_row_counted_from_one_and_long_ones_are_cut():
    every = np.ones(len(CELLS.texts), dtype=bool)
    assert CELLS.shown(every, most=9) == f"'1' in row 1, '-' in row 2, {'x' * 40!r} in row 6, 'y' in row 7"
    assert CELLS.shown(every) == f"'1' in row 1, '-' in row 2, {'x' * 40!r} in row 6"
    assert CELLS.shown(~every) == ""


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "numbers"),
        ({"kind": "text"}, "text"),
        ({"kind": "categorical", "categories": ("a",)}, "1 category"),
        ({"kind": "categorical", "categories": ("a", "b")}, "2 categories"),
        ({"reading": Reading(decimal=",", thousands=".")}, "numbers (decimal comma, thousands '.')"),
        ({"reading": Reading(unit="mg")}, "numbers (unit mg)"),
        ({"reading": Reading(dates="day-first")}, "days since 1970-01-01 (day-first)"),
    ],
)
def test_what_a_column_became_is_said_in_words(changes, words):
    assert ColumnLook(name="x", **changes).read_as == words


def test_words_are_read_as_empty_by_a_rule_unless_a_list_cannot_hold_them():
    assert ColumnLook(name="x").words_rule(["none", "?"]) == "x:none,x:?"
    for name, words in (("x", ["a,b"]), ("a,b", ["none"]), ("x", []), ("x", ["w"] * (FEW_TEXTS + 1))):
        assert ColumnLook(name=name).words_rule(words) == ""


def test_a_column_that_is_left_out_says_why_and_nothing_else():
    column = ColumnLook(name="x", repaired=3, notes=["odd"], change={"drop": "x"})
    column.may_drop("one value alone")
    assert (column.droppable, column.notes[-1]) == (True, f"one value alone ({mark('drop', 'x')} leaves it out)")
    column.leave_out("empty", missing=7)
    assert (column.kind, column.missing, column.repaired, column.notes) == ("left out", 7, 0, ["empty"])
    assert column.change == {}

"""The same row has the same values in whatever file it stands."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fedkd_flwr.data.reading import Reading
from fedkd_flwr.data.row_values import row_form, row_values, usable_row_values
from fedkd_flwr.data.schema import Column, Schema
from fedkd_flwr.errors import DataError
from fedkd_flwr.privacy.ledger.rows import hash_rows

AGE, TOWN = Column(name="age", kind="numeric"), Column(name="town", kind="categorical", categories=("x",))
SCHEMA = Schema(columns=(AGE, TOWN), classes=("no", "yes"))


def _table(**changes):
    return pd.DataFrame({"age": [1.0, 2.5], "town": ["x", None], "label": ["no", "yes"]} | changes)


def _same(table, schema=SCHEMA):
    pairs = zip(row_values(_table(), SCHEMA), row_values(table, schema), strict=True)
    return all(np.array_equal(one, other, equal_nan=one.dtype.kind == "f") for one, other in pairs)


def test_spelling_types_and_further_columns_make_no_new_row():
    assert _same(_table(age=["1", "2.50"]))
    assert _same(
        _table(age=np.array([1, 2.5], dtype=np.float32), town=[" x ", "NA"], label=["no ", "yes"], number=[7, 8])
    )
    turned = Schema(columns=(TOWN, AGE), classes=("yes", "no"))
    assert _same(_table()[["label", "town", "age"]], turned)
    assert row_form(turned) == row_form(SCHEMA)


def test_an_accented_letter_is_the_same_as_one_character_and_as_two():
    composed, decomposed = (row_values(_table(town=[town, "x"]), SCHEMA) for town in ("K\u00f6ln", "Ko\u0308ln"))
    assert all(np.array_equal(one, other) for one, other in zip(composed, decomposed, strict=True))


@pytest.mark.parametrize("changes", [{"age": [1.0, 2.51]}, {"town": ["x", "x"]}, {"label": ["no", "no"]}])
def test_another_value_is_another_row(changes):
    assert not _same(_table(**changes))


def test_other_columns_are_another_form():
    other = Schema(columns=(AGE,), classes=("no", "yes"))
    assert row_form(other) != row_form(SCHEMA)


@pytest.mark.parametrize(
    "column",
    [
        Column(name="town", kind="text"),
        Column(name="town", kind="categorical", categories=("x",), reading=Reading(missing=("x",))),
        Column(name="age", kind="numeric", reading=Reading(missing=("-999",))),
        Column(name="age", kind="numeric", reading=Reading(dates="day-first")),
        Column(name="age", kind="numeric", reading=Reading(decimal=",", thousands=".")),
    ],
    ids=lambda column: f"{column.kind} {column.reading.words}",
)
def test_columns_that_are_read_otherwise_are_another_form(column):
    """Else a new schema would give the same rows other values, and what they have spent would be forgotten."""
    columns = [column if one.name == column.name else one for one in (AGE, TOWN)]
    assert row_form(Schema(columns=tuple(columns), classes=("no", "yes"))) != row_form(SCHEMA)


def test_the_order_of_words_for_no_value_makes_no_other_form():
    one, other = (
        Schema(columns=(Column(name="age", kind="numeric", reading=Reading(missing=words)),), classes=("no", "yes"))
        for words in (("-9", "unknown"), ("unknown", "-9"))
    )
    assert row_form(one) == row_form(other)


def test_the_form_of_plain_columns_is_that_of_release_0_2_0():
    """Ledgers hold it: under another form their rows would not be known again."""
    assert row_form(SCHEMA) == "0f3969bfdd2755ce"


def test_images_are_their_pixels():
    schema = Schema(columns=(), classes=("no", "yes"), shape=(1, 1, 2))
    table = pd.DataFrame({"pixel-0": [0, 255], "pixel-1": [1, 2], "label": ["no", "yes"]})
    pixels, label = row_values(table, schema)
    assert pixels.tolist() == [[0, 1], [255, 2]]
    assert label.shape == (2, 1)


def test_a_missing_column_is_an_error():
    with pytest.raises(DataError):
        row_values(_table().drop(columns="age"), SCHEMA)


def test_a_bad_cell_makes_no_new_row_of_any_other():
    """Else one bad cell in a file would let every row start afresh."""
    whole = pd.DataFrame({"age": np.arange(9.0), "town": ["x"] * 9, "label": [1, 0, 1] * 3})
    bad = whole.astype({"age": object})
    bad.loc[4, "age"] = "<0.5"
    others = np.arange(9) != 4
    for one, other in zip(row_values(whole, SCHEMA), usable_row_values(bad, SCHEMA, digest="ab"), strict=True):
        assert one.dtype == other.dtype
        assert np.array_equal(one[others], other[others])


def test_two_rows_with_bad_cells_are_not_one_row():
    """Else a file's budget would show whether any of its rows has a bad cell, and good rows would pay for it."""
    files = [pd.DataFrame({"age": [bad, bad, "3"], "town": ["x"] * 3, "label": [1, 0, 1]}) for bad in ("<0.5", "<0.7")]
    hashes = [hash_rows(usable_row_values(bad, SCHEMA, digest="ab"), bytes(16)) for bad in files]
    assert len(set(np.concatenate(hashes).tolist())) == 5


@pytest.mark.parametrize("others", [["3", "4"], ["old", "new"]], ids=["readable", "none readable"])
def test_a_row_with_a_bad_cell_is_the_same_row_in_another_file(others):
    """A model that reads texts learns from it, so in a file with one row more it has spent what it spent."""
    columns = Column(name="age", kind="numeric"), Column(name="note", kind="text")
    schema = Schema(columns=columns, classes=("no", "yes"))
    file = pd.DataFrame({"age": ["forty", *others], "note": ["fever", "chills", "cough"], "label": ["yes", "no", "no"]})
    longer = pd.concat([file, file.iloc[:1].assign(age="5", note="new")])
    hashes = [
        hash_rows(usable_row_values(table, schema, digest=digest), bytes(16)).tolist()
        for table, digest in ((file, "ab"), (longer, "cd"))
    ]
    assert hashes[1][:3] == hashes[0]
    assert len(set(hashes[1])) == 4


def test_a_row_of_strange_cells_costs_no_other_row_with_a_bad_cell_its_values():
    class Strange:
        def __str__(self):
            raise RuntimeError

    found = []
    for cell in ("old", Strange()):
        table = pd.DataFrame({"age": ["forty", cell], "town": ["x", "x"], "label": [1, 0]})
        found.append(hash_rows(usable_row_values(table, SCHEMA, digest="ab"), bytes(16)).tolist())
    assert found[0][0] == found[1][0]
    assert found[0][1] != found[1][1]


def test_a_table_without_a_column_has_no_rows():
    assert usable_row_values(_table().drop(columns="age"), SCHEMA, digest="ab") == []

"""The same row has the same values in whatever file it stands."""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b, sha256

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


@pytest.mark.parametrize("changes", [{"age": [1.0, 2.51]}, {"town": ["x", "x"]}, {"label": ["no", "no"]}])
def test_another_value_is_another_row(changes):
    assert not _same(_table(**changes))


def test_other_columns_are_another_form():
    other = Schema(columns=(AGE,), classes=("no", "yes"))
    assert row_form(other) != row_form(SCHEMA)


COLUMNS = [
    Column(name="town", kind="text"),
    Column(name="town", kind="categorical", categories=("x",), reading=Reading(missing=("x",))),
    Column(name="town", kind="text", reading=Reading(missing=("x",))),
    Column(name="age", kind="numeric", reading=Reading(missing=("-999",))),
    Column(name="age", kind="numeric", reading=Reading(missing=("-9",))),
    Column(name="age", kind="numeric", reading=Reading(dates="day-first")),
    Column(name="age", kind="numeric", reading=Reading(decimal=",", thousands=".")),
]


def _forms(*, but):
    """The forms of the plain schema and of those with one of the columns above, but for one of them."""
    found = [row_form(SCHEMA)]
    for column in COLUMNS:
        if column != but:
            columns = tuple(column if one.name == column.name else one for one in (AGE, TOWN))
            found.append(row_form(Schema(columns=columns, classes=("no", "yes"))))
    return found


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: f"{column.kind} {column.reading.words}")
def test_columns_that_are_read_otherwise_are_another_form(column):
    """Else a new schema would give the same rows other values, and what they have spent would be forgotten."""
    columns = [column if one.name == column.name else one for one in (AGE, TOWN)]
    assert row_form(Schema(columns=tuple(columns), classes=("no", "yes"))) not in _forms(but=column)


def test_the_order_of_words_for_no_value_makes_no_other_form():
    one, other = (
        Schema(columns=(Column(name="age", kind="numeric", reading=Reading(missing=words)),), classes=("no", "yes"))
        for words in (("-9", "unknown"), ("unknown", "-9"))
    )
    assert row_form(one) == row_form(other)


def test_the_order_of_columns_that_are_read_by_rules_makes_no_other_form_and_which_of_them_it_is_does():
    plain = Column(name="b", kind="numeric"), Column(name="c", kind="numeric")
    b, c = (replace(column, reading=Reading(decimal=",")) for column in plain)
    forms = [
        row_form(Schema(columns=two, classes=("no", "yes"))) for two in ((b, c), (c, b), (b, plain[1]), (plain[0], c))
    ]
    assert forms[0] == forms[1]
    assert len(set(forms)) == 3


def test_the_label_s_name_and_the_shape_of_images_are_part_of_the_form():
    other = Schema(columns=(AGE, TOWN), classes=("no", "yes"), label="outcome")
    assert row_form(other) != row_form(SCHEMA)
    images = [Schema(columns=(), classes=("no", "yes"), shape=shape) for shape in ((1, 1, 2), (1, 2, 1))]
    assert row_form(images[0]) != row_form(images[1])


def test_the_values_of_a_row_are_these_in_every_release():
    """Ledgers hold hashes of them: float32 for a number, BLAKE2b of 4 bytes for a category, of 8 for a text."""

    def hashed(text, size):
        return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).digest(), "little")

    note, odd = Column(name="note", kind="text"), pd.Series(["a b", "\ud800"], dtype=object)
    schema = Schema(columns=(TOWN, note, AGE), classes=("no", "yes"))
    numbers, notes, towns, labels = row_values(_table(age=[0.1, 2.5], note=odd), schema)
    assert numbers.dtype == np.float32
    assert numbers.tolist() == [[np.float32(0.1)], [2.5]]
    assert (notes.dtype, towns.dtype, labels.dtype) == (np.dtype("<u8"), np.dtype("<u4"), np.dtype("<u4"))
    assert notes.tolist() == [[hashed("a b", 8)], [hashed("\ud800", 8)]]
    assert towns.tolist() == [[hashed("x", 4)], [0]]
    assert labels.tolist() == [[hashed("no", 4)], [hashed("yes", 4)]]


def test_the_form_of_columns_with_rules_is_a_digest_of_these_words_in_every_release():
    """Rules that are not set are not among them, so that a rule of a later release makes no other form."""
    age = Column(name="age", kind="numeric", reading=Reading(decimal=",", missing=("-9",)))
    form = row_form(Schema(columns=(Column(name="town", kind="text"), age), classes=("no", "yes")))
    words = "([('age', 'numeric', ('decimal', ','), ('missing', ['-9'])), ('town', 'text')], 'label', None)"
    assert form == sha256(words.encode()).hexdigest()[:16]


def test_cells_are_read_by_the_rules_of_their_column():
    age = replace(AGE, reading=Reading(decimal=",", missing=("-9",)))
    town = replace(TOWN, reading=Reading(missing=("nobody knows",)))
    read = row_values(
        _table(age=["1,5", "-9"], town=["x", "nobody knows"]), Schema(columns=(age, town), classes=("no", "yes"))
    )
    plain = row_values(_table(age=["1.5", None]), SCHEMA)
    assert all(np.array_equal(*pair, equal_nan=pair[0].dtype.kind == "f") for pair in zip(read, plain, strict=True))


def test_line_ends_within_a_text_and_a_missing_text_for_an_empty_one_make_no_new_row():
    schema = Schema(columns=(Column(name="town", kind="text"),), classes=("no", "yes"))
    one, other = (row_values(_table(town=towns), schema)[0] for towns in (["a\r\nb", None], ["a\nb", ""]))
    assert one.tolist() == other.tolist()
    assert row_values(_table(town=["a\nb", "0"]), schema)[0].tolist() != one.tolist()


def test_the_order_of_a_schema_s_columns_makes_no_new_row():
    one, other = Column(name="a", kind="numeric"), Column(name="b", kind="numeric")
    table = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0], "label": ["no", "yes"]})
    for columns in ((one, other), (other, one)):
        schema = Schema(columns=columns, classes=("no", "yes"))
        assert row_values(table, schema)[0].tolist() == [[1.0, 3.0], [2.0, 4.0]]


def test_a_bad_cell_s_row_is_the_same_whatever_the_order_of_columns_and_another_one_with_another_label():
    def values(table, *columns):
        return hash_rows(
            usable_row_values(table, Schema(columns=columns, classes=("no", "yes")), digest="ab"), bytes(16)
        )

    bad = _table(age=["forty", "3"])
    assert values(bad, AGE, TOWN).tolist() == values(bad, TOWN, AGE).tolist()
    assert values(bad, AGE, TOWN)[0] != values(bad.assign(label="yes"), AGE, TOWN)[0]


def test_a_bad_cell_s_row_is_the_same_wherever_in_the_file_it_stands():
    schema = Schema(columns=(AGE,), classes=("no", "yes"))
    table = pd.DataFrame({"age": ["forty", "3", "fifty", "4"], "label": ["no"] * 4})
    numbers, labels = usable_row_values(table, schema, digest="ab")
    assert ((numbers[[0, 2]] >= 0) & (numbers[[0, 2]] < 1)).all()
    assert numbers[0] != numbers[2]
    turned = usable_row_values(table.iloc[::-1], schema, digest="cd")
    assert [block[::-1].tolist() for block in turned] == [numbers.tolist(), labels.tolist()]


def test_rows_whose_cells_have_no_texts_are_rows_of_this_file_alone():
    class Strange:
        def __str__(self):
            raise RuntimeError

    table = pd.DataFrame({"age": [Strange(), Strange()], "town": ["x", "x"], "label": [1, 1]})
    files = [hash_rows(usable_row_values(table, SCHEMA, digest=digest), bytes(16)).tolist() for digest in ("ab", "cd")]
    assert len({*files[0], *files[1]}) == 4


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


@pytest.mark.parametrize("column", ["age", "label"])
def test_a_table_without_a_column_has_no_rows(column):
    assert usable_row_values(_table().drop(columns=column), SCHEMA, digest="ab") == []

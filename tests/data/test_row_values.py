"""The same row has the same values in whatever file it stands."""

from dataclasses import replace
from hashlib import blake2b, sha256

import numpy as np
import pandas as pd
import pytest
from schemas import column, schema_of

from fedkd_flwr.data.reading import Reading
from fedkd_flwr.data.row_values import row_form, row_values, usable_row_values
from fedkd_flwr.errors import DataError
from fedkd_flwr.privacy.ledger.rows import hash_rows

AGE, TOWN = column("age"), column("town", "x")
SCHEMA = schema_of(AGE, TOWN)


def _table(**changes):
    return pd.DataFrame({"age": [1.0, 2.5], "town": ["x", None], "label": ["no", "yes"]} | changes)


def _same(table, schema=SCHEMA):
    pairs = zip(row_values(_table(), SCHEMA), row_values(table, schema), strict=True)
    return all(np.array_equal(one, other, equal_nan=one.dtype.kind == "f") for one, other in pairs)


def _form(*columns, **more):
    return row_form(schema_of(*columns, **more))


def _hashes(table, schema=SCHEMA, digest="ab"):
    return hash_rows(usable_row_values(table, schema, digest=digest), bytes(16)).tolist()


def test_spelling_types_and_further_columns_make_no_new_row():
    assert _same(_table(age=["1", "2.50"]))
    age = np.array([1, 2.5], dtype=np.float32)
    assert _same(_table(age=age, town=[" x ", "NA"], label=["no ", "yes"], number=[7, 8]))
    assert _same(_table()[["label", "town", "age"]], schema_of(TOWN, AGE, classes=("yes", "no")))


def test_the_values_of_a_row_are_these_in_every_release():
    """Ledgers hold hashes of them: float32 for a number, BLAKE2b of 4 bytes for a category, of 8 for a text."""

    def hashed(text, size):
        return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).digest(), "little")

    note, odd = column("note", kind="text"), pd.Series(["a b", "\ud800"], dtype=object)
    schema = schema_of(TOWN, note, AGE)
    numbers, notes, towns, labels = row_values(_table(age=[0.1, 2.5], note=odd), schema)
    assert numbers.dtype == np.float32
    assert numbers.tolist() == [[np.float32(0.1)], [2.5]]
    assert (notes.dtype, towns.dtype, labels.dtype) == (np.dtype("<u8"), np.dtype("<u4"), np.dtype("<u4"))
    assert notes.tolist() == [[hashed("a b", 8)], [hashed("\ud800", 8)]]
    assert towns.tolist() == [[hashed("x", 4)], [0]]
    assert labels.tolist() == [[hashed("no", 4)], [hashed("yes", 4)]]


def test_the_form_of_columns_with_rules_is_a_digest_of_these_words_in_every_release():
    """Rules that are not set are not among them, so that a rule of a later release makes no other form."""
    age = column("age", reading=Reading(decimal=",", missing=("-9",)))
    words = "([('age', 'numeric', ('decimal', ','), ('missing', ['-9'])), ('town', 'text')], 'label', None)"
    assert _form(column("town", kind="text"), age) == sha256(words.encode()).hexdigest()[:16]


def test_cells_are_read_by_the_rules_of_their_column():
    age = replace(AGE, reading=Reading(decimal=",", missing=("-9",)))
    town = replace(TOWN, reading=Reading(missing=("nobody knows",)))
    by_rules = schema_of(age, town)
    assert _same(_table(age=["1,0", "2,5"], town=["x", "nobody knows"]), by_rules)
    assert np.isnan(row_values(_table(age=["1,5", "-9"]), by_rules)[0][1])


def test_line_ends_within_a_text_and_a_missing_text_for_an_empty_one_make_no_new_row():
    schema = schema_of(column("town", kind="text"))
    one, other = (row_values(_table(town=towns), schema)[0] for towns in (["a\r\nb", None], ["a\nb", ""]))
    assert one.tolist() == other.tolist()
    assert row_values(_table(town=["a\nb", "0"]), schema)[0].tolist() != one.tolist()


def test_images_are_their_pixels():
    schema = schema_of(shape=(1, 1, 2))
    table = pd.DataFrame({"pixel-0": [0, 255], "pixel-1": [1, 2], "label": ["no", "yes"]})
    pixels, label = row_values(table, schema)
    assert pixels.tolist() == [[0, 1], [255, 2]]
    assert label.shape == (2, 1)


def test_a_bad_cell_makes_no_new_row_of_any_other():
    """Else one bad cell in a file would let every row start afresh."""
    whole = pd.DataFrame({"age": np.arange(9.0), "town": ["x"] * 9, "label": [1, 0, 1] * 3})
    bad = whole.astype({"age": object})
    bad.loc[4, "age"] = "<0.5"
    others = np.arange(9) != 4
    for one, other in zip(row_values(whole, SCHEMA), usable_row_values(bad, SCHEMA, digest="ab"), strict=True):
        assert one.dtype == other.dtype
        assert np.array_equal(one[others], other[others])


@pytest.mark.parametrize("others", [["3", "4"], ["old", "new"]], ids=["readable", "none readable"])
def test_a_row_with_a_bad_cell_is_the_same_row_in_another_file(others):
    """A model that reads texts learns from it, so in a file with one row more it has spent what it spent."""
    schema = schema_of(column("age"), column("note", kind="text"))
    file = pd.DataFrame({"age": ["forty", *others], "note": ["fever", "chills", "cough"], "label": ["yes", "no", "no"]})
    longer = pd.concat([file, file.iloc[:1].assign(age="5", note="new")])
    hashes = [_hashes(file, schema), _hashes(longer, schema, "cd")]
    assert hashes[1][:3] == hashes[0]
    assert len(set(hashes[1])) == 4


@pytest.mark.parametrize("column", ["age", "label"])
def test_a_table_without_a_column_has_no_rows(column):
    assert usable_row_values(_table().drop(columns=column), SCHEMA, digest="ab") == []
    with pytest.raises((DataError, KeyError)):
        row_values(_table().drop(columns=column), SCHEMA)


def test_columns_that_are_read_otherwise_are_another_form():
    """Else a new schema would give the same rows other values, and what they have spent would be forgotten."""
    minus_9, unknown = "-9", "unknown"
    others = [
        column("town", kind="text"),
        column("town", "x", reading=Reading(missing=("x",))),
        column("town", kind="text", reading=Reading(missing=("x",))),
        column("age", reading=Reading(missing=("-999",))),
        column("age", reading=Reading(missing=(minus_9, unknown))),
        column("age", reading=Reading(dates="day-first")),
        column("age", reading=Reading(decimal=",", thousands=".")),
    ]
    forms = [_form(*(other if one.name == other.name else one for one in (AGE, TOWN))) for other in others]
    b, c = map(column, "bc")
    read_b, read_c = (column(name, reading=Reading(decimal=",")) for name in "bc")
    forms += [row_form(SCHEMA), _form(AGE), _form(AGE, TOWN, label="outcome"), _form(read_b, c), _form(b, read_c)]
    forms += [_form(shape=(1, 1, 2)), _form(shape=(1, 2, 1)), _form(read_b, read_c)]
    assert len(set(forms)) == len(forms)
    # but the order of columns and of words makes none
    turned = column("age", reading=Reading(missing=(unknown, minus_9)))
    assert [_form(TOWN, AGE), _form(TOWN, turned), _form(read_c, read_b)] == [row_form(SCHEMA), forms[4], forms[-1]]


class Strange:
    """A cell without a text."""

    def __str__(self):
        raise RuntimeError


def test_rows_with_bad_cells_are_told_apart_and_known_again_in_any_order_of_columns():
    """Else a file's budget would show whether any of its rows has a bad cell, and good rows would pay for it."""
    files = [_table(age=[bad, "3"]) for bad in ("<0.5", "<0.7")]
    assert len({*_hashes(files[0]), *_hashes(files[1])}) == 3
    assert _hashes(files[0]) == _hashes(files[0], schema_of(TOWN, AGE))
    assert _hashes(files[0])[0] != _hashes(files[0].assign(label="yes"))[0]
    numbers = usable_row_values(files[0], SCHEMA, digest="ab")[0]
    assert 0 <= numbers[0, 0] < 1


def test_rows_whose_cells_have_no_texts_are_rows_of_this_file_alone_and_cost_no_other_row_its_values():
    strange = _table(age=[Strange(), Strange()])
    assert len({*_hashes(strange), *_hashes(strange, digest="cd")}) == 4
    one, other = (_hashes(_table(age=["forty", cell])) for cell in ("old", Strange()))
    assert one[0] == other[0]
    assert one[1] != other[1]

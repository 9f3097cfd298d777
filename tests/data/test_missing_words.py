"""Words such as NA: which are read as empty, by one rule in every column, and where that is said or asked."""

from __future__ import annotations

import shlex

import numpy as np
import pandas as pd
import pytest

from fedkd_flwr.data.columns import MISSING, canonical, column_texts
from fedkd_flwr.data.datasets import load_pool
from fedkd_flwr.data.look import Rules, look
from fedkd_flwr.data.preprocessor import Preprocessor
from fedkd_flwr.data.reading import column_numbers
from fedkd_flwr.data.schema import Column, Schema
from fedkd_flwr.data.text import text_values
from fedkd_flwr.data.write_schema import look_at_file
from fedkd_flwr.errors import DataError


@pytest.mark.parametrize("word", sorted(MISSING))
def test_a_word_for_no_value_is_one_in_every_kind_of_column_and_no_class(word):
    """NA and nan were empty, None was a category, and #N/A a class."""
    assert canonical(f" {word} ") is None
    assert column_texts(["a", word]).tolist() == ["a", None]
    assert np.isnan(column_numbers(["1", word], "a")).tolist() == [False, True]
    assert text_values(["a b", word]).tolist() == ["a b", ""]
    with pytest.raises(DataError, match="mean a missing value"):
        Schema(columns=(Column(name="a", kind="numeric"),), classes=("a", word))


def _note(values, **rules):
    table = pd.DataFrame({"x": values, "y": ["ill", "well"] * (len(values) // 2)})
    found = look(table, label="y", rules=Rules(**rules))
    column = next((column for column in found.columns if column.name == "x"), None)
    return column, next(note.note for note in found.notes if note.name == "x")


def test_a_note_says_which_words_of_a_column_of_codes_were_read_as_empty():
    column, note = _note(["DE", "NA", "FR", "nan", "None", " NA"] * 10)
    assert column.categories == ("DE", "FR")
    assert note == "40 cells read as empty: 'NA' (20), 'nan' (10), 'None' (10); write it otherwise if it is a category"
    schema = Schema(columns=(column,), classes=("ill", "well"), label="y")
    features = (
        Preprocessor().fit(pd.DataFrame({"x": ["DE", "FR"]}), schema).transform(pd.DataFrame({"x": ["NA", "DE"]}))
    )
    assert features.tolist() == [[0, 0], [1, 0]]
    assert "read as empty" not in _note(["DE", "NA"] * 10, missing=("NA",))[1]  # the user says so himself
    assert "read as empty" not in _note(["DE", "", "?", "none"] * 10)[1]
    assert _note(["DE", "", "?", "none"] * 10)[0].categories == ("DE", "none")


def test_errors_of_a_spreadsheet_get_a_note_in_every_column_and_na_among_numbers_none():
    column, note = _note(["1.5", "#DIV/0!", "2", "#N/A", "3", "NA"] * 10)
    assert column.kind == "numeric"
    assert note == "20 cells read as empty: '#DIV/0!' (10), '#N/A' (10)"
    assert "'#REF!' (10)" in _note(["a", "b", "#REF!", "a"] * 10)[1]


@pytest.mark.parametrize("word", ["NA", "None", "nan", "NULL", "#N/A"])
def test_a_label_that_may_be_a_class_or_none_is_asked_about_with_the_next_command(word, tmp_path):
    """A class NA vanished ("one class"), a class None stayed."""
    path = tmp_path / "t.csv"
    columns = {"age": range(40), "country": ["NA", "DE"] * 20, "nodes": ["N1", "N2", word, ""] * 10}
    pd.DataFrame(columns).to_csv(path, index=False)
    with pytest.raises(DataError, match=rf"'nodes' must tell a class from a missing label, got 10 rows with '{word}'"):
        look_at_file(path, label="nodes")
    with pytest.raises(DataError, match="tell a class") as caught:
        load_pool("table", seed=1, table=str(path), label="nodes", command=("model=knn",))
    asked, answer = str(caught.value).split("\n")
    assert asked.endswith(f"If '{word}' is a class, write it otherwise in the file, such as no-value.")
    assert answer.endswith(f"label=nodes {shlex.quote(f'missing=nodes:{word}')} model=knn")
    pool = load_pool("table", seed=1, table=str(path), label="nodes", rules=Rules(missing=(f"nodes:{word}",)))
    assert any("'NA' (20)" in note.note for note in pool.columns if note.name == "country")
    assert pool.public.schema.classes == ("N1", "N2")
    assert look_at_file(path, label="nodes", rules=Rules(missing=(word,)))[1].classes == ("N1", "N2")


@pytest.mark.parametrize("labels", [["ill", "", "none", "well"], ["0", "?", "1", "0"], [1.0, np.nan, 0.0, 1.0]])
def test_an_empty_label_is_not_asked_about(labels):
    table = pd.DataFrame({"age": [str(i * i % 7) for i in range(40)], "y": labels * 10})
    assert "None" not in look(table, label="y").classes

"""What `fedkd check` finds in a private file's cells, and that the commands it prints do what they say."""

from __future__ import annotations

import shlex
import subprocess
import sys

import pandas as pd
import pytest

from fedkd_flwr.data.schema import Column, Schema
from fedkd_flwr.data.tables import read_table
from fedkd_flwr.silo.check import Level
from fedkd_flwr.silo.check_rows import check_classes, check_columns, check_values

SCHEMA = Schema(
    columns=(
        Column(name="age", kind="numeric"),
        Column(name="dose", kind="numeric"),
        Column(name="job", kind="categorical", categories=("cook", "None", "007")),
    ),
    classes=("no", "yes"),
    label="y",
)
ROWS = 20


def _table(**changed):
    columns = {
        "age": ["20.5"] * ROWS,
        "dose": ["1.5"] * ROWS,
        "job": ["cook", "None", "007", ""] * 5,
        "y": ["no"] * ROWS,
    }
    return pd.DataFrame({**columns, **changed})


def _written(table, folder, suffix):
    path = folder / f"own.{suffix}"
    if suffix == "csv":
        table.to_csv(path, index=False)
    else:
        pytest.importorskip("pyarrow")
        table.to_parquet(path)
    return path


def _run(way_out, folder):
    """Run the command that ends a way out, and return the table it writes."""
    words = shlex.split(way_out[way_out.index("python -c") :])
    before = set(folder.iterdir())
    subprocess.run([sys.executable, *words[1:]], cwd=folder, check=True)
    (path,) = set(folder.iterdir()) - before
    return read_table(path)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_the_command_for_rows_without_a_label_leaves_out_question_marks_and_changes_no_other_cell(tmp_path, suffix):
    table = _table(y=["?", None, "", "no"] + ["yes"] * (ROWS - 4))
    path = _written(table, tmp_path, suffix)
    found = next(check_classes(read_table(path), SCHEMA, str(path)))
    assert "3 of 20 rows" in found.what
    left = _run(found.way_out, tmp_path)
    assert left["y"].tolist() == ["no"] + ["yes"] * (ROWS - 4)
    assert left["job"].tolist() == read_table(path)["job"].tolist()[3:]  # 007, None


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_the_command_for_decimal_commas_turns_every_such_column_and_no_other_cell(tmp_path, suffix):
    table = _table(age=["20,5"] * ROWS, dose=["-1,5", "\u22121,5"] * (ROWS // 2), job=["a,b"] * ROWS)
    path = _written(table, tmp_path, suffix)
    found = [one for one in check_values(read_table(path), SCHEMA, str(path)) if one.level == Level.FAULT]
    assert [one.what.split()[1] for one in found] == ["'age'", "'dose'"]
    turned = _run(found[0].way_out, tmp_path)
    assert turned["age"].tolist() == ["20.5"] * ROWS
    assert turned["dose"].tolist() == ["-1.5", "\u22121.5"] * (ROWS // 2)
    assert turned["job"].tolist() == table["job"].tolist()


def test_rows_that_no_decimal_sign_mends_are_told_apart_because_they_are_left_when_the_others_are_turned():
    table = _table(age=["20,5"] * (ROWS - 1) + ["old"], dose=["1.5"] * (ROWS - 1) + ["inf"])
    age, dose = (one.what for one in check_values(table, SCHEMA, "own.csv"))
    assert age == (
        "column 'age' has decimal commas ('20,5') in 19 of 20 rows; the schema's numbers have decimal points"
        "; no number with either sign in 1 row: 'old'"
    )
    assert dose == "column 'dose': 1 of 20 rows (first: row 20) hold no number as the schema has it: 'inf'"


def test_a_list_of_classes_says_how_many_it_leaves_out():
    table = _table(y=[f"c{i:02}" for i in range(7)] + ["no"] * (ROWS - 7))
    found = next(check_classes(table, SCHEMA, "own.csv"))
    named = "; ".join(f"'c{i:02}' in 1 row" for i in range(5))
    assert found.what.endswith(f": {named}; 2 more")
    many = Schema(columns=SCHEMA.columns, classes=tuple(f"c{i:02}" for i in range(20)), label="y")
    (found,) = check_classes(_table(y=list(many.classes)), many, "own.csv")
    assert found.what.startswith("20 of 20 classes: c00 1, c01 1")
    assert found.what.endswith("c11 1, ... (20 in all)")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_the_command_for_other_names_changes_no_cell(tmp_path, suffix):
    path = _written(_table().rename(columns={"dose": "Dose"}), tmp_path, suffix)
    named = _run(check_columns(read_table(path), SCHEMA, str(path)).way_out, tmp_path)
    assert named.columns.tolist() == ["age", "dose", "job", "y"]
    assert named["job"].tolist() == _table()["job"].tolist()


def test_many_cells_of_no_category_are_a_warning_because_they_count_as_empty():
    (found,) = check_values(_table(job=["Cook"] * 10 + ["cook"] * 5 + [""] * 5), SCHEMA, "own.csv")
    assert found.level == Level.WARNING
    assert found.what == (
        "column 'job': 10 of 20 rows (first: row 1), 67 % of its cells that are not empty, hold a category that the "
        "schema does not name, and count as empty: 'Cook'"
    )
    assert "'cook', 'None', '007'" in found.way_out


def test_a_cell_of_no_category_among_many_is_said_and_no_warning():
    table = pd.concat([_table()] * 2).assign(job=["smith"] + ["cook"] * 39)
    (found,) = check_values(table, SCHEMA, "own.csv")
    assert (found.level, found.what.rpartition("; ")[2]) == (
        Level.READY,
        "cells of no category count as empty: 'job' 1",
    )
    (found,) = check_values(_table(), SCHEMA, "own.csv")
    assert found.what == "all cells are as the schema has them"

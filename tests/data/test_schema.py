from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from fedkd_flwr.data.schema import Column, Schema
from fedkd_flwr.errors import Code, DataError

A = Column(name="a", kind="numeric")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Schema(columns=(A,), classes=("yes",)), r"classes must name 2 to 32767 classes, got C = 1 \(yes\)"),
        (lambda: Schema(columns=(A,), classes=("1", "1.0")), "classes must have distinct names, got 1 more than once"),
        (lambda: Schema(columns=(A, A), classes=("0", "1")), "columns must have distinct names"),
        (lambda: Column(name="a", kind="date"), "kind of column 'a' must be one of numeric, categorical, text"),
    ],
)
def test_what_is_no_schema_is_refused(make, message):
    with pytest.raises(DataError, match=message):
        make()


@pytest.mark.parametrize("values", [[1, 0], [1.0, 0.0], ["1", " 0"], np.array(["1.0", "0"])])
def test_labels_match_classes_as_text_in_any_type(values):
    schema = Schema(columns=(), classes=("0", "1"), shape=(1,))
    labels = schema.encode_labels(values)
    assert labels.dtype == np.int16
    assert labels.tolist() == [1, 0]


def test_truth_values_are_not_the_digits():
    with pytest.raises(DataError, match="'False', 'True' as value"):
        Schema(columns=(), classes=("0", "1"), shape=(1,)).encode_labels([True, False])


def test_unknown_label_names_column_value_classes_and_way_out(schema):
    with pytest.raises(DataError, match=r"'income' .*<=50K, >50K.*'<=50k' as value.*schema\.toml") as caught:
        schema.encode_labels(["<=50k", ">50K"])
    assert caught.value.code is Code.CLASS_OUTSIDE_SCHEMA


def test_missing_label_names_column_and_row(schema):
    with pytest.raises(DataError, match=r"'income' must hold a label in every row, got 1 of 2 .*row 2") as caught:
        schema.encode_labels([">50K", "?"])
    assert caught.value.code is Code.WRONG_DATA


def test_toml_round_trip_keeps_quotes_control_characters_and_order(tmp_path):
    schema = Schema(
        columns=(
            Column(name='b "quoted"\\', kind="categorical", categories=("ä\x7f\n", "😀")),
            Column(name="a", kind="numeric"),
        ),
        classes=("z", "a"),
        label="y",
        id_column="id",
    )
    schema.write(tmp_path / "schema.toml")
    assert Schema.read(tmp_path / "schema.toml") == schema


def test_image_schema_round_trip_implies_pixel_columns(tmp_path):
    schema = Schema(columns=(), classes=("0", "1"), shape=(1, 2, 2))
    schema.write(tmp_path / "schema.toml")
    assert Schema.read(tmp_path / "schema.toml") == schema
    assert schema.column_names == ("pixel-0", "pixel-1", "pixel-2", "pixel-3")


def test_missing_schema_file_says_how_to_write_one(tmp_path):
    with pytest.raises(DataError, match=r"no file .*fedkd server schema PUBLIC_FILE") as caught:
        Schema.read(tmp_path / "schema.toml")
    assert caught.value.code is Code.MISSING_FILE


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("classes = [", "must be TOML"),
        ("version = 2\nclasses = ['a', 'b']", "version .* must be 1, got 2"),
        ("version = 1\nclases = ['a', 'b']", "keys .* got 'clases'"),
        ("version = 1\nlabel = 'y'", "must have classes"),
        ("version = 1\nclasses = ['a', 'b']\ncolumns = [{kind = 'numeric'}]", "name and kind per column"),
    ],
)
def test_damaged_schema_file_is_refused(tmp_path, text, message):
    (tmp_path / "schema.toml").write_text(text)
    with pytest.raises(DataError, match=message):
        Schema.read(tmp_path / "schema.toml")


def test_importing_the_room_imports_nothing_heavy():
    code = (
        "import sys, fedkd_flwr.data.datasets, fedkd_flwr.data.partitioning;"
        "print({'flwr', 'torch', 'flwr_datasets', 'datasets', 'sklearn', 'torchvision'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize(
    "text",
    [
        'shape = "abc"',
        "shape = [inf]",
        "shape = [0]",
        "shape = [100000, 100000]",
        "label = 5",
        "id-column = 5",
        'columns = [{name = 5, kind = "numeric"}]',
        'columns = [{name = "x", kind = "categorical", categories = "abc"}]',
        'columns = [{name = "x", kind = "numeric", unit = 3}]',
        "columns = 5",
        f"x = {'[' * 2000}{']' * 2000}",
    ],
)
def test_a_value_of_another_type_is_refused_in_our_words(text):
    with pytest.raises(DataError, match=r"schema\.toml|columns"):
        Schema.from_toml(f'version = 1\nclasses = ["a", "b"]\n{text}\n')

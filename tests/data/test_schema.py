from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from fedkd_flwr.data.columns import canonical, column_numbers, column_texts
from fedkd_flwr.data.schema import Column, Schema, infer_schema, main
from fedkd_flwr.errors import Code, DataError


def test_number_spellings_are_one_text_but_identifiers_keep_their_zeros():
    assert {canonical(v) for v in (1, 1.0, "1", "1.0", "+1", " 1.000 ", np.float32(1))} == {"1"}
    assert [canonical(v) for v in ("007", "1e3", "0.50", "-0", -0.0, True)] == ["007", "1e3", "0.5", "0", "0", "True"]


def test_missing_markers_are_none_whatever_the_type():
    values = ["", " ? ", "NA", None, float("nan"), pd.NA]
    assert column_texts(pd.Series(values, dtype=object)).tolist() == [None] * 6


def test_column_numbers_name_the_column_and_value_they_cannot_read():
    with pytest.raises(DataError, match=r"column 'age' must hold numbers .* got 'old'.*categorical"):
        column_numbers(["1", "old"], "age")


def test_column_numbers_refuse_what_only_python_calls_a_number():
    with pytest.raises(DataError, match="column 'age' must hold numbers"):
        column_numbers(["1", "1_000"], "age")


def test_column_numbers_refuse_a_decimal_comma():
    with pytest.raises(DataError, match=r"'1,5'.*decimal point"):
        column_numbers(["1,5"], "age")


@pytest.mark.parametrize("value", ["inf", "-Infinity", np.inf])
def test_column_numbers_refuse_infinity(value):
    with pytest.raises(DataError, match=r"column 'age' must hold finite numbers, got -?inf in row 1"):
        column_numbers(pd.Series([1, value], dtype=object), "age")


def test_text_numbers_are_parsed_to_the_nearest_double():
    text = "0.1234567890123456789"
    assert column_numbers([text], "x")[0] == float(text)


def test_one_class_is_refused_with_c_equal_1(schema):
    with pytest.raises(DataError, match=r"classes must name 2 to 32767 classes, got C = 1 \(yes\)"):
        Schema(columns=schema.columns, classes=("yes",))


def test_two_spellings_of_one_class_are_refused(schema):
    with pytest.raises(DataError, match=r"classes must be distinct, got 1 more than once"):
        Schema(columns=schema.columns, classes=("1", "1.0"))


def test_a_class_that_reads_as_missing_is_refused(schema):
    with pytest.raises(DataError, match="classes must not be texts that mean a missing value"):
        Schema(columns=schema.columns, classes=("NA", "EU"))


def test_repeated_column_is_refused():
    with pytest.raises(DataError, match="columns must be distinct"):
        Schema(columns=(Column(name="a", kind="numeric"),) * 2, classes=("0", "1"))


def test_unknown_column_kind_is_refused():
    with pytest.raises(DataError, match="kind of column 'a' must be 'numeric', 'categorical' or 'text'"):
        Column(name="a", kind="date")  # type: ignore[arg-type]


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
    with pytest.raises(DataError, match=r"'income' must hold a label in every row, got 1 of 2 .*row 1") as caught:
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
    with pytest.raises(DataError, match=r"no file .*python -m fedkd_flwr\.data\.schema") as caught:
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


def test_inference_tells_numbers_from_categories_and_leaves_out_label_and_id(people):
    table = people.assign(id=["a", "b", "c"], rank=["1", "?", "2.5"], flag=[True, False, True])
    schema = infer_schema(table, classes=("<=50K", ">50K"), label="income", id_column="id")
    assert {c.name: c.kind for c in schema.columns} == {
        "age": "numeric",
        "job": "categorical",
        "rank": "numeric",
        "flag": "categorical",
    }
    assert schema.columns[1].categories == ("cook", "smith")


def test_inference_takes_sorted_classes_from_a_labelled_public_file():
    table = pd.DataFrame({"x": [1, 2, 3], "label": [10, 9, 9]})
    assert infer_schema(table).classes == ("9", "10")


def test_inference_without_classes_or_label_column_is_refused(people):
    with pytest.raises(DataError, match=r"classes must be named, .*no label column 'target'.*--classes"):
        infer_schema(people, label="target")


def test_inference_suspects_an_identifier(people):
    table = pd.DataFrame({"name": [f"n{i}" for i in range(300)]})
    with pytest.raises(DataError, match=r"column 'name' .*300 different texts in 300 rows.*id column"):
        infer_schema(table, classes=("a", "b"))


def test_command_writes_a_schema_beside_the_public_file(people, tmp_path, capsys):
    people.drop(columns="income").to_csv(tmp_path / "public.csv", index=False)
    assert main([str(tmp_path / "public.csv"), "--classes", "<=50K, >50K", "--label", "income"]) == 0
    assert str(tmp_path / "schema.toml") in capsys.readouterr().out
    assert Schema.read(tmp_path / "schema.toml").classes == ("<=50K", ">50K")


def test_command_fails_with_a_message_and_no_traceback(tmp_path, capsys):
    assert main([str(tmp_path / "nothing.csv"), "--classes", "a,b"]) == 1
    assert "must exist" in capsys.readouterr().err


def test_command_runs_as_a_module_without_warnings():
    command = [sys.executable, "-W", "error::RuntimeWarning", "-m", "fedkd_flwr.data.schema", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "--id-column" in done.stdout


def test_importing_the_room_imports_nothing_heavy():
    code = (
        "import sys, fedkd_flwr.data.datasets, fedkd_flwr.data.partitioning;"
        "print({'flwr', 'torch', 'flwr_datasets', 'datasets', 'sklearn', 'torchvision'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"

from __future__ import annotations

import subprocess
import sys

import pandas as pd
import pytest

from fedkd_flwr.data.schema import Schema
from fedkd_flwr.data.write_schema import infer_schema, main
from fedkd_flwr.errors import DataError


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
    command = [sys.executable, "-W", "error::RuntimeWarning", "-m", "fedkd_flwr.data.write_schema", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "--id-column" in done.stdout

"""`fedkd predict` and `fedkd export`: what a user types, gets, and is told; the graph compared with its model."""

import io
import json
import stat
import sys

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from cli.saved_models import ROWS, SCHEMA, fedkd, home
from schemas import column
from sklearn.tree import DecisionTreeClassifier

from fedkd_flwr.data.public import make_public_set
from fedkd_flwr.data.reading import Reading
from fedkd_flwr.data.schema import Schema
from fedkd_flwr.errors import FedkdError, ModelBytesError
from fedkd_flwr.models import Classifier, serialize
from fedkd_flwr.stores.saved_model import load, save

__all__ = ["fedkd", "home"]


def _read(text):
    return pd.read_csv(io.StringIO(text), dtype={"number": str})


def test_raw_rows_get_class_names_and_probabilities_by_the_name_of_the_run_or_the_file(fedkd, home):
    said = fedkd("predict", "71", home / "rows.csv")
    assert said.exit_code == 0
    out = _read(said.stdout)
    assert list(out.columns) == ["number", "prediction", "probability_low", "probability_high"]
    assert out["number"].tolist() == ["007", "008", "009"]
    assert out["prediction"].tolist() == ["low", "high", "high"]
    table = pd.read_csv(home / "rows.csv", sep=";")
    assert load(home / "runs" / "71" / "model.fedkd").predict(table).tolist() == ["low", "high", "high"]
    assert out["probability_high"].tolist() == [0.0, 1.0, 1.0]
    assert said.stderr.splitlines() == [
        "note: not used: income, x",
        "note: column 'job': 1 of 3 rows hold a category that the model does not know and count as missing there: "
        "astronaut",
    ]
    for same in (home / "runs" / "71" / "model.fedkd", home / "runs" / "71", "71"):
        assert fedkd("predict", same, home / "rows.csv").stdout == said.stdout


def test_of_a_run_without_a_server_s_model_the_parties_answer_together_or_one_by_name(fedkd, home):
    rows = "age,job\n20,clerk\n30,clerk\n70,clerk\n"
    said = fedkd("predict", "72", "-", text=rows)
    assert _read(said.stdout)["probability_high"].tolist() == [0.0, 0.5, 1.0]
    assert said.stderr.splitlines() == [
        "note: the server has no model: the mean of the probabilities of 2 parties' models. --party NAME takes one."
    ]
    alone = {name: _read(fedkd("predict", "72", "-", "--party", name, text=rows).stdout) for name in ("a", "b")}
    assert {name: one["probability_high"].tolist() for name, one in alone.items()} == {"a": [0, 0, 1], "b": [0, 1, 1]}
    done = fedkd("export", "72", "--onnx", home / "model.onnx")
    with pytest.raises(FedkdError, match=r"run 72 must have left one model, got 2, of parties\. Name one with --party"):
        raise done.exception


@pytest.mark.parametrize(("threshold", "found"), [(0.4, ["low", "high", "high"]), (0.6, ["low", "low", "high"])])
def test_from_a_threshold_on_the_second_class_is_the_answer(fedkd, threshold, found):
    rows = "age,job\n20,clerk\n30,clerk\n70,clerk\n"
    said = fedkd("predict", "72", "-", "--threshold", threshold, text=rows)
    assert _read(said.stdout)["prediction"].tolist() == found


def test_rows_come_from_stdin_and_go_to_a_file_as_labels_only_or_json(fedkd, home, tmp_path):
    assert (
        fedkd("predict", "71", "-", "--labels-only", text=ROWS).stdout
        == "number,prediction\n007,low\n008,high\n009,high\n"
    )
    done = fedkd("predict", "71", home / "rows.csv", "--output", tmp_path / "out.csv", "--id-column", "age")
    assert (done.exit_code, done.stdout) == (0, "")
    assert _read((tmp_path / "out.csv").read_text())["age"].tolist() == [20, 60, 70]
    assert stat.S_IMODE((tmp_path / "out.csv").stat().st_mode) == 0o600
    rows = json.loads(fedkd("predict", "71", home / "rows.csv", "--json").stdout)
    assert rows[0] == {"number": "007", "prediction": "low", "probability_low": 1.0, "probability_high": 0.0}


def test_an_id_column_of_days_or_holes_is_written_as_json(fedkd, home, tmp_path):
    ids = {
        "day": [pd.Timestamp("2021-03-12"), pd.NaT, pd.Timestamp("2021-03-14 10:30")],
        "count": pd.array([1, None, 3], dtype="Int64"),
    }
    rows = {"day": ["2021-03-12T00:00:00", None, "2021-03-14T10:30:00"], "count": [1, None, 3]}
    pd.DataFrame({"age": [20, 60, 70], "job": "smith", **ids}).to_parquet(tmp_path / "rows.parquet")
    for name in ids:
        done = fedkd("predict", "71", tmp_path / "rows.parquet", "--id-column", name, "--json")
        assert [row[name] for row in json.loads(done.stdout)] == rows[name]


@pytest.mark.parametrize(
    ("model", "text", "options", "match"),
    [
        ("71", "job\nsmith\n", [], "a table without age"),
        ("71", "age,job\nold,smith\n", [], "column 'age' must hold numbers"),
        ("71", "age,job,income\n20,smith,middle\n", [], "must hold only the model's classes .low, high.* 'middle'"),
        ("71", "age,job\n20,smith\n", ["--id-column", "nr"], "--id-column must be a column of the rows, got 'nr'"),
        ("71", "age,job,prediction\n1,a,7\n", ["--id-column", "prediction"], "have another name than the answers"),
        ("72", ROWS, ["--party", "c"], "--party must be a party whose model run .*72 left, got 'c'. There: a, b."),
        ("75", "age\n20\n", ["--threshold", "0.3"], "--threshold must be given for two classes, got 3 classes"),
        ("73", ROWS, [], "must have left a model, got 'none'. The server has one after fedkt"),
        ("74", ROWS, [], "run must be the id, the start of an id"),
        ("there/is/none.fedkd", ROWS, [], "model must be a file, got no file"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(fedkd, model, text, options, match):
    done = fedkd("predict", model, "-", *options, text=text)
    assert isinstance(done.exception, FedkdError)
    assert done.stdout == ""
    with pytest.raises(FedkdError, match=match):
        raise done.exception


@pytest.mark.parametrize("words", [("predict", "71", "rows.csv"), ("export", "71", "--onnx", "model.onnx")])
def test_a_users_own_type_is_found_in_the_current_folder_as_it_was_for_the_simulation(fedkd, home, monkeypatch, words):
    monkeypatch.chdir(home)
    monkeypatch.setattr(sys, "path", [one for one in sys.path if one not in ("", str(home))])
    assert fedkd(*words).exit_code == 0
    assert sys.path[-1] == str(home)


@pytest.mark.parametrize("words", [("predict", "71", "rows.csv"), ("export", "71", "--onnx", "model.onnx")])
def test_another_users_tree_is_read_with_trust_only(fedkd, home, monkeypatch, words):
    monkeypatch.chdir(home)
    monkeypatch.setattr(serialize, "SECRET", home / "another user's")
    done = fedkd(*words)
    assert done.stdout == ""
    assert isinstance(done.exception, ModelBytesError)
    assert "compiled code reads memory at places that the file names" in str(done.exception)
    assert fedkd(*words, "--trust").exit_code == 0


# ------------------------------------------------------------------------------------------------ class shares


@pytest.fixture(scope="module")
def overlapping(home):
    """Return the file of a model that is unsure: taught with even shares, by an owner with few rows of high income."""
    public = make_public_set(pd.DataFrame({"age": [20, 30, 60, 70], "job": [None] * 4}), SCHEMA)
    model = Classifier(DecisionTreeClassifier(max_depth=1), num_classes=2).fit(public.X, np.array([0, 1, 1, 0]))
    model.shares = {"taught": np.array([0.5, 0.5]), "own": np.array([0.99, 0.01])}
    return save(model, public, home / "unsure.model")


def test_a_partys_model_answers_for_its_owner_unless_other_class_shares_are_named(fedkd, overlapping):
    def said(*options):
        return _read(fedkd("predict", overlapping, "-", *options, text="age,job\n60,smith\n").stdout).iloc[0]

    taught = said("--class-shares", "taught")["probability_high"]
    assert 0.1 < taught < 0.9
    assert said()["probability_high"] < 0.05
    assert said("--class-shares", "own").equals(said())
    assert said("--class-shares", "low=1,high=1")["probability_high"] == pytest.approx(taught)
    assert said("--class-shares", "low=1,high=99")["prediction"] == "high"


@pytest.mark.parametrize(
    ("shares", "match"),
    [
        ("low=1,high=x", "--class-shares must be own, common, taught, or a number above 0 for each class"),
        ("low=1,low=2", "--class-shares must be own, common, taught"),
        ("low=-1,high=2", "--class-shares must be own, common, taught"),
        ("low=1", "class shares must name each class once: low, high, got 'low'"),
        ("common", "class shares must be one of taught, own, or a share a class, got 'common'"),
    ],
)
def test_class_shares_that_are_none_are_refused(fedkd, overlapping, shares, match):
    done = fedkd("predict", overlapping, "-", "--class-shares", shares, text="age,job\n60,smith\n")
    assert done.exit_code != 0
    assert match in str(done.exception)


def test_a_model_is_exported_and_compared_on_own_rows(fedkd, home, tmp_path):
    done = fedkd("export", "71", "--onnx", tmp_path / "m.onnx", "--check", home / "rows.csv")
    assert done.exit_code == 0, done.exception
    assert "Compared on 3 rows: the same labels" in done.stdout
    said = json.loads(fedkd("export", "71", "--onnx", tmp_path / "m.onnx", "--json").stdout)
    assert said["bytes"] == (tmp_path / "m.onnx").stat().st_size
    assert (said["rows"], said["labels"]) == (256, 0)
    assert said["expects"] == {}  # the schema says of no column how its cells are read
    assert "The graph takes numbers" not in done.stdout


def test_an_export_says_what_the_graph_expects_where_raw_cells_are_no_numbers(fedkd, tmp_path):
    """Before, it said "the same labels", and the documented lines failed on the same file."""
    columns = (column("day", reading=Reading(dates="day-first")), column("crp", reading=Reading(ranges=True)))
    rows = pd.DataFrame({"day": ["02.01.1970", "05.01.1970"] * 4, "crp": ["<0.5", "7", "2", "9"] * 2})
    public = make_public_set(rows, Schema(columns=columns, classes=("low", "high")))
    model = Classifier(DecisionTreeClassifier(), num_classes=2).fit(public.X, np.array([0, 1] * 4))
    save(model, public, tmp_path / "m.fedkd")
    rows.to_csv(tmp_path / "rows.csv", index=False)
    words = ("export", tmp_path / "m.fedkd", "--onnx", tmp_path / "m.onnx", "--check", tmp_path / "rows.csv")
    said = " ".join(fedkd(*words).stdout.split())
    assert "the schema says: day: dates='day-first'; crp: ranges=True." in said
    assert json.loads(fedkd(*words, "--json").stdout)["expects"]["crp"] == "ranges=True"
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    days = (pd.to_datetime(rows["day"], dayfirst=True) - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1)
    numbers = {"day": days, "crp": pd.to_numeric(rows["crp"].str.lstrip("<"))}  # as docs/howto/export.md says
    labels, _ = session.run(None, {name: one.to_numpy(np.float64)[:, None] for name, one in numbers.items()})
    assert labels.tolist() == ["low", "high"] * 4

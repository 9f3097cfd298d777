"""`fedkd export`: the graph, compared with its model, and what it expects of raw cells."""

import json

import numpy as np
import onnxruntime
import pandas as pd
from cli.saved_models import fedkd, home
from sklearn.tree import DecisionTreeClassifier

from fedkd_flwr.data.public import make_public_set
from fedkd_flwr.data.reading import Reading
from fedkd_flwr.data.schema import Column, Schema
from fedkd_flwr.models import Classifier
from fedkd_flwr.stores.saved_model import save

__all__ = ["fedkd", "home"]


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
    columns = (
        Column(name="day", kind="numeric", reading=Reading(dates="day-first")),
        Column(name="crp", kind="numeric", reading=Reading(limits="number")),
    )
    rows = pd.DataFrame({"day": ["02.01.1970", "05.01.1970"] * 4, "crp": ["<0.5", "7", "2", "9"] * 2})
    public = make_public_set(rows, Schema(columns=columns, classes=("low", "high")))
    model = Classifier(DecisionTreeClassifier(), num_classes=2).fit(public.X, np.array([0, 1] * 4))
    save(model, public, tmp_path / "m.fedkd")
    rows.to_csv(tmp_path / "rows.csv", index=False)
    words = ("export", tmp_path / "m.fedkd", "--onnx", tmp_path / "m.onnx", "--check", tmp_path / "rows.csv")
    said = " ".join(fedkd(*words).stdout.split())
    assert "the schema says: day: dates (12.03.2021), the day first, as days since 1970-01-01; crp: a limit" in said
    assert json.loads(fedkd(*words, "--json").stdout)["expects"]["crp"] == "a limit such as <0.5 is its number"
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    days = (pd.to_datetime(rows["day"], dayfirst=True) - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1)
    numbers = {"day": days, "crp": pd.to_numeric(rows["crp"].str.lstrip("<"))}  # as docs/howto/export.md says
    labels, _ = session.run(None, {name: one.to_numpy(np.float64)[:, None] for name, one in numbers.items()})
    assert labels.tolist() == ["low", "high"] * 4

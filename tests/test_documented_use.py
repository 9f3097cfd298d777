"""Every block of docs/howto/predict.md and export.md is run, in its order, in a folder with a run's results."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from fedkd_flwr.cli import main as command
from fedkd_flwr.data.public import make_public_set
from fedkd_flwr.data.schema import Column, Schema
from fedkd_flwr.models import make_model
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.stores.saved_model import save

PAGES = [Path(__file__).parents[1] / "docs" / "howto" / name for name in ("predict.md", "export.md")]
BLOCKS = [
    block for page in PAGES for block in re.findall(r"```(bash|python)\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
]


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Be in a folder of results with one run, whose server has a model of patients."""
    columns = (
        Column(name="age", kind="numeric"),
        Column(name="ward", kind="categorical", categories=("north", "west")),
    )
    schema = Schema(columns=columns, classes=("ill", "well"))
    rows = pd.DataFrame({"patient": range(8), "ward": ["west", "north"] * 4, "age": [20, 30, 40, 50, 60, 70, 80, 90]})
    public = make_public_set(rows, schema)
    model = make_model("decision-tree", num_classes=2, num_features=3, seed=0).fit(public.X, np.arange(8) // 4)
    save(model, public, tmp_path / "runs" / "1" / "model.fedkd")
    record = RunRecord(run_id="1", algorithm="fedkt", started="2026-01-31T09:30:00+00:00")
    (tmp_path / "runs" / "1" / "record.json").write_text(record.to_json())
    rows.to_csv(tmp_path / "rows.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _typed(line):
    """Run one line of a shell as far as these pages use it: a pipe from a file, and output into a file."""
    line, _, target = line.partition(" > ")
    source, pipe, line = line.rpartition(" | ")
    text = Path(shlex.split(source)[1]).read_text() if pipe else None
    name, *arguments = shlex.split(line)
    assert name == "fedkd"
    done = CliRunner().invoke(command.group(), [*arguments, "--output-dir", "."], input=text)
    assert done.exit_code == 0, (line, done.exception)
    if target:
        Path(target).write_text(done.stdout)
    return done.stdout


def test_every_block_runs(results, capsys):
    assert [kind for kind, _ in BLOCKS] == ["bash", "bash", "python", "bash", "python"]
    for kind, text in BLOCKS:
        if kind == "bash":
            said = [_typed(line) for line in text.strip().splitlines()]
            assert all(said) or "--output" in text
        else:
            exec(compile(text, "docs/howto", "exec"), {})
            assert "'ill'" in capsys.readouterr().out
    out = pd.read_csv("out.csv")
    assert out["prediction"].tolist() == ["ill"] * 4 + ["well"] * 4
    assert {"probability_ill", "probability_well"} <= set(out.columns)

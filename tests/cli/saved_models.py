"""A folder of runs with saved models, and the command beside it, for `predict` and `export`."""

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from sklearn.tree import DecisionTreeClassifier

from fedkd_flwr.cli import main as command
from fedkd_flwr.data.public import make_public_set
from fedkd_flwr.data.schema import Column, Schema
from fedkd_flwr.models import Classifier
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.stores.saved_model import save

SCHEMA = Schema(
    columns=(Column(name="age", kind="numeric"), Column(name="job", kind="categorical", categories=("clerk", "smith"))),
    classes=("low", "high"),
    label="income",
    id_column="number",
)


ROWS = 'income;x;job;age;number\nlow;;smith;"20";007\nhigh;;astronaut;60;008\n;;"";70;009\n'


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    """Return a folder of results: run 71 with a server's model, 72 with those of two parties, 75 of three classes."""
    home = tmp_path_factory.mktemp("home")
    public = make_public_set(pd.DataFrame({"age": [20, 30, 60, 70], "job": ["clerk", "smith", "smith", None]}), SCHEMA)
    model = Classifier(DecisionTreeClassifier(), num_classes=2).fit(public.X, np.array([0, 0, 1, 1]))
    other = Classifier(DecisionTreeClassifier(), num_classes=2).fit(
        public.X[:, :1] * [[1, 0, 0]], np.array([0, 1, 1, 1])
    )
    three = make_public_set(
        pd.DataFrame({"age": [20, 30]}), Schema(columns=SCHEMA.columns[:1], classes=("a", "b", "c"))
    )
    save(
        Classifier(DecisionTreeClassifier(), num_classes=3).fit(three.X, np.array([0, 1])),
        three,
        home / "runs/75/model.fedkd",
    )
    parties = {"parties/a.model": model, "parties/a.alone.model": model, "parties/b.model": other}
    for run, models in (("71", {"model.fedkd": model}), ("72", parties), ("73", {}), ("75", {})):
        for name, one in models.items():
            save(one, public, home / "runs" / run / name)
        record = RunRecord(run_id=run, algorithm="fedkt", started="2026-01-31T09:30:00+00:00", status="completed")
        (home / "runs" / run).mkdir(exist_ok=True)
        (home / "runs" / run / "record.json").write_text(record.to_json())
    (home / "rows.csv").write_text("\ufeff" + ROWS, encoding="utf-8")
    return home


@pytest.fixture
def fedkd(home):
    def call(*arguments, text=None):
        return CliRunner().invoke(command.group(), [*map(str, arguments), "--output-dir", str(home)], input=text)

    return call

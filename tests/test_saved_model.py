"""A model's file answers for raw rows as the model did in its run: after every algorithm, server's and parties'."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from flwr.app import Context, RecordDict
from grid import InProcessGrid

from fedkd_flwr.algorithms import cards
from fedkd_flwr.apps import server_app
from fedkd_flwr.apps.client_app import app as client_app
from fedkd_flwr.clients.base import PartyClient
from fedkd_flwr.data.schema import Column, Schema
from fedkd_flwr.data.tables import read_table
from fedkd_flwr.saved_model import load

NET = {"model": "mlp", "model-params": '{"hidden": [8], "epochs": 1}'}
ROUNDS = {"num-rounds": 2, "steps-per-round": 2}
SCORES = {**NET, "num-rounds": 1, "initial-epochs": 1, "digest-epochs": 1, "revisit-epochs": 1}
SETTINGS = {
    "fedct": {"model": "mixed:decision-tree,knn,logistic-regression", **ROUNDS},
    "fedkt": {"model": "decision-tree", "num-rounds": 1, "fedkt.teachers-per-student": 2},
    "pate": {"model": "decision-tree", "num-rounds": 1},
    "privatekt": {**NET, "num-rounds": 2, "privatekt.buffer-steps": 1},
    "fedmd": SCORES,
    "dd": {**NET, "num-rounds": 1, "steps-per-round": 2},
    "dsfl": SCORES,
    "scarlet": SCORES,
    "fedprox": {**NET, "num-rounds": 1, "local-epochs": 1},
    "fedkt-prox": {**NET, "num-rounds": 2, "local-epochs": 1, "fedkt.teachers-per-student": 2},
}
SERVER_HAS_ONE = {"fedkt", "pate", "privatekt", "fedprox", "fedkt-prox"}


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Return a CSV file of people with numbers, texts, holes, an unknown category and an id."""
    rng = np.random.default_rng(0)
    rich = rng.integers(0, 2, 160)
    table = pd.DataFrame(
        {
            "id": [f"p{i:03d}" for i in range(160)],
            "age": np.round(30 + 20 * rich + rng.normal(0, 5, 160), 2),
            "job": np.where(rich, "manager", rng.choice(["clerk", "farmer"], 160)),
            "income": np.where(rich, "high", "low"),
        }
    )
    table["age"] = table["age"].astype(object)
    table.loc[::17, "age"] = ""
    path = tmp_path_factory.mktemp("rows") / "people.csv"
    table.to_csv(path, index=False)
    schema = Schema(
        columns=(
            Column(name="age", kind="numeric"),
            Column(name="job", kind="categorical", categories=("clerk", "manager")),
        ),
        classes=("low", "high"),
        label="income",
        id_column="id",
    )
    schema.write(path.with_name("schema.toml"))
    return path


@pytest.fixture(autouse=True)
def _no_pages(monkeypatch):
    monkeypatch.setattr("fedkd_flwr.report.page.write_page", lambda record, path: path)


def _run(folder, rows, algorithm, monkeypatch):
    """Run an algorithm; return each file that it left, with the model and the public set as they were in the run."""
    kept, keep_server, keep_party = {}, server_app._keep_model, PartyClient._keep

    def server(model, public, record, path):
        keep_server(model, public, record, path)
        kept[path] = (model, public)

    def party(self, finished):
        files = keep_party(self, finished)
        for kind, path in files.items():
            alone = finished.alone if finished.alone is not None else finished.model
            kept[path] = (finished.model if kind == "federated" else alone, self.party.public)
        return files

    monkeypatch.setattr(server_app, "_keep_model", server)
    monkeypatch.setattr(PartyClient, "_keep", party)
    config = {
        "algorithm": algorithm,
        "dataset": "table",
        "table": str(rows),
        "label": "income",
        "schema-path": str(rows.with_name("schema.toml")),
        "partitioner": "iid",
        "centralised": False,
        "save-party-models": True,
        "output-dir": str(folder),
        "num-parties": 3,
        **SETTINGS[algorithm],
    }
    nodes = [{"partition-id": i, "num-partitions": 3} for i in range(3)]
    server_app.app(InProcessGrid(client_app, nodes, config), Context(1, 1, {}, RecordDict(), config))
    return kept


def test_every_algorithm_is_tested_here():
    assert set(SETTINGS) == set(cards())


@pytest.mark.parametrize("algorithm", SETTINGS)
def test_after_each_algorithm_each_file_answers_for_raw_rows_as_its_model_did_in_the_run(
    algorithm, rows, tmp_path, monkeypatch
):
    kept = _run(tmp_path, rows, algorithm, monkeypatch)
    folder = tmp_path / "runs" / "1"
    assert sorted(kept) == sorted([*folder.glob("*.fedkd"), *folder.glob("parties/*.model")])
    assert (folder / "model.fedkd" in kept) == (algorithm in SERVER_HAS_ONE)
    table = read_table(rows)
    shuffled = table[table.columns[::-1]].assign(further=1)
    for path, (model, public) in kept.items():
        X = public.features(table)
        loaded = load(path)
        assert np.array_equal(loaded.features(shuffled), X)
        labels = np.array(["low", "high"])[model.predict(X)]
        assert loaded.predict(shuffled).tolist() == labels.tolist()
        assert np.array_equal(loaded.predict_proba(shuffled), model.predict_proba(X))

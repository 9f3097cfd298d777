"""PrivateKT through the real apps: a simulation, another that continues it, and what is refused first."""

from __future__ import annotations

import pytest
from flwr.app import Context, RecordDict
from grid import InProcessGrid

from fedkd_flwr.algorithms.privatekt import PrivateKTConfig
from fedkd_flwr.app.client_app import app as client_app
from fedkd_flwr.app.server_app import app as server_app
from fedkd_flwr.errors import ConfigError, DataError
from fedkd_flwr.models import serialize
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.settings.config import parse_run_config

torch = pytest.importorskip("torch")

PRIVATEKT = {
    "algorithm": "privatekt",
    "dataset": "synthetic(rows=200, features=4, classes=3)",
    "partitioner": "iid",
    "model": "mlp(hidden=[8], optimizer='sgd', lr=0.1, batch_size=16, epochs=2)",
    "num-rounds": 3,
    "num-parties": 4,
    "fraction-parties": 0.5,
    "paper.solo-epochs": 1,
    "node-deadline-s": 1.0,
    "nodes-stable-s": 0.001,
}


@pytest.fixture(autouse=True)
def one_thread():
    """Keep nets of this size from waiting for each other's threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def _run(folder, run_id=1, **changes):
    keys = PrivateKTConfig.keys()
    named = {keys.get(k, k.replace("_", "-")): value for k, value in changes.items()}
    config = {**PRIVATEKT, "output-dir": str(folder), **named}
    nodes = [{"partition-id": i, "num-partitions": 4} for i in range(4)]
    grid = InProcessGrid(client_app, nodes, config, run_id=run_id)
    server_app(grid, Context(run_id, 1, {}, RecordDict(), config))
    return RunRecord.load(folder / "runs" / str(run_id) / "record.json")


def test_a_simulation_leaves_a_model_a_curve_a_claim_and_a_checkpoint(tmp_path):
    record = _run(tmp_path)
    assert record.status == "completed"
    assert [r.asked for r in record.rounds] == [2, 2, 2]
    assert all(r.server_accuracy is not None for r in record.rounds)
    assert record.rounds[-1].server_accuracy == record.server_accuracy
    assert serialize.load(record.server_model).num_classes == 3
    assert record.centralised_accuracy > 0.5  # a third is guessing
    assert [p.name for p in record.parties if p.solo and p.federated] == [f"party-{i:03d}" for i in range(4)]
    assert record.notes == []
    assert record.claims[0]["unit"] == "party"
    assert sorted(p.name for p in (tmp_path / "runs" / "1" / "checkpoint").iterdir()) == [
        "checkpoint.npz",
        "lineage.json",
        "participations.json",
    ]
    publishable = record.publishable()
    assert all(r.server_accuracy is None for r in publishable.rounds)


def test_a_simulation_continues_another_under_a_new_run_id(tmp_path):
    settings = {"round_epsilon": 300.0, "centralised": False}
    whole = _run(tmp_path, 1, num_rounds=4, **settings)
    _run(tmp_path, 2, num_rounds=2, **settings)
    rest = _run(tmp_path, 3, num_rounds=4, resume_from=str(tmp_path / "runs" / "2" / "checkpoint"), **settings)
    assert [r.server_accuracy for r in rest.rounds] == [r.server_accuracy for r in whole.rounds]
    assert rest.claims == whole.claims
    assert rest.run_id == "3"


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        (
            {"model": "mixed:mlp,decision-tree"},
            ConfigError,
            "model must be the same at all parties for privatekt",
        ),
        ({"model": "decision-tree"}, ConfigError, "model must be a torch net"),
        ({"transfer_rows": 51}, ConfigError, r"paper.transfer-rows must be at most 50 \(public rows\), got 51"),
        ({"participation": "once"}, ConfigError, r"num-rounds must be at most 2 with participation once \(2 of 4"),
        ({"resume_from": "/nowhere"}, DataError, "run must be the id, the start of an id, the name or the path"),
    ],
)
def test_what_cannot_work_is_refused_before_any_party_trains(tmp_path, changes, error, message):
    with pytest.raises(error, match=message):
        _run(tmp_path, **changes)
    assert RunRecord.load(tmp_path / "runs" / "1" / "record.json").status == "failed"


def test_a_continued_run_must_keep_its_model_and_data(tmp_path):
    _run(tmp_path, 1, num_rounds=2, centralised=False)
    with pytest.raises(ConfigError, match=r"model must be .*as in the run to continue"):
        _run(tmp_path, 2, resume_from=str(tmp_path / "runs" / "1" / "checkpoint"), model="mlp(hidden=[8])")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"privatekt.round-epsilon": 0.0}, "privatekt.round-epsilon must be a number > 0, got 0.0"),
        ({"paper.buffer-rounds": 0}, "paper.buffer-rounds must be a whole number >= 1, got 0"),
        ({"fraction-parties": 0.0}, "fraction-parties must be a number > 0 and <= 1, got 0.0"),
        ({"epsilon": 5.0}, "epsilon must not be set for privatekt, got 5.0. It would be ignored"),
        (
            {"algorithm": "fedct", "privatekt.participation": "once"},
            "privatekt.participation must not be set for fedct, got 'once'",
        ),
    ],
)
def test_a_setting_that_promises_nothing_is_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        parse_run_config({"algorithm": "privatekt", **settings})

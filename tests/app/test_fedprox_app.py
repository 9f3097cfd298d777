"""FedProx and FedKT-Prox through the apps: settings in, record and model out; what a silo allows."""

from __future__ import annotations

import pytest
from flwr.app import Context, RecordDict
from grid import InProcessGrid

from fedkd_flwr.app.client_app import app as client_app
from fedkd_flwr.app.server_app import app as server_app
from fedkd_flwr.errors import ConfigError
from fedkd_flwr.models import serialize
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.settings.config import parse_node_config, parse_run_config

pytest.importorskip("torch")

FAST = {
    "dataset": "synthetic(rows=300, features=4)",
    "partitioner": "iid",
    "model": "mlp(hidden=[8], batch_size=16, epochs=2, lr=0.01)",
    "num-parties": 3,
    "num-rounds": 2,
    "local-epochs": 1,
    "nodes-stable-s": 0.01,
}
TREES = {"teacher-model": "decision-tree", "student-model": "decision-tree", "fedkt.teachers-per-student": 2}


def _run(tmp_path, algorithm, nodes=None, **settings):
    config = {**FAST, "algorithm": algorithm, "output-dir": str(tmp_path), **settings}
    nodes = nodes or [{"partition-id": i, "num-partitions": 3} for i in range(3)]
    server_app(InProcessGrid(client_app, nodes, config), Context(1, 1, {}, RecordDict(), config))
    return RunRecord.load(tmp_path / "runs" / "1" / "record.json")


@pytest.mark.parametrize(("algorithm", "settings", "rounds"), [("fedprox", {}, 2), ("fedkt-prox", TREES, 3)])
def test_a_simulation_leaves_a_curve_a_model_and_what_to_compare_with(tmp_path, algorithm, settings, rounds):
    record = _run(tmp_path, algorithm, **settings)
    assert (record.status, record.algorithm) == ("completed", algorithm)
    assert [len(r.answered) for r in record.rounds] == [3] * rounds
    assert all(r.server_accuracy is not None for r in record.rounds)
    assert serialize.load(record.server_model).predict([[0.0] * 4]).shape == (1,)
    assert record.centralised_accuracy > 0.6  # a third is guessing
    assert {"solo-common", "federated-common"} <= set(record.mean_accuracies())
    assert (tmp_path / "runs" / "1" / "report.html").is_file()


def test_a_party_that_requires_privacy_is_named_and_the_run_goes_on(tmp_path):
    nodes = [{"partition-id": i, "num-partitions": 3} for i in range(3)]
    nodes[1]["require-privacy"] = True
    record = _run(tmp_path, "fedprox", nodes)
    assert [(r.party, r.code) for r in record.rounds[0].rejected] == [("party-001", "privacy-required")]
    assert record.status == "completed"


def test_a_party_that_cannot_be_set_up_is_named_in_flower_s_records_too(tmp_path):
    nodes = [{"partition-id": i, "num-partitions": 3} for i in range(3)]
    nodes[2]["model"] = "no-such-model"
    record = _run(tmp_path, "fedprox", nodes)
    assert [(r.party, r.code) for r in record.rounds[0].rejected] == [("party-002", "wrong-config")]


def test_no_node_allows_weights_by_default():
    allowed = parse_node_config({"data-path": "a.csv", "public-path": "b.csv", "party": "p"}).allow_algorithms.split(
        ","
    )
    assert not {"fedprox", "fedkt-prox"} & set(allowed)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": "mixed"}, "model must be the same at all parties for fedprox, got 'mixed'"),
        ({"model": "decision-tree"}, "model must be a torch net"),
        ({"final-model": "mlp"}, "final-model must not be set for fedprox, got 'mlp'. .* use fedkt or pate"),
    ],
)
def test_models_that_cannot_be_averaged_are_refused(tmp_path, settings, message):
    with pytest.raises(ConfigError, match=message):
        _run(tmp_path, "fedprox", **settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"fedprox.proximal-mu": -1.0}, "fedprox.proximal-mu must be a number >= 0, got -1.0"),
        ({"fedprox.proximal-mu": float("nan")}, "fedprox.proximal-mu must be a number >= 0, got nan"),
        ({"fedkt.level": "L1", "noise": "laplace", "paper.gamma": 0.1}, "fedkt.level must be L0: .* got 'L1'"),
        ({"noise": "gaussian", "paper.sigma": 1.0}, "noise must be none: .* got 'gaussian'"),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        parse_run_config({"algorithm": "fedkt-prox", **settings})


def test_num_rounds_counts_fedprox_s_rounds_and_has_a_default():
    assert parse_run_config({"algorithm": "fedkt-prox"}).rounds == 10
    assert parse_run_config({"algorithm": "fedprox", "num-rounds": 3}).rounds == 3

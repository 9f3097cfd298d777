"""A run that is lost in the middle of each of its rounds, and at its end, ends as if nothing had happened."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from federation import parties, public_set, rows
from flwr.app import Context, RecordDict
from grid import InProcessGrid
from threadpoolctl import threadpool_limits

from fedkd_flwr.apps.client_app import app as client_app
from fedkd_flwr.apps.server_app import federate
from fedkd_flwr.errors import ConfigError, DataError
from fedkd_flwr.run_record import RunRecord
from fedkd_flwr.models import serialize
from fedkd_flwr.stores.checkpoints import Lineage, load_checkpoint

pytest.importorskip("torch")

COMMON = {
    "dataset": "synthetic",
    "synthetic-rows": 150,
    "synthetic-features": 4,
    "synthetic-classes": 3,
    "num-public": 30,
    "num-test": 30,
    "partitioner": "iid",
    "num-parties": 3,
    "num-rounds": 3,
    "centralised": False,
    "node-deadline-s": 1.0,
    "node-settle-s": 0.001,
}
NET = {"model": "mlp", "model-params": '{"hidden": [4], "batch_size": 16, "epochs": 1}'}
ON = {"fedct.stop-when-converged": False}
RUNS = {
    "fedct": {**NET, "steps-per-round": 3, **ON},
    "dp-fedct": {"algorithm": "fedct", "model": "decision-tree", "label-mechanism": "randomized-response", "label-epsilon": 40.0},
    "fedct-ratios": {"algorithm": "fedct", "model": "decision-tree", "fedct.consensus": "auto", **ON},
    "fedmd": {**NET, "delta-coding": True, "share": "softmax", "soft-bits": 8},
    "dd": NET,
    "dsfl": NET,
    "scarlet": {**NET, "scarlet.cache-rounds": 2},
    "fedprox": {**NET, "fraction-parties": 0.6},
    "privatekt": {**NET, "privatekt.round-epsilon": 300.0, "fraction-parties": 0.6},
    "fedkt-prox": {**NET, "num-rounds": 2},
    "fedkt": {"model": "decision-tree", "final-model": "decision-tree", "num-rounds": 1},
}


@pytest.fixture(autouse=True)
def _one_thread():
    with threadpool_limits(1):
        yield


def start(folder, run_id, *, lost_in="", **changes):
    """Run a federation; ``lost_in``: the round (or ``final``) whose second reply never reaches the server's code."""
    config = {**COMMON, "output-dir": str(folder), **changes}
    asked = 0

    def handle(message, context):
        nonlocal asked
        reply = client_app(message, context)
        if message.metadata.message_type != "query":
            config = next(iter(message.content.config_records.values()))
            stage = "final" if message.metadata.message_type == "evaluate" else str(config["server-round"])
            asked += stage == lost_in
            if asked == 2:
                raise KeyboardInterrupt
        return reply

    nodes = [{"partition-id": i, "num-partitions": 3} for i in range(3)]
    grid = InProcessGrid(handle, nodes, config, run_id=run_id)
    try:
        federate(grid, Context(run_id, 1, {}, RecordDict(), config), page=False)
    except KeyboardInterrupt:
        assert lost_in
    return RunRecord.load(folder / "runs" / str(run_id) / "record.json")


def told(record):
    """Return what a record says of the result: all but times, sizes, names of runs and files."""
    data = record.as_dict()
    for key in ("run_id", "started", "last_word", "process", "startup_seconds", "seconds", "server_model", "versions"):
        del data[key]
    data["config"] = {k: v for k, v in data["config"].items() if k not in ("resume-from", "output-dir")}
    data["changed"] = [key for key in data["changed"] if key not in ("resume-from", "output-dir")]
    data["notes"] = [note for note in data["notes"] if "continues run" not in note]
    for one in data["rounds"]:
        for key in ("asked_at", "seconds", "bytes_up", "bytes_down"):
            del one[key]
    for one in data["parties"]:
        del one["model_bytes"]  # skops varies by a few bytes
    del data["final_bytes_down"]
    return json.loads(json.dumps(data))


def charges(folder, run_id):
    return [
        (path.parent.name, entry["run_id"], entry["server_round"])
        for path in sorted((folder / "runs" / run_id / "ledgers").glob("*/ledger.json"))
        for entry in json.loads(path.read_text())["entries"]
    ]


@pytest.mark.parametrize("name", RUNS)
def test_a_run_lost_in_each_round_ends_as_the_unbroken_one(tmp_path, name):
    settings = {"algorithm": name.removesuffix("-ratios"), **RUNS[name]}
    whole = start(tmp_path / "whole", 1, **settings)
    assert whole.status == "completed", whole.reason
    noisy = name in ("dp-fedct", "privatekt")

    folder, places = tmp_path / "lost", ["1", "2", "3", "final"]
    if name == "fedkt":
        places = ["1", "final"]
    resumed = {}
    for number, place in enumerate(places, start=1):
        lost = start(folder, number, lost_in=place, **settings, **resumed)
        assert lost.status == "stopped"
        resumed = {"resume-from": str(number)}
    rest = start(folder, len(places) + 1, **settings, **resumed)
    assert told(rest) == told(whole)
    assert Lineage.load(folder / "runs" / rest.run_id / "checkpoint").finished
    assert not list(folder.glob("runs/*/parties/*"))  # nothing is left to go on with
    if whole.server_model:
        one, other = (serialize.load(r.server_model) for r in (whole, rest))
        X = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
        assert (one.predict_proba(X) == other.predict_proba(X)).all()
    if noisy:
        assert rest.claims == whole.claims
        assert rest.claims
        # each party was charged once for each round, in the run that asked it first
        mine = charges(folder, "1")
        assert [(party, number) for party, _, number in mine] == [
            (party, number) for party, _, number in charges(tmp_path / "whole", "1")
        ]
        assert {run for _, run, _ in mine} == {"1"}

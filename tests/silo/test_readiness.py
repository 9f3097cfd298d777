"""Readiness before the first round, through the real ServerApp and ClientApp in one process."""

import time
from pathlib import Path

import pandas as pd
import pytest
import skops.io  # noqa: F401 - once here, and not in the child of every final visit
from flwr.app import Context, RecordDict
from grid import InProcessGrid
from silo_files import node_of, people, write_public

from fedkd_flwr.app.client_app import app as client_app
from fedkd_flwr.app.server_app import app as server_app
from fedkd_flwr.errors import TooFewPartiesError
from fedkd_flwr.record.run_record import RunRecord

NAMES = ("south", "north", "west")  # south comes first, and is the one that is not ready
PLAIN = {"algorithm": "fedct", "num-rounds": 1, "model": "decision-tree", "consensus": "majority"}
PRIVATE = {**PLAIN, "label-mechanism": "randomized-response", "paper.noise-strength": 0.1}


pytestmark = pytest.mark.usefixtures("in_this_process")


@pytest.fixture
def silos(tmp_path):
    public = write_public(tmp_path, people(30, seed=9))
    return {
        name: node_of(name, people(30, seed=i), tmp_path / f"{name}.csv", public, tmp_path / name)
        for i, name in enumerate(NAMES)
    }


def _run(tmp_path, nodes, settings, *, handler=client_app):
    config = {"public-path": str(tmp_path / "public.csv"), "output-dir": str(tmp_path / "out"), **settings}
    config = {"node-deadline-s": 1.0, "nodes-stable-s": 0.05, "num-parties": 2, **config}
    grid = InProcessGrid(handler, list(nodes.values()), config)
    server_app(grid, Context(1, 1, {}, RecordDict(), config))
    return grid, RunRecord.load(tmp_path / "out" / "runs" / "1" / "record.json")


def test_a_node_that_is_not_ready_is_not_counted_not_asked_and_named_and_takes_part_once_it_is(tmp_path, silos):
    path = Path(silos["south"]["data-path"])
    rows = path.read_bytes()
    path.unlink()

    def mended_in_round_1(message, context):
        if message.metadata.message_type == "train":
            path.write_bytes(rows)
        return client_app(message, context)

    settings = {**PLAIN, "num-rounds": 2, "paper.stop-when-converged": False}
    grid, record = _run(tmp_path, silos, settings, handler=mended_in_round_1)
    assert [(one.asked, one.answered) for one in record.rounds] == [(2, ["north", "west"]), (3, sorted(NAMES))]
    trained = [m.metadata.dst_node_id - grid.first for m in grid.sent if m.metadata.message_type == "train"]
    assert sorted(trained[:2]) == [1, 2]
    assert record.status == "completed"
    left_out = [[f"{r.party}: {r.code}" for r in one.rejected] for one in record.rounds]
    assert left_out == [["south: not ready: missing-file"], []]


def test_a_run_that_all_refuse_by_their_rules_ends_long_before_its_deadline_and_says_why(tmp_path, silos):
    nodes = {name: silos[name] | {"require-privacy": True} for name in ("south", "north")}
    seen = r"got 0 of 2 \(.*: privacy-required, .*: privacy-required\)\. This run adds no noise, which the"
    began = time.monotonic()
    with pytest.raises(TooFewPartiesError, match=rf"^number of nodes that are ready must reach 2, {seen} party"):
        _run(tmp_path, nodes, PLAIN | {"node-deadline-s": 120.0})
    assert time.monotonic() - began < 60.0
    record = RunRecord.load(tmp_path / "out" / "runs" / "1" / "record.json")
    assert (record.status, record.rounds) == ("failed", [])


def test_a_node_that_says_its_name_late_and_then_fails_is_named(tmp_path, silos, monkeypatch):
    pull = InProcessGrid.pull_messages

    def late(self, ids):
        return pull(self, ids) if any(m.metadata.message_type == "train" for m in self.sent) else []

    def south_dies(message, context):
        if message.metadata.message_type == "train" and context.node_config["party"] == "south":
            raise RuntimeError("killed")
        return client_app(message, context)

    monkeypatch.setattr(InProcessGrid, "pull_messages", late)
    _, record = _run(tmp_path, silos, {**PLAIN, "num-parties": 3}, handler=south_dies)
    assert [(r.party, r.code) for r in record.rounds[0].rejected] == [("south", "party-crashed")]


def test_a_client_app_that_knows_no_such_question_is_asked_as_ever(tmp_path, silos):
    def older(message, context):
        if message.metadata.message_type == "query":
            raise ValueError("No query function registered with name 'default'")
        return client_app(message, context)

    _, record = _run(tmp_path, silos, {**PLAIN, "num-parties": 3}, handler=older)
    assert record.rounds[0].answered == sorted(NAMES)


def test_beside_a_claim_nothing_that_private_rows_decide_shows(tmp_path, silos):
    table = pd.read_csv(path := silos["south"]["data-path"])
    table.loc[0, "income"] = "millions"
    table.to_csv(path, index=False)
    grid, record = _run(tmp_path, silos, {**PRIVATE, "num-parties": 3})
    assert record.rounds[0].answered == sorted(NAMES)
    said, *_ = (
        reply.content.config_records["ready"]
        for message, reply in zip(grid.sent, grid.replies, strict=True)
        if message.metadata.message_type == "query" and message.metadata.dst_node_id == grid.first
    )
    assert dict(said) == {"party": "south", "wire-version": 1}

"""The processes of a simulation must see one folder, with locks that hold between them."""

import pytest
from flwr.app import Context, RecordDict
from grid import InProcessGrid

from fedkd_flwr.app.client_app import app as client_app
from fedkd_flwr.app.server_app import federate
from fedkd_flwr.errors import ConfigError
from fedkd_flwr.simulation.shared_folder import held_by_server, look

CONFIG = {
    "dataset": "synthetic",
    "synthetic-rows": 120,
    "synthetic-features": 3,
    "partitioner": "iid",
    "model": "decision-tree",
    "num-rounds": 1,
    "num-parties": 2,
    "centralised": False,
}


def test_a_party_sees_the_server_s_lock_and_only_while_it_is_held(tmp_path):
    folder = tmp_path / "runs" / "7"
    folder.mkdir(parents=True)
    with held_by_server(folder):
        assert look(str(tmp_path), "7") == {}
    assert look(str(tmp_path), "7")["fault"] == "not there"
    (folder / "parties.lock").touch()  # a machine whose locks are its own sees the file and may lock it
    assert look(str(tmp_path), "7")["fault"].startswith("locked by nobody")


def test_a_run_whose_parties_have_another_folder_asks_nobody_to_train(tmp_path):
    nodes = [{"partition-id": i, "num-partitions": 2} for i in range(2)]
    here, there = ({**CONFIG, "output-dir": str(tmp_path / name)} for name in ("head", "second-machine"))
    grid = InProcessGrid(client_app, nodes, there)
    with pytest.raises(ConfigError, match=r"one folder with file locks .*not there for 2 of 2 parties \(on .*output-"):
        federate(grid, Context(1, 1, {}, RecordDict(), here), page=False)
    assert {message.metadata.message_type for message in grid.sent} == {"query"}

"""``flwr run`` for real, on Ray, with a vote on labels and then weights; `test_simulate` has a run that fails."""

import pytest
from flower_runtime import FlowerHome

from fedkd_flwr.record.run_record import RunRecord

pytestmark = pytest.mark.flower

PARTIES = [f"party-{i:03d}" for i in range(2)]
SMALL = {"partitioner": "iid", "model": "decision-tree", "num_parties": 2}
SYNTHETIC = {"dataset": "synthetic(rows=400)"}
NET = """
from torch import nn


class Net(nn.Module):
    def __init__(self, num_features, num_classes):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(num_features, 32), nn.ReLU(), nn.Linear(32, num_classes))

    def forward(self, rows):
        return self.layers(rows)
"""
SIZE = "num-supernodes=2 client-resources-num-cpus=1 init-args-num-cpus=1"  # one actor imports torch once


@pytest.fixture(scope="module")
def flower(tmp_path_factory):
    """One local SuperLink, started by the first ``flwr run`` as at a user's, for all runs of this file."""
    home = FlowerHome(tmp_path_factory.mktemp("ray"))
    (home.app / "my_torch.py").write_text(NET, encoding="utf-8")
    yield home
    home.stop()


def _run(flower, folder, **settings):
    data = {} if "dataset" in settings else SYNTHETIC
    run_id = flower.submit(federation_config=SIZE, output_dir=str(folder), **SMALL | data | settings)
    path = folder / "runs" / run_id / "record.json"
    status = flower.wait(run_id, output=path)
    assert path.exists(), f"Flower calls the run {status}, and it left no record:\n{flower.log(run_id)}"
    return status, RunRecord.load(path)


def test_fedkt_prox_runs_on_ray_through_flower_s_own_fedprox_with_a_net_of_one_s_own(flower, tmp_path):
    net = {"model": "my_torch:Net(lr=0.02, batch_size=32, epochs=2)", "local_epochs": 2}
    trees = {"teacher_model": "decision-tree", "student_model": "decision-tree", "fedkt.teachers-per-student": 3}
    status, record = _run(flower, tmp_path, algorithm="fedkt-prox", num_rounds=1, **net, **trees)
    assert (status, record.status) == ("finished:completed", "completed")
    assert [(r.answered, r.rejected) for r in record.rounds] == [(PARTIES, [])] * 2  # the vote, and weights once
    assert all(r.server_accuracy is not None for r in record.rounds)
    assert all(p.federated["common"].accuracy > 0.4 for p in record.parties)
    assert record.config["fedkt.teachers-per-student"] == 3
    assert record.config["paper.party-models"]  # from pyproject's section [paper]
    assert list((tmp_path / "runs" / record.run_id).glob("report.html"))

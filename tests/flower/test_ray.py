"""``flwr run`` for real, on Ray, with a model of one's own; `test_simulate` has processes that die."""

from __future__ import annotations

import pytest
from flower_runtime import FlowerHome

from fedkd_flwr.record.run_record import RunRecord

MODELS = """
from sklearn.tree import DecisionTreeClassifier


def tree(seed):
    return DecisionTreeClassifier(max_depth=4, random_state=seed)
"""


@pytest.mark.flower
def test_fedct_runs_on_ray_with_a_model_of_one_s_own_and_leaves_record_and_page(tmp_path):
    flower = FlowerHome(tmp_path / "ray")
    (flower.app / "my_models.py").write_text(MODELS, encoding="utf-8")
    settings = {"algorithm": "fedct", "num_rounds": 2, "model": "my_models:tree", "fedct.quorum": 0.8}
    settings |= {"consensus": "qualified-majority"}
    settings |= {"dataset": "synthetic(rows=400)", "partitioner": "iid", "num_parties": 2, "output_dir": str(tmp_path)}
    size = "num-supernodes=2 client-resources-num-cpus=1 init-args-num-cpus=1"  # one actor imports everything once
    try:
        run_id = flower.submit(federation_config=size, **settings)
        path = tmp_path / "runs" / run_id / "record.json"
        status = flower.wait(run_id, output=path)
        assert path.exists(), f"Flower calls the run {status}, and it left no record:\n{flower.log(run_id)}"
    finally:
        flower.stop()
    record = RunRecord.load(path)
    assert (status, record.status) == ("finished:completed", "completed")
    parties = [f"party-{i:03d}" for i in range(2)]
    assert [(r.answered, r.rejected) for r in record.rounds] == [(parties, [])] * 2
    assert all(p.notes == [] and p.federated["common"].accuracy > 0.4 for p in record.parties)  # no state was lost
    assert record.config["fedct.quorum"] == 0.8
    assert record.config["paper.stop-when-converged"]  # from pyproject's section [paper]
    assert path.with_name("report.html").is_file()

"""FedMD and DD through the apps: settings in, record out, in simulation."""

from __future__ import annotations

import json

import pytest
from flwr.app import Context, RecordDict
from grid import InProcessGrid

from fedkd_flwr.app.client_app import app as client_app
from fedkd_flwr.app.models import model_factory
from fedkd_flwr.app.server_app import app as server_app
from fedkd_flwr.errors import ConfigError
from fedkd_flwr.privacy.noise.subset import Subsampling
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.seeds import derive_seed
from fedkd_flwr.settings.config import parse_node_config, parse_run_config
from fedkd_flwr.simulation.rows import central_rows, simulated_pool
from fedkd_flwr.stores.book import looked_at

FAST = {
    "dataset": "synthetic(rows=400, features=6)",
    "model": "decision-tree",
    "partitioner": "iid",
    "num-parties": 3,
    "num-rounds": 2,
    "nodes-stable-s": 0.01,
    "centralised": True,
}


def _run(tmp_path, algorithm, **settings):
    config = {**FAST, "algorithm": algorithm, "output-dir": str(tmp_path), **settings}
    nodes = [{"partition-id": i, "num-partitions": 3} for i in range(3)]
    grid = InProcessGrid(client_app, nodes, config)
    server_app(grid, Context(1, 1, {}, RecordDict(), config))
    return RunRecord.load(tmp_path / "runs" / "1" / "record.json")


@pytest.mark.parametrize("algorithm", ["fedmd", "dd"])
def test_a_simulated_party_takes_part_in_what_its_operator_asks_for(tmp_path, algorithm):
    record = _run(tmp_path, algorithm)
    assert record.status == "completed"
    assert [len(r.answered) for r in record.rounds] == [3, 3]
    assert record.mean_accuracies()["federated-common"] > 0.6
    assert record.centralised_accuracy > 0.6
    assert record.claims == []


def test_nfdp_in_simulation_states_the_smallest_party_s_numbers_and_pools_the_subsets(tmp_path):
    record = _run(tmp_path, "fedmd", **{"subset-rows": 10})
    (claim,) = record.claims
    smallest = Subsampling(num_rows=66, subset_rows=10, replacement=True)  # 200 private rows, dealt to three
    assert (claim["epsilon"], claim["delta"]) == (pytest.approx(smallest.epsilon), pytest.approx(smallest.delta))
    drawn = []
    for path in tmp_path.rglob("ledger.sqlite3"):
        with looked_at(path.parent) as book:
            drawn.append(json.loads(book.parts["draw"]))
    assert sorted(d["num_rows"] for d in drawn) == [66, 67, 67]  # all rows, none held out
    assert all(len(d["rows"]) == 10 for d in drawn)
    # the centralised model saw those 30 rows, and no other
    settings = {**FAST, "algorithm": "fedmd", "output-dir": str(tmp_path), "subset-rows": 10}
    config = parse_run_config(settings)
    pool = simulated_pool(config)
    X, y = central_rows(config, 3, pool, record.run_id)
    assert len(y) == 30
    seed = derive_seed(config.seed, "centralised")
    model = model_factory(config.model, pool.public)(seed=seed).fit(X, y)
    assert record.centralised_accuracy == (model.predict(pool.X_test) == pool.y_test).mean()


def test_noise_in_simulation_makes_a_claim(tmp_path):
    record = _run(tmp_path, "dd", **{"score-noise": "gaussian", "epsilon": 4.0, "public-rows-per-round": 30})
    (claim,) = record.claims
    assert 3.9 < claim["epsilon"] <= 4.0
    assert claim["unit"] == "party"


def test_public_labels_of_a_simulated_set_are_known_only_where_the_run_says_so(tmp_path):
    pytest.importorskip("torch")
    net = {"model": "mlp(hidden=8)", "paper.pretrain-epochs": 2, "paper.initial-epochs": 1}
    with pytest.raises(ConfigError, match=r"paper.pretrain-epochs must be 0 without labelled public rows"):
        _run(tmp_path / "a", "fedmd", **net)
    with pytest.raises(
        ConfigError, match=r"paper.public-label-column must be the label column 'label' of the data set, got 'kind'"
    ):
        _run(tmp_path / "b", "fedmd", **net, **{"paper.public-label-column": "kind"})
    record = _run(tmp_path / "c", "fedmd", **net, **{"paper.public-label-column": "label"})
    assert record.status == "completed"
    assert record.centralised


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"answer-form": "logits"}, "answer-form must not be set for fedct, got 'logits'. It would be ignored"),
        ({"subset-rows": 5}, "subset-rows must not be set for fedct, got 5"),
        ({"score-noise": "laplace"}, "score-noise must not be set for fedct"),
        ({"algorithm": "fedmd", "noise": "laplace"}, "noise must not be set for fedmd"),
        ({"algorithm": "fedmd", "score-bits": 12}, "score-bits must be one of 32, 16, 8, 4, 2, 1, got 12"),
        ({"algorithm": "dd", "subset-rows": True}, "subset-rows must be all, or a whole number >= 1, got True"),
    ],
)
def test_a_setting_that_would_be_ignored_or_is_none_is_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        parse_run_config(settings)


@pytest.mark.parametrize(("algorithm", "rounds"), [("fedmd", 20), ("dd", 10)])
def test_each_has_its_usual_number_of_rounds(algorithm, rounds):
    assert parse_run_config({"algorithm": algorithm}).rounds == rounds


def test_no_silo_sends_scores_by_default():
    allow = parse_node_config({"party": "a", "data-path": "/d", "public-path": "/p"}).allow_algorithms
    assert not {"fedmd", "dd"} & set(allow.split(","))

"""Algorithms through the apps: settings in, record, model and claims out."""

import json

import pytest
from grid import run_apps

from fedkd_flwr.app.models import model_factory
from fedkd_flwr.errors import ConfigError, DataError
from fedkd_flwr.models import serialize
from fedkd_flwr.privacy.noise.subset import Subsampling
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.report.claims import no_claim
from fedkd_flwr.seeds import derive_seed
from fedkd_flwr.settings.config import parse_run_config
from fedkd_flwr.simulation.rows import central_rows, simulated_pool
from fedkd_flwr.stores.book import looked_at

FAST = {"dataset": "synthetic(rows=300, features=4)", "model": "decision-tree", "partitioner": "iid", "num-rounds": 2}
NET = {"model": "mlp(hidden=[8], batch_size=16, epochs=2, lr=0.01)", "local-epochs": 1}
TREES = {"teacher-model": "decision-tree", "student-model": "decision-tree", "fedkt.teachers-per-student": 2}
PRIVATEKT = {
    **NET,
    "model": "mlp(hidden=[8], optimizer='sgd', lr=0.1, batch_size=16, epochs=2)",
    "num-rounds": 3,
    "fraction-parties": 0.5,
    "paper.solo-epochs": 1,
    "node-deadline-s": 1.0,
}


def _run(folder, algorithm, nodes=None, *, parties=3, **settings):
    return run_apps(folder, nodes or parties, {**FAST, "algorithm": algorithm, **settings}, page=True)


@pytest.mark.parametrize("algorithm", ["fedavg", "scaffold", "privatekt", "fedxgb-bagging"])
def test_where_no_model_is_named_a_run_has_the_one_that_its_algorithm_needs(tmp_path, algorithm):
    record = _run(tmp_path, algorithm, model="")
    assert (record.status, "model" in record.changed) == ("completed", False)


def test_a_run_on_probabilities_says_that_density_ratios_left_too(tmp_path):
    record = _run(tmp_path, "fedct", **{"send": "probabilities", "num-rounds": 1})
    assert record.consensus_rule == "probabilities"
    assert no_claim(record).startswith("labels, class counts, density ratios and probabilities are shared")


@pytest.mark.parametrize("algorithm", ["fedmd", "dd"])
def test_scores_are_exchanged_in_a_simulation_as_its_operator_asks(tmp_path, algorithm):
    record = _run(tmp_path, algorithm)
    assert record.status == "completed"
    assert [len(r.answered) for r in record.rounds] == [3, 3]
    assert record.mean_accuracies()["federated-common"] > 0.5
    assert record.centralised_accuracy > 0.5
    assert record.claims == []


def test_nfdp_in_simulation_states_the_smallest_party_s_numbers_and_pools_the_subsets(tmp_path):
    record = _run(
        tmp_path, "fedmd", **{"subset-rows": 10, "dataset": "synthetic(rows=400, features=4)", "num-rounds": 1}
    )
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
    settings = {**FAST, "algorithm": "fedmd", "num-parties": 3, "output-dir": str(tmp_path)}
    settings |= {"subset-rows": 10, "dataset": "synthetic(rows=400, features=4)", "num-rounds": 1}
    config = parse_run_config(settings)
    pool = simulated_pool(config)
    X, y = central_rows(config, 3, pool, record.run_id)
    assert len(y) == 30
    seed = derive_seed(config.seed, "centralised")
    model = model_factory(config.model, pool.public)(seed=seed).fit(X, y)
    assert record.centralised_accuracy == (model.predict(pool.X_test) == pool.y_test).mean()


def test_public_labels_of_a_simulated_set_are_known_only_where_the_run_says_so(tmp_path):
    pytest.importorskip("torch")
    net = {"model": "mlp(hidden=8)", "paper.pretrain-epochs": 2, "paper.initial-epochs": 1, "num-rounds": 1}
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
    ("algorithm", "settings", "rounds"), [("fedprox", NET, 2), ("fedkt-prox", {**NET, **TREES}, 3)]
)
def test_weights_leave_a_curve_a_model_and_what_to_compare_with(tmp_path, algorithm, settings, rounds):
    pytest.importorskip("torch")
    record = _run(tmp_path, algorithm, **settings)
    assert (record.status, record.algorithm) == ("completed", algorithm)
    assert [len(r.answered) for r in record.rounds] == [3] * rounds
    assert all(r.server_accuracy is not None for r in record.rounds)
    assert serialize.load(record.server_model).predict([[0.0] * 4]).shape == (1,)
    assert record.centralised_accuracy > 0.6
    assert {"solo-common", "federated-common"} <= set(record.mean_accuracies())
    assert (tmp_path / "runs" / "1" / "report.html").is_file()


def test_privatekt_leaves_a_model_a_curve_a_claim_and_a_checkpoint(tmp_path):
    pytest.importorskip("torch")
    record = _run(tmp_path, "privatekt", parties=4, **PRIVATEKT)
    assert record.status == "completed"
    assert [r.asked for r in record.rounds] == [2, 2, 2]
    assert record.rounds[-1].server_accuracy == record.server_accuracy
    assert serialize.load(record.server_model).num_classes == 3
    assert record.centralised_accuracy > 0.5
    assert [p.name for p in record.parties if p.solo and p.federated] == [f"party-{i:03d}" for i in range(4)]
    assert (record.notes, record.claims[0]["unit"]) == ([], "party")
    kept = sorted(p.name for p in (tmp_path / "runs" / "1" / "checkpoint").iterdir())
    assert kept == ["checkpoint.npz", "lineage.json", "participations.json"]
    assert all(r.server_accuracy is None for r in record.publishable().rounds)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"model": "mixed:mlp,decision-tree"}, ConfigError, "model must be the same at all parties"),
        ({"model": "decision-tree"}, ConfigError, "model must be a torch net"),
        ({"paper.transfer-rows": 99}, ConfigError, r"transfer-rows must be at most 75 \(public rows\), got 99"),
        (
            {"privatekt.participation": "once"},
            ConfigError,
            r"num-rounds must be at most 2 with participation once \(2 of 4",
        ),
        ({"resume-from": "/nowhere"}, DataError, "run must be the id, the start of an id, the name or the path"),
    ],
)
def test_what_cannot_work_is_refused_before_any_party_trains(tmp_path, changes, error, message):
    pytest.importorskip("torch")
    with pytest.raises(error, match=message):
        _run(tmp_path, "privatekt", parties=4, **{**PRIVATEKT, **changes})
    assert RunRecord.load(tmp_path / "runs" / "1" / "record.json").status == "failed"

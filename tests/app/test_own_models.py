"""Users' own models in simulation: those of the docs work, faulty ones are named with file and line, none hangs."""

import os
import re
from pathlib import Path

import numpy as np
import pytest
from grid import run_apps

from fedkd_flwr.app.models import model_factory
from fedkd_flwr.models import serialize
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.report.page import write_page
from fedkd_flwr.report.table import summary_table
from fedkd_flwr.settings.config import parse_run_config
from fedkd_flwr.settings.run_settings import read_settings
from fedkd_flwr.simulation.rows import simulated_pool

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "your-model.md"
FOLDER = Path(__file__).parents[2] / "examples" / "models"
EXAMPLES = [
    (name, (FOLDER / f"{name}.py").read_text("utf-8"), settings)
    for name, settings in re.findall(
        r'--8<-- "examples/models/(my_\w+)\.py"\n```\s+fedkd simulate ([^\n]+)', PAGE.read_text("utf-8")
    )
]
FAST = {
    "dataset": "synthetic(rows=200, features=4, classes=2)",
    "partitioner": "iid",
    "num-parties": 2,
    "num-public": 40,
    "num-test": 40,
}
OWN_NET = {"model": "my_torch:Net(width=8, lr=0.05, batch_size=16, epochs=2)", "num-rounds": 2}
ALGORITHMS = {
    "fedct": {"steps-per-round": 3},
    "fedmd": {"answer-form": "logits", "paper.initial-epochs": 1},
    "privatekt": {"paper.solo-epochs": 1, "local-epochs": 1},
    "scaffold": {
        "paper.solo-epochs": 1,
        "local-epochs": 1,
        "model": "my_torch:Net(width=8, lr=0.05, batch_size=16, optimizer='sgd')",
    },
}


@pytest.fixture(autouse=True, scope="module")
def examples(tmp_path_factory):
    """Lay the docs' modules where an app's own are found."""
    folder = tmp_path_factory.mktemp("examples")
    for name, text, _ in EXAMPLES:
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.syspath_prepend(Path(__file__).parent)
        yield


def _run(folder, parties=2, **settings):
    # auto would learn density ratios, which take most of the time
    more = {"consensus": "majority"} if settings["algorithm"] == "fedct" else {}
    return run_apps(folder, parties, {**FAST, "centralised": False, "num-parties": parties, **settings, **more})


# ------------------------------------------------------------------------------------------------ the docs' examples


def test_there_is_one_example_of_each_kind():
    assert [name for name, _, _ in EXAMPLES] == ["my_sklearn", "my_xgboost", "my_torch", "my_means"]


@pytest.mark.parametrize(("name", "settings"), [(name, line) for name, _, line in EXAMPLES if name != "my_torch"])
def test_an_example_of_the_docs_runs_and_its_models_are_saved(tmp_path, name, settings):
    pytest.importorskip(name.removeprefix("my_") if name == "my_xgboost" else "sklearn")
    given = read_settings(settings.split())
    few = {"fedkt.teachers-per-student": 2} if given["algorithm"] == "fedkt" else {"num-rounds": 2}
    record = _run(tmp_path, **given, **few, **{"save-party-models": True})
    assert (record.status, [len(r.answered) for r in record.rounds]) == ("completed", [2] * len(record.rounds))
    assert not {note.code for note in record.notes} & {"not-storable", "model-not-kept", "learnt-nothing"}
    assert all(p.notes == [] and p.federated["common"].accuracy > 0.5 for p in record.parties)
    saved = sorted(tmp_path.rglob("party-000.model"))
    rows = np.zeros((2, 4), dtype=np.float32)
    assert [serialize.load(path).predict(rows).shape for path in saved] == [(2,)]


# ------------------------------------------------------------------------------------------------ a module of ten lines


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_torch_module_of_ten_lines_works_keeps_its_state_and_is_saved(tmp_path, algorithm):
    torch = pytest.importorskip("torch")
    keep = {"save-party-models": True}
    record = _run(tmp_path, algorithm=algorithm, **{**OWN_NET, **ALGORITHMS[algorithm]}, **keep)
    assert (record.status, [len(r.answered) for r in record.rounds]) == ("completed", [2, 2])
    assert not [note for p in record.parties for note in p.notes]  # nothing was lost between rounds
    files = [*tmp_path.rglob("party-000*.model"), *tmp_path.rglob("model.fedkd")]
    wanted = {"party-000.model", "party-000.alone.model"}
    assert {f.name for f in files} == wanted | ({"model.fedkd"} if algorithm not in ("fedct", "fedmd") else set())
    rows = np.ones((2, 4), dtype=np.float32)
    for file in files:
        model = serialize.load(file)
        net = model.estimator.module_
        assert type(net).__module__ == "my_torch"
        with torch.no_grad():
            assert np.array_equal(net(torch.from_numpy(rows)).numpy(), model.logits(rows))


def test_where_a_notebook_has_used_the_gpu_no_visit_and_no_trial_is_forked(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("a child could not use the GPU"))
    assert _run(tmp_path, algorithm="fedct", **OWN_NET, **ALGORITHMS["fedct"]).status == "completed"


# ------------------------------------------------------------------------------------------------------- faulty models


def test_a_model_that_writes_into_its_rows_changes_no_other_s_data():
    pool = simulated_pool(parse_run_config(FAST))
    X, y = pool.X.copy(), pool.y.copy()
    model_factory("faulty_models:Mutates", pool.public)(seed=0).fit(pool.X, pool.y)
    assert np.array_equal(pool.X, X)
    assert np.array_equal(pool.y, y)


@pytest.mark.parametrize(
    ("name", "code", "cause"),
    [
        ("FailsOnMany", "internal", "ValueError: too many rows (faulty_models.py, line"),
        ("ShortOnMany", "wrong-model-output", "ShortOnMany.predict (faulty_models.py, line"),
    ],
)
def test_what_fails_later_stands_in_table_page_and_record_with_file_and_line(tmp_path, name, code, cause):
    settings = {"model": f"mixed:faulty_models:{name},decision-tree", "min-parties": 1, "num-rounds": 1}
    record = _run(tmp_path, algorithm="fedct", **settings)
    (left_out,) = record.rounds[0].rejected
    assert (left_out.party, left_out.code) == ("party-000", code)
    assert cause in left_out.failure
    assert cause in " ".join(summary_table(record).split())
    assert cause in write_page(record, tmp_path / "page.html").read_text(encoding="utf-8")
    assert record.publishable().rounds[0].rejected[0].failure == ""


def test_a_comparison_that_fails_does_not_fail_the_run(tmp_path):
    settings = {"model": "faulty_models:FailsOnPooled", "num-rounds": 1, "centralised": True}
    record = _run(tmp_path, algorithm="fedct", **settings)
    assert record.status == "completed"
    (note,) = (note for note in record.notes if note.code == "no-centralised-model")
    assert note.values["failure"].startswith("ValueError: too many rows (faulty_models.py, line")


def test_a_failure_of_the_server_s_own_model_is_named_with_file_and_line(tmp_path):
    settings = {"model": "decision-tree", "final-model": "faulty_models:FailsOnMany", "fedkt.teachers-per-student": 2}
    with pytest.raises(ValueError, match="too many rows"):
        _run(tmp_path, algorithm="fedkt", **settings)
    record = RunRecord.load(tmp_path / "runs" / "1" / "record.json")
    assert re.fullmatch(r"ValueError: too many rows \(faulty_models\.py, line \d+, in fit\)", record.reason)


def test_a_hang_in_a_round_ends_with_the_round(tmp_path, monkeypatch):
    monkeypatch.setattr("fedkd_flwr.app.server_app.try_models", lambda *_: [])
    settings = {"model": "faulty_models:Hangs", "round-timeout-s": 0.5, "num-rounds": 1}
    with pytest.raises(Exception, match=r"limit-exceeded .*must end within 0\.45 s \(nine tenths of round-timeout-s\)"):
        _run(tmp_path, algorithm="fedct", **settings)

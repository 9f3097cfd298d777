"""The projects under examples/, run in process as they stand."""

import difflib
import importlib
import re
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Context, RecordDict
from grid import InProcessGrid

EXAMPLES = Path(__file__).parents[1] / "examples"
BEFORE, AFTER = EXAMPLES / "message_api" / "before", EXAMPLES / "message_api" / "after"
MODULES = ("client_app", "secret_ballot", "server_app", "task", "weights")


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Return what runs a project's own apps with its own run config, and returns the grid."""
    monkeypatch.setenv("HOME", str(tmp_path))

    def _run(folder, run_id=1):
        for name in MODULES:
            monkeypatch.delitem(sys.modules, name, raising=False)
        monkeypatch.syspath_prepend(folder)
        app = tomllib.loads((folder / "pyproject.toml").read_text())["tool"]["flwr"]["app"]
        server, client = (
            getattr(importlib.import_module(module), name)
            for module, _, name in (app["components"][one].partition(":") for one in ("serverapp", "clientapp"))
        )
        nodes = [{"partition-id": i, "num-partitions": 3} for i in range(3)]
        grid = InProcessGrid(client, nodes, app["config"], run_id=run_id)
        server(grid, Context(run_id, 1, {}, RecordDict(), app["config"]))
        return grid

    yield _run
    for name in MODULES:
        sys.modules.pop(name, None)


def _changes():
    """Return the changed lines from the project before to that after, as the README shows them."""
    lines = []
    for name in ("client_app.py", "server_app.py", "task.py"):
        texts = [(folder / name).read_text(encoding="utf-8").splitlines() for folder in (BEFORE, AFTER)]
        lines += [f"# {name}", *list(difflib.unified_diff(*texts, n=0, lineterm=""))[2:]]
    return [line for line in lines if not line.startswith("@@") and line != "+"]


def test_ten_new_lines_at_most_swap_strategy_and_client_and_the_page_shows_them():
    changes = _changes()
    new, gone = (sum(line.startswith(sign) for line in changes) for sign in "+-")
    assert new <= 10
    assert {p.name for p in AFTER.iterdir()} < {p.name for p in BEFORE.iterdir()}  # no file is new
    assert (BEFORE / "pyproject.toml").read_bytes() == (AFTER / "pyproject.toml").read_bytes()
    page = (EXAMPLES / "message_api" / "README.md").read_text(encoding="utf-8")
    for text in (page, (EXAMPLES.parent / "docs" / "howto" / "flower.md").read_text(encoding="utf-8")):
        assert re.search(r"```diff\n(.*?)\n```", text, re.DOTALL)[1] == "\n".join(changes)
    assert f"{new} lines are new, {gone} go, and so does `weights.py`" in page


def test_before_the_swap_weights_are_averaged(run, capsys):
    grid = run(BEFORE)
    assert {name for message in grid.replies for name in message.content} == {"arrays", "metrics"}
    assert "60 wines belong to nobody" in capsys.readouterr().out


def test_after_the_swap_labels_are_exchanged(run, capsys):
    grid = run(AFTER)
    assert not any(reply.has_error() for reply in grid.replies)
    assert {tuple(r.content["arrays"]) for r in grid.replies[:3]} == {("labels",)}
    assert len(grid.replies[0].content["arrays"]["labels"].data) < 300  # of 60 labels
    assert "60 wines belong to nobody" in capsys.readouterr().out


def test_the_legacy_project_labels_the_wines_that_belong_to_nobody(run, capsys):
    run(EXAMPLES / "legacy")
    assert "60 of 60 wines that belong to nobody have a label" in capsys.readouterr().out


def test_a_strategy_of_their_own_counts_noisy_labels_and_the_ledger_refuses_the_second_ballot(run, capsys, tmp_path):
    first = run(EXAMPLES / "own_strategy")
    printed = capsys.readouterr().out
    assert float(re.search(r"([\d.]+) of the 60 wines", printed)[1]) > 0.75  # 0.33 by chance
    assert len(list((tmp_path / ".cellars").rglob("ledger.sqlite3"))) == 3
    second = run(EXAMPLES / "own_strategy", run_id=2)
    assert [reply.has_error() for reply in (*first.replies, *second.replies)] == [False] * 3 + [True] * 3
    assert "is left out" in capsys.readouterr().out


BASELINE = EXAMPLES / "fedkt-baseline"


def test_the_baseline_for_flower_runs_and_its_parties_send_labels_alone(tmp_path, monkeypatch, capsys):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    lines = [f"{2 * c - 1} {1 + c}:1 {3 + rng.integers(120)}:1" for c in y]  # a column says the class
    (tmp_path / "rows").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(BASELINE)
    about = tomllib.loads((BASELINE / "pyproject.toml").read_text())["tool"]["flwr"]["app"]
    config = about["config"] | {"data-path": str(tmp_path / "rows"), "num-parties": 3}
    server, client = (
        importlib.import_module(about["components"][one].partition(":")[0]).app for one in ("serverapp", "clientapp")
    )
    grid = InProcessGrid(client, [{"partition-id": i} for i in range(3)], config)
    server(grid, Context(1, 1, {}, RecordDict(), config))
    assert "parties 3 of 3, votes right 1.0000, accuracy 1.0000" in capsys.readouterr().out
    for reply in grid.replies:
        (labels,) = (array.numpy() for record in reply.content.array_records.values() for array in record.values())
        assert (labels.shape, labels.dtype) == ((2, 50), np.int8)
        assert set(np.unique(labels)) <= {0, 1}


@pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")  # Flower's own call
def test_the_baseline_for_flower_passes_the_checks_of_flwr_app_publish(capsys):
    publish = importlib.import_module("flwr.cli.app_cmd.publish")
    config, _ = publish.load_and_validate(BASELINE / "pyproject.toml", check_module=False)
    publish._validate_app_name(config["project"]["name"], "name")
    publish._validate_app_name(BASELINE.name, "directory")
    publish._validate_description(config["project"]["description"])
    publish._validate_files(publish._collect_file_paths(BASELINE))
    assert "7 files" in capsys.readouterr().out

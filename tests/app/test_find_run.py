"""Runs are found by id, start of an id, name, `last` and path; what is unknown or ambiguous lists candidates."""

import json

import pytest

from fedkd_flwr.app.find_run import all_runs, find_run, find_runs, way_to_continue
from fedkd_flwr.errors import DataError
from fedkd_flwr.models.given import name_of
from fedkd_flwr.record.run_record import RunRecord, signed
from fedkd_flwr.registry import COMMANDS
from fedkd_flwr.stores.checkpoints import CHECKPOINT, Lineage

RUNS = {"111": ("2026-01-01T10:00:00+00:00", "even"), "1122": ("2026-01-02T10:00:00+00:00", "even")} | {
    "999": ("2026-01-01T23:00:00+00:00", "")
}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    root = tmp_path_factory.mktemp("results")
    for run_id, (started, name) in RUNS.items():
        (root / "runs" / run_id).mkdir(parents=True)
        data = {"started": started, "config": {"name": name}}
        (root / "runs" / run_id / "record.json").write_text(json.dumps(signed(data)), encoding="utf-8")
    return root


@pytest.mark.parametrize(
    ("text", "run_id"), [("111", "111"), ("9", "999"), ("112", "1122"), ("999", "999"), ("last", "1122")]
)
def test_one_run_is_found(results, text, run_id):
    assert find_run(text, results) == results / "runs" / run_id / "record.json"


def test_a_path_to_the_folder_or_the_record_is_enough(results, tmp_path):
    folder = results / "runs" / "999"
    assert find_run(folder, tmp_path) == find_run(folder / "record.json", tmp_path) == folder / "record.json"
    copy = tmp_path / "kept.json"
    copy.write_bytes((folder / "record.json").read_bytes())
    assert find_run(str(copy), tmp_path) == copy


def test_several_runs_of_one_name_are_found_newest_first_and_one_must_be_chosen(results):
    assert [path.parent.name for path in find_runs("even", results)] == ["1122", "111"]
    with pytest.raises(DataError, match=r"run 'even' must mean one run, got 2: 1122, 111\. Give one"):
        find_run("even", results)


def test_an_unknown_run_lists_the_newest(results):
    with pytest.raises(
        DataError, match=r"got 'evne'\. The newest there: even, 999, even\. `fedkd runs list` lists all\."
    ):
        find_run("evne", results)


def test_a_run_with_a_broken_or_missing_record_is_found_by_its_id(tmp_path):
    for run_id, text in (("1", "{"), ("2", "[]"), ("3", '{"started": 3}')):
        (tmp_path / "runs" / run_id).mkdir(parents=True)
        (tmp_path / "runs" / run_id / "record.json").write_text(text, encoding="utf-8")
    (tmp_path / "runs" / "4").mkdir()
    assert sorted(run.run_id for run in all_runs(tmp_path)) == ["1", "2", "3", "4"]
    assert find_run("4", tmp_path) == tmp_path / "runs" / "4" / "record.json"


@pytest.mark.parametrize("simulation", [True, False])
def test_the_command_that_continues_a_lost_run_is_one_that_there_is(tmp_path, simulation):
    folder = tmp_path / "runs" / "7"
    Lineage.new("7").save(folder / "checkpoint")
    (folder / "checkpoint" / CHECKPOINT).touch()
    record = RunRecord(run_id="7", algorithm="fedct", status="failed", simulation=simulation)
    words, _, run = way_to_continue(record, folder / "record.json").partition(" --resume ")
    assert words.removeprefix("fedkd ") in COMMANDS
    assert run == str(folder)


@pytest.mark.parametrize("key", ["table", "model"])
def test_no_command_continues_a_run_with_objects_of_a_program(tmp_path, key):
    folder = tmp_path / "runs" / "7"
    Lineage.new("7").save(folder / "checkpoint")
    (folder / "checkpoint" / CHECKPOINT).touch()
    value = {"table": "DataFrame-91315841227a", "model": f"mixed:knn,{name_of(print)}"}[key]
    for config, found in (({key: value}, False), ({key: "/rows.csv"}, True)):
        record = RunRecord(run_id="7", algorithm="fedct", status="failed", config=config)
        assert bool(way_to_continue(record, folder / "record.json")) is found

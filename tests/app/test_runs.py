"""What a run kept to go on with is deleted, and nothing else."""

import pytest

from fedkd_flwr.app.runs import forget_run
from fedkd_flwr.errors import ConfigError, DataError
from fedkd_flwr.processes.alive import this_process
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.stores.checkpoints import Lineage
from fedkd_flwr.stores.party_state import PartyState
from fedkd_flwr.stores.record_file import RecordFile


@pytest.fixture
def root(tmp_path):
    for name in ("runs/71/parties/a.npz", "runs/71/parties/a.model", "runs/71/parties/a.alone.model"):
        _touch(tmp_path / name)
    for name in ("runs/71/parties/b.npz", "runs/71/parties/b.html", "runs/71/checkpoint/checkpoint.npz"):
        _touch(tmp_path / name)
    _touch(tmp_path / "runs/72/parties/a.npz")
    _touch(tmp_path / "ledgers/a/ledger.sqlite3")
    _touch(tmp_path / "runs/71/ledgers/a/ledger.sqlite3")
    return tmp_path


def _touch(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")


def _left(root):
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("options", "gone"),
    [
        ({}, {"parties/a.npz", "parties/b.npz", "checkpoint/checkpoint.npz"}),
        ({"party": "a"}, {"parties/a.npz"}),
        ({"party": "a", "models": True}, {"parties/a.npz", "parties/a.model", "parties/a.alone.model"}),
    ],
)
def test_the_state_of_a_run_is_deleted_and_nothing_else(root, options, gone):
    before = _left(root)
    forget_run("71", root, **options)
    assert before - _left(root) == {f"runs/71/{name}" for name in gone}


def test_what_a_run_continues_is_forgotten_with_it(root):
    Lineage.new("71").then("73").save(root / "runs/73/checkpoint")
    forget_run("73", root)
    assert not (root / "runs/71/parties/a.npz").exists()
    assert not (root / "runs/71/checkpoint").exists()
    assert not (root / "runs/73/checkpoint").exists()
    assert (root / "runs/72/parties/a.npz").exists()


def test_a_silo_finds_what_it_kept_of_a_continued_run_in_the_folder_of_the_run_that_it_went_on_from(root):
    """It has no lineage: that is the server's."""
    for name in "ab":
        PartyState(root, run_id="74", party=name).note_continued("71")
    forget_run("74", root, party="b", models=True)
    assert _left(root / "runs/71/parties") == {"a.npz", "a.model", "a.alone.model"}
    forget_run("74", root)  # the note stays: models may be deleted later
    assert _left(root / "runs/71/parties") == {"a.model", "a.alone.model"}
    forget_run("74", root, models=True)
    assert not _left(root / "runs/71/parties") | _left(root / "runs/74")


def test_a_run_that_is_going_on_or_not_there_is_not_forgotten(root):
    record = RunRecord(run_id="71", algorithm="fedct", started="2026-01-01T00:00:00+00:00", process=this_process())
    RecordFile(root / "runs/71/record.json").write(record)
    with pytest.raises(ConfigError, match=r"run 71 must have ended before it is forgotten.*Ctrl-C"):
        forget_run("71", root)
    with pytest.raises(DataError, match=r"run '7' must mean one run, got 2: 72, 71"):
        forget_run("7", root)
    with pytest.raises(DataError, match="run must be the id"):
        forget_run("81", root)


def test_a_name_that_two_runs_have_is_asked_about_with_both_ids_and_one_that_continues_is_not(root):
    for run_id in ("71", "72", "73"):
        made = RunRecord(run_id=run_id, algorithm="fedct", started=f"2026-01-0{run_id[1]}T00:00:00+00:00")
        made.config, made.status = {"name": "monday" if run_id != "72" else "other"}, "failed"
        RecordFile(root / f"runs/{run_id}/record.json").write(made)
    before = _left(root)
    with pytest.raises(DataError, match=r"run 'monday' must mean one run, got 2: 73, 71. Give one of these ids"):
        forget_run("monday", root)
    assert _left(root) == before
    Lineage.new("71").then("73").save(root / "runs/73/checkpoint")
    forget_run("monday", root)
    assert not (root / "runs/71/parties/a.npz").exists()


def test_no_name_at_all_means_no_run_though_there_is_only_one(tmp_path):
    """As a shell gives it: fedkd runs forget "$RUN", where RUN is not set."""
    _touch(tmp_path / "runs/71/parties/a.npz")
    with pytest.raises(DataError, match=r"run must be the id, the start of an id, .* got ''"):
        forget_run("", tmp_path)
    assert _left(tmp_path) == {"runs/71/parties/a.npz"}

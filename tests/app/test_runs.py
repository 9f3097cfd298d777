"""Logs and ends of runs of `fedkd simulate`."""

import dataclasses
import subprocess
import sys

import pytest

from fedkd_flwr.app.find_run import LOG
from fedkd_flwr.app.runs import forget_run, log_of, stop_run
from fedkd_flwr.errors import ConfigError, DataError
from fedkd_flwr.processes import alive
from fedkd_flwr.processes.alive import ProcessRecord, this_process
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.stores.checkpoints import Lineage
from fedkd_flwr.stores.party_state import PartyState
from fedkd_flwr.stores.record_file import RecordFile


@pytest.fixture
def saved(tmp_path):
    """Return a maker of the record of a run that is going on, with a log."""

    def save(process, log="one\ntwo\n", **changed):
        record = RunRecord(run_id="7", algorithm="fedct", status="running", process=process, **changed)
        path = tmp_path / "7" / "record.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(record.to_json(), encoding="utf-8")
        if log is not None:
            path.with_name(LOG).write_text(log, encoding="utf-8")
        return path

    return save


def test_a_simulation_is_interrupted(saved):
    # as simulations do: a shell that started the tests with & lets their processes ignore SIGINT
    sleep = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_DFL); print(flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", sleep], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as sleeper:
        sleeper.stdout.readline()
        started = alive._started(sleeper.pid)
        path = saved(ProcessRecord(pid=sleeper.pid, started=started, machine=this_process().machine))
        stop_run(path, wait_s=5.0)
        assert sleeper.wait(5) != 0


def test_a_run_that_has_ended_or_runs_elsewhere_is_not_stopped(saved):
    with pytest.raises(ConfigError, match="must be going on, got 'killed'"):
        stop_run(saved(dataclasses.replace(this_process(), started="1")))
    with pytest.raises(ConfigError, match="must run on this machine"):
        stop_run(saved(dataclasses.replace(this_process(), machine="another")))


def test_a_log_is_read_and_followed_until_the_run_has_ended(saved):
    ended = dataclasses.replace(this_process(), started="1")
    assert "".join(log_of(saved(this_process()))) == "one\ntwo\n"
    assert "".join(log_of(saved(ended), follow=True)) == "one\ntwo\n"
    pieces = log_of(saved(this_process()), follow=True)
    assert next(pieces) == "one\ntwo\n"
    path = saved(ended, log="one\ntwo\nthree\n")
    assert "".join(pieces) == "three\n"
    assert path.exists()


def test_of_a_run_at_a_superlink_flower_s_command_is_named(saved):
    path = saved(this_process(), log=None)
    with pytest.raises(ConfigError, match=r"one of fedkd simulate.*flwr log 7 \[SUPERLINK\]"):
        next(log_of(path))
    with pytest.raises(ConfigError, match=r"one of fedkd simulate.*flwr stop 7 \[SUPERLINK\]"):
        stop_run(path)


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
    with pytest.raises(ConfigError, match=r"run 71 must have ended before it is forgotten.*fedkd runs stop 71"):
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

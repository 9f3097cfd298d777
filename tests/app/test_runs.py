"""Logs and ends of runs of `fedkd simulate`."""

import dataclasses
import subprocess
import sys

import pytest

from fedkd_flwr.app.find_run import LOG
from fedkd_flwr.app.runs import log_of, stop_run
from fedkd_flwr.errors import ConfigError
from fedkd_flwr.processes import alive
from fedkd_flwr.processes.alive import ProcessRecord, this_process
from fedkd_flwr.record.run_record import RunRecord


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

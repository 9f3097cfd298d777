import dataclasses
import os
import signal
import subprocess
import sys
import time

from fedkd_flwr.app import client_app
from fedkd_flwr.processes import alive
from fedkd_flwr.processes.alive import ProcessRecord, exists, still_runs, this_process
from fedkd_flwr.processes.limits import Limits


def _of(pid):
    return dataclasses.replace(this_process(), pid=pid, started=alive._started(pid))


def test_a_process_runs_until_it_is_killed_also_before_its_parent_collects_it():
    assert still_runs(this_process())
    child = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    process = _of(child.pid)
    assert still_runs(process)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and is not collected
    assert still_runs(process) is False
    child.communicate()
    assert still_runs(process) is False


def test_another_process_of_the_same_number_is_another():
    assert still_runs(dataclasses.replace(this_process(), started="1")) is False


def test_of_another_machine_nothing_is_known():
    assert still_runs(dataclasses.replace(this_process(), machine="0" * 16)) is None
    assert still_runs(ProcessRecord(pid=1, started="", machine=this_process().machine)) is None
    assert still_runs(None) is None


def test_where_there_is_no_proc_ps_says_when_a_process_started(monkeypatch, tmp_path):
    monkeypatch.setattr(alive, "_PROC", tmp_path)
    mine = this_process()
    assert mine.started
    assert still_runs(mine)
    assert still_runs(dataclasses.replace(mine, started="Mon Jan  1 00:00:00 2001")) is False


def test_a_process_of_somebody_else_exists(monkeypatch):
    def refuse(pid, number):
        raise PermissionError

    monkeypatch.setattr(os, "kill", refuse)
    assert exists(1)


SILO = {"data-path": "rows.csv", "round-limit-s": 0.1}


def _hang():
    with open("rows.csv") as disk:  # which does not answer
        disk.read()


def _visits():
    client_app.HANG_S = 0.7
    with client_app.never_for_ever(SILO):
        pass
    os.write(1, b"a visit that ends is left alone\n")
    with client_app.never_for_ever(SILO):
        for _ in range(3):
            Limits(seconds=5.0, memory=0)(lambda: time.sleep(0.4) or b"done")
        os.write(1, b"so is one of several pieces\n")
        with alive.paused():
            time.sleep(1.0)
    os.write(1, b"and one in which a person decides\n")
    with client_app.never_for_ever(SILO):
        _hang()


def test_a_silo_s_process_that_hangs_ends_and_says_where(tmp_path):
    os.mkfifo(tmp_path / "rows.csv")
    said, stacks = tmp_path / "stdout", tmp_path / "stderr"
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            os.chdir(tmp_path)
            for stream, path in ((1, said), (2, stacks)):
                os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), stream)
            _visits()
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    left_alone = ["a visit that ends is left alone", "so is one of several pieces", "and one in which a person decides"]
    assert said.read_text().splitlines() == left_alone
    assert "Timeout" in stacks.read_text()
    assert " in _hang" in stacks.read_text()

import dataclasses
import os
import subprocess
import sys

from fedkd_flwr.processes import alive
from fedkd_flwr.processes.alive import ProcessRecord, exists, still_runs, this_process


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

"""A process that hangs is ended, and one that works or waits for a person is not."""

from __future__ import annotations

import os
import signal
import time

from fedkd_flwr.app import client_app
from fedkd_flwr.processes import watchdog
from fedkd_flwr.processes.limits import Limits

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
        with watchdog.paused():
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

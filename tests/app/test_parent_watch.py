"""A ServerApp ends when the process that started it is gone; the real process here hangs and hears no interrupt."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from fedkd_flwr.app.parent_watch import end_with_parent

pytestmark = pytest.mark.skipif(os.name != "posix", reason="Windows cannot say whether a process is there")

HANGS = """
import signal, sys, threading
from fedkd_flwr.app.parent_watch import end_with_parent
signal.signal(signal.SIGINT, signal.SIG_IGN)
end_with_parent(grace_s=0.2)
print("waits", flush=True)
threading.Lock().acquire(), threading.Event().wait()
"""


@pytest.fixture
def parent():
    """A process that runs until it is told to end."""
    process = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


def test_a_process_that_hangs_ends_when_the_one_that_it_watches_has_ended_and_not_before(parent):
    command = [sys.executable, "-c", HANGS, "--parent-pid", str(parent.pid)]
    hanging = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert hanging.stdout.readline() == "waits\n"
        with pytest.raises(subprocess.TimeoutExpired):
            hanging.wait(0.8)  # several times the grace
        parent.communicate()
        assert hanging.wait(30) == 1
    finally:
        hanging.kill()
        hanging.communicate()


def test_an_orderly_end_has_its_time(parent):
    ended = []
    parent.communicate()
    began = time.monotonic()
    end_with_parent(["--parent-pid", str(parent.pid)], grace_s=0.3, end=ended.append).join(30)
    assert ended == [1]
    assert time.monotonic() - began >= 0.3


@pytest.mark.parametrize("arguments", [[], ["--parent-pid"], ["--parent-pid", "none"], ["--run-id", "7"]])
def test_without_a_process_to_watch_nothing_is_watched(arguments):
    assert end_with_parent(arguments) is None

"""The process that runs simulations: why it stops, when it is told to and when nobody is left to tell it."""

import io
import os
import signal
import sys
import threading

import pytest

from fedkd_flwr.simulation import server_process
from fedkd_flwr.simulation.server_process import StarterGone


@pytest.mark.parametrize(("heard", "error"), [("", StarterGone), ("stop\n", KeyboardInterrupt)])
def test_a_process_whose_command_was_killed_stops_for_another_reason_than_one_that_was_told_to(
    monkeypatch, heard, error
):
    monkeypatch.setattr(server_process, "_starter_gone", threading.Event())
    monkeypatch.setattr(sys, "stdin", io.StringIO(heard))
    killed = []
    monkeypatch.setattr(os, "kill", lambda pid, number: killed.append((pid, number)))
    server_process._watch()
    assert killed == [(os.getpid(), signal.SIGINT)]
    with pytest.raises(KeyboardInterrupt) as caught:
        server_process._interrupted(signal.SIGINT, None)
    assert caught.type is error

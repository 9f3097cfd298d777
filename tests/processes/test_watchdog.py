"""A process that hangs is ended, and one that works or waits for a person is not."""

from __future__ import annotations

import subprocess
import sys

HANGS = """
import os, time
from fedkd_flwr.app import client_app
from fedkd_flwr.processes import watchdog
from fedkd_flwr.processes.limits import Limits
client_app.HANG_S = 0.7
os.mkfifo("rows.csv")
with client_app.never_for_ever({"data-path": "rows.csv", "round-limit-s": 0.1}):
    pass
print("a visit that ends is left alone", flush=True)
with client_app.never_for_ever({"data-path": "rows.csv", "round-limit-s": 0.1}):
    for _ in range(3):
        Limits(seconds=5.0, memory=0)(lambda: time.sleep(0.4) or b"done")
    print("so is one of several pieces", flush=True)
    with watchdog.paused():
        time.sleep(1.0)
print("and one in which a person decides", flush=True)
with client_app.never_for_ever({"data-path": "rows.csv", "round-limit-s": 0.1}):
    open("rows.csv").read()  # a disk that does not answer
"""


def test_a_silo_s_process_that_hangs_ends_and_says_where(tmp_path):
    ended = subprocess.run(
        [sys.executable, "-c", HANGS], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert ended.returncode == 1
    left_alone = ["a visit that ends is left alone", "so is one of several pieces", "and one in which a person decides"]
    assert ended.stdout.splitlines() == left_alone
    assert "Timeout" in ended.stderr
    assert 'File "<string>", line 19' in ended.stderr

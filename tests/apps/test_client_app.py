"""What the ClientApp does around a visit."""

from __future__ import annotations

import faulthandler
import subprocess
import sys

import pytest

from fedkd_flwr.apps.client_app import never_for_ever

HANGS = """
import os, time
from fedkd_flwr.apps import client_app
client_app.HANG_S = 0.2
os.mkfifo("rows.csv")
with client_app.never_for_ever({"data-path": "rows.csv", "round-limit-s": 0.1}):
    pass
print("a visit that ends is left alone", flush=True)
with client_app.never_for_ever({"data-path": "rows.csv", "round-limit-s": 0.1}):
    open("rows.csv").read()  # a disk that does not answer
"""


def test_a_silo_s_process_that_hangs_ends_and_says_where(tmp_path):
    ended = subprocess.run(
        [sys.executable, "-c", HANGS], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 1
    assert "a visit that ends is left alone" in ended.stdout
    assert "Timeout" in ended.stderr
    assert 'File "<string>", line 10' in ended.stderr


@pytest.mark.parametrize(
    "config", [{}, {"data-path": "x", "round-limit-s": 0}, {"data-path": "x", "round-limit-s": ""}]
)
def test_nothing_is_ended_in_simulation_or_without_a_limit(config, monkeypatch):
    monkeypatch.setattr(faulthandler, "dump_traceback_later", lambda *_, **__: pytest.fail("it would be ended"))
    with never_for_ever(config):
        pass

"""``fedkd simulate`` for real: beside a Ray that is not there, from a folder with spaces, in the C locale."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from flower_runtime import ROOT

from fedkd_flwr.record.run_record import RunRecord

pytestmark = pytest.mark.flower

MODELS = """
import os

from sklearn.tree import DecisionTreeClassifier


def tree(seed):
    print("made by the user's own code: äöü")
    return DecisionTreeClassifier(max_depth=4, random_state=seed)


class Dying(DecisionTreeClassifier):
    def fit(self, X, y):
        if len(X) <= 24:  # when it is tried
            return super().fit(X, y)
        os.kill(os.getppid(), 9)  # its own process was made for this fit; the party's is that one's parent


def dying(seed):
    return Dying()
"""
SMALL = {"dataset": "synthetic(rows=400)", "partitioner": "iid", "num-rounds": 2, "seed": 5}


@pytest.fixture
def simulate(tmp_path):
    """Return a caller of ``fedkd simulate`` in a folder of the user's."""
    folder = tmp_path / "mit Räumen ü"
    folder.mkdir()
    (folder / "my_models.py").write_text(MODELS, encoding="utf-8")

    def call(**settings):
        words = [f"{key}={value}" for key, value in (SMALL | settings).items()]
        env = {**os.environ, "PYTHONPATH": str(ROOT), "LC_ALL": "C", "RAY_ADDRESS": "127.0.0.1:1"}
        command = [sys.executable, "-P", "-m", "fedkd_flwr.cli", "simulate", *words, "output-dir=out", "--json"]
        done = subprocess.run(
            [*command, "--parties", "3", "--name", "größer"], cwd=folder, env=env, capture_output=True, check=False
        )
        (run,) = json.loads(done.stdout)["runs"]
        assert run["record"].startswith(str(folder / "out" / "runs"))
        return done, RunRecord.load(run["record"]), run

    call.folder = folder
    return call


def test_a_simulation_beside_a_lost_ray_in_the_c_locale_leaves_record_page_and_log(simulate):
    done, record, run = simulate(model="my_models:tree")
    assert (done.returncode, record.status, record.config["name"]) == (0, "completed", "größer")
    assert b"round 2 of 2" in done.stderr
    assert "äöü" in Path(run["log"]).read_text(encoding="utf-8")
    assert Path(run["report"]).is_file()


def test_processes_that_die_are_replaced_and_the_failed_run_says_who_is_missing(simulate):
    done, record, run = simulate(model="my_models:dying")
    assert (done.returncode, record.status) == (1, "failed")
    assert [(r.party, r.code) for r in record.rounds[-1].rejected] == [
        (f"party-{i:03d}", "party-crashed") for i in range(3)
    ]
    lines = done.stderr.decode().splitlines()
    lines = lines[next(i for i, line in enumerate(lines) if line.startswith("error")) :]  # after the progress
    assert len(lines) <= 5
    assert lines[0].startswith("error: the run failed: valid replies in round 1 must be >= 2, got 0")
    assert "exit code -9" in Path(run["log"]).read_text(encoding="utf-8")

"""``fedkd simulate`` for real: beside a Ray that is not there, in the C locale, with processes that die."""

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
"""


def test_a_simulation_beside_a_lost_ray_in_the_c_locale_replaces_processes_that_die_and_leaves_all_its_files(tmp_path):
    folder = tmp_path / "mit Räumen ü"
    folder.mkdir()
    (folder / "my_models.py").write_text(MODELS, encoding="utf-8")
    words = ["dataset=synthetic(rows=400)", "partitioner=iid", "num-rounds=2", "seed=5", "output-dir=out"]
    words += ["model=mixed:my_models:Dying,my_models:tree,my_models:tree", "--parties", "3"]
    words += ["min-parties=2", "centralised=false", "--name", "größer", "--json"]
    ascii = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}
    env = {**os.environ, **ascii, "PYTHONPATH": str(ROOT), "RAY_ADDRESS": "127.0.0.1:1"}
    command = [sys.executable, "-P", "-m", "fedkd_flwr.cli", "simulate", *words]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, check=False)
    (run,) = json.loads(done.stdout)["runs"]
    assert run["record"].startswith(str(folder / "out" / "runs"))
    record = RunRecord.load(run["record"])
    assert (done.returncode, record.status, record.config["name"]) == (0, "completed", "größer")
    for one in record.rounds:
        assert one.answered == ["party-001", "party-002"]
        assert [(r.party, r.code) for r in one.rejected] == [("party-000", "party-crashed")]
    assert b"round 2 of 2" in done.stderr
    log = Path(run["log"]).read_text(encoding="utf-8")
    assert "äöü" in log
    assert "exit code -9" in log
    assert Path(run["report"]).is_file()
    dying = [word.replace("mixed:my_models:Dying,my_models:tree,my_models:tree", "my_models:Dying") for word in command]
    done = subprocess.run(dying, cwd=folder, env=env, capture_output=True, check=False)
    assert done.returncode == 1
    assert b"error: the run failed: valid replies in round 1 must be >= 2, got 0" in done.stderr

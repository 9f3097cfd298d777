"""What a silo refuses of a run before any of its files is read."""

from __future__ import annotations

import json

import pytest

from fedkd_flwr.apps.assembly import make_client
from fedkd_flwr.apps.config import parse_node_config, parse_run_config
from fedkd_flwr.errors import RefusalError

CALLABLES = (
    "os:system",
    "os:popen",
    "os:remove",
    "os:execv",
    "subprocess:run",
    "subprocess:Popen",
    "subprocess:check_output",
    "builtins:exec",
    "builtins:eval",
    "builtins:open",
    "runpy:run_path",
    "importlib:import_module",
    "shutil:rmtree",
    "shutil:copyfile",
    "pickle:load",
    "joblib:load",
    "socket:create_connection",
    "urllib.request:urlopen",
    "ctypes:CDLL",
    "webbrowser:open",
    "mixed:decision-tree,os:system",
)


@pytest.mark.parametrize("name", CALLABLES)
@pytest.mark.parametrize("role", ["model", "teacher-model", "student-model"])
def test_a_silo_runs_nothing_that_a_run_names_by_import_string(name, role, tmp_path):
    node = parse_node_config({"party": "a", "data-path": "a.csv", "public-path": "p.csv"})
    params = json.dumps({"command": f"touch {tmp_path / 'seen'}"})
    run = parse_run_config({"algorithm": "fedkt", role: name, f"{role.removesuffix('-model')}-params": params})
    with pytest.raises(RefusalError, match="of the run must be a name of the zoo at a node without allow-code"):
        make_client(run, node, "1")
    assert not (tmp_path / "seen").exists()

"""`fedkd doctor` at a server: the run's settings, its public set, its models, its ledger."""

import pandas as pd
import pytest

from fedkd_flwr.data.public import short_fingerprint
from fedkd_flwr.data.schema import Column, Schema
from fedkd_flwr.data.tables import load_public
from fedkd_flwr.silo import doctor as module
from fedkd_flwr.silo.check import Level, exit_code
from fedkd_flwr.silo.doctor import check_server


@pytest.fixture
def run(tmp_path):
    pd.DataFrame({"age": range(40)}).to_csv(tmp_path / "public.csv", index=False)
    Schema(columns=(Column(name="age", kind="numeric"),), classes=("no", "yes"), label="y").write(
        tmp_path / "schema.toml"
    )
    return {"public-path": str(tmp_path / "public.csv"), "output-dir": str(tmp_path / "out"), "num-parties": 3}


def _faults(findings):
    return [(one.subject, one.what) for one in findings if one.level == Level.FAULT]


def test_a_server_that_is_ready_prints_the_digits_to_compare(run):
    findings = check_server(run)
    assert exit_code(findings) == 0
    (digits,) = (one for one in findings if one.subject == "fingerprint")
    assert digits.what == short_fingerprint(load_public(run["public-path"]).fingerprint)
    assert f'public-fingerprint="{digits.what}"' in digits.way_out


@pytest.mark.parametrize(
    ("change", "subject", "words"),
    [
        ({"num-rounds": -1}, "settings", "num-rounds must be"),
        ({"public-path": ""}, "settings", "public-path must be given for a check"),
        ({"output-dir": "here"}, "settings", "output-dir must be an absolute path"),
        ({"public-path": "/nowhere/public.csv"}, "public file", "no file /nowhere/public.csv"),
    ],
)
def test_what_is_wrong_at_a_server_is_named(run, change, subject, words):
    (fault,) = _faults(check_server({**run, **change}))
    assert fault[0] == subject
    assert words in fault[1]


@pytest.mark.parametrize(("online", "level"), [(3, Level.READY), (1, Level.WARNING)])
def test_too_few_nodes_online_are_a_warning(run, monkeypatch, online, level):
    class Connection:
        address = ""

    nodes = [{"status": "online" if i < online else "offline"} for i in range(3)]
    monkeypatch.setattr("flwr.cli.flower_config.read_superlink_connection", lambda name: Connection)
    monkeypatch.setattr(module, "flower", lambda *words: {"nodes": nodes})
    (found,) = (one for one in check_server(run, superlink="ops") if one.subject == "nodes")
    assert (found.level, f"{online} of 3 registered nodes are online; the run waits for 3" in found.what) == (
        level,
        True,
    )

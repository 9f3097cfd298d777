"""The command `fedkd doctor`: how a silo is told from a server, exit codes, JSON and the page; and a node's start."""

import json

import pandas as pd
import pytest
import skops.io  # noqa: F401 - once here, and not in the child of every final visit

from fedkd_flwr.data.schema import Column, Schema
from fedkd_flwr.data.shift import Shift


@pytest.fixture
def files(tmp_path, monkeypatch):
    rows = pd.DataFrame({"age": range(60), "y": ["no", "yes"] * 30})
    rows.to_csv(tmp_path / "own.csv", index=False)
    rows[["age"]].to_csv(tmp_path / "public.csv", index=False)
    Schema(columns=(Column(name="age", kind="numeric"),), classes=("no", "yes"), label="y").write(
        tmp_path / "schema.toml"
    )
    monkeypatch.chdir(tmp_path)
    # which takes most of a look's time, and is tested by itself
    monkeypatch.setattr("fedkd_flwr.silo.doctor.find_shift", lambda *rows, rng: Shift(auc=0.5, fit=1.0))
    return tmp_path


def _node(folder):
    return [f'party="a" data-path="own.csv" public-path="public.csv" state-dir="{folder}" model="decision-tree"']


def test_a_silo_is_checked_by_words_by_a_file_and_by_the_node_s_own_options(fedkd, files):
    words = _node(files)[0].replace('"', "").split()
    (files / "node.toml").write_text("\n".join(_node(files)[0].split()), encoding="utf-8")
    given = (
        (*words, "--json"),
        ("node.toml", "--json"),
        ("--node-config", *_node(files), "--json"),
        ("--json", "--", "--insecure", "--node-config", "node.toml"),
    )
    told = [json.loads(fedkd("doctor", *one).out) for one in given]
    assert [one["exit_code"] for one in told] == [0] * 4
    assert {tuple(f["subject"] for f in one["findings"]) for one in told} == {
        tuple(f["subject"] for f in told[0]["findings"])
    }


def test_the_exit_code_is_that_of_the_worst_finding(fedkd, files):
    pd.read_csv(files / "own.csv").head(30).to_csv(files / "few.csv", index=False)
    few = _node(files)[0].replace("own.csv", "few.csv")
    done = fedkd("doctor", "--node-config", few)
    assert (done.code, "warning    rows          24 rows to learn from" in done.out) == (1, True)
    done = fedkd("doctor", "--node-config", few.replace("few.csv", "fex.csv"))
    assert done.code == 3
    assert "fex.csv" in done.out


def test_a_server_is_checked_by_a_run_s_settings(fedkd, files):
    done = fedkd("doctor", "public-path=public.csv", f"output-dir={files}", "num-parties=3")
    assert done.code == 0
    assert "public-fingerprint=" in done.out


def test_a_node_that_could_answer_nobody_does_not_start_and_one_with_bad_rows_does(fedkd, files, monkeypatch):
    started = []
    monkeypatch.setattr("fedkd_flwr.silo.node.run_node", lambda options, **rest: started.append(options) or 0)
    config = _node(files)[0]
    run = ["node", "run", "--approved", files / "approved", "--"]
    done = fedkd(*run, "--node-config", config.replace("own.csv", "gone.csv"))
    assert (done.code, started) == (3, [])
    assert "NOT READY  missing file" in done.out
    assert done.err.count("\n") == 1
    assert "--no-check starts it anyway" in done.err
    pd.DataFrame({"age": [1], "y": ["maybe"]}).to_csv(files / "own.csv", index=False)
    done = fedkd(*run, "--node-config", config)
    assert (done.code, len(started)) == (0, 1)
    assert "NOT READY  class outside schema" in done.out


def test_a_node_is_started_by_a_file_and_words_as_doctor_is_asked(fedkd, files, monkeypatch):
    from fedkd_flwr.silo.check_link import read_supernode_options

    started = []
    monkeypatch.setattr("fedkd_flwr.silo.node.run_node", lambda options, **rest: started.append(options) or 0)
    (files / "node.toml").write_text(
        "\n".join(_node(files)[0].split()) + "\nrequire-privacy = false\n", encoding="utf-8"
    )
    words = ("node.toml", "party=st mary", "--superlink", "link:1", "--insecure", "--no-check")
    done = fedkd("node", "run", "--approved", files / "approved", *words, "--", "--max-retries", "5")
    assert done.code == 0
    values, link = read_supernode_options(started[0])
    assert (link.address, link.insecure, started[0][:2]) == ("link:1", True, ["--max-retries", "5"])
    assert values == {
        "party": "st mary",
        "data-path": str(files / "own.csv"),
        "public-path": str(files / "public.csv"),
        "state-dir": str(files),
        "model": "decision-tree",
        "require-privacy": False,
    }
    done = fedkd("node", "run", "--approved", files / "approved", "data-path=gone.csv", "public-path=public.csv")
    assert (done.code, len(started)) == (3, 1)

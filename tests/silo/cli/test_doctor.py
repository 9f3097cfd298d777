"""The command `fedkd doctor`: how a silo is told from a server, exit codes, JSON and the page; and a node's start."""

import json

import pandas as pd
import pytest
import skops.io  # noqa: F401 - once here, and not in the child of every final visit
from schemas import column, schema_of

from fedkd_flwr.data.shift import Shift


@pytest.fixture
def files(tmp_path, monkeypatch):
    rows = pd.DataFrame({"age": range(60), "y": ["no", "yes"] * 30})
    rows.to_csv(tmp_path / "own.csv", index=False)
    (rows[["age"]] + 0.5).to_csv(tmp_path / "public.csv", index=False)
    schema_of(column("age"), label="y").write(tmp_path / "schema.toml")
    monkeypatch.chdir(tmp_path)
    # which takes most of a look's time, and is tested by itself
    monkeypatch.setattr("fedkd_flwr.silo.doctor.find_shift", lambda *rows, rng: Shift(auc=0.5, fit=1.0))
    return tmp_path


def _node(folder, **changes):
    own = {"party": "a", "data-path": "own.csv", "public-path": "public.csv", "state-dir": folder}
    return [f"{key}={value}" for key, value in (own | {"model": "decision-tree"} | changes).items()]


def test_a_silo_is_checked_by_words_and_by_a_file(fedkd, files):
    (files / "node.toml").write_text("\n".join(f'{word.replace("=", " = " + chr(34))}"' for word in _node(files)))
    told = [json.loads(fedkd("doctor", *one, "--json").out) for one in (_node(files), ["node.toml"])]
    assert [one["exit_code"] for one in told] == [0, 0]
    first, second = ([f["subject"] for f in one["findings"]] for one in told)
    assert first == second


def test_the_exit_code_is_that_of_the_worst_finding(fedkd, files):
    pd.read_csv(files / "own.csv").head(30).to_csv(files / "few.csv", index=False)
    done = fedkd("doctor", *_node(files, **{"data-path": "few.csv"}))
    assert (done.code, "warning    rows          24 rows to learn from" in done.out) == (1, True)
    done = fedkd("doctor", *_node(files, **{"data-path": "fex.csv"}))
    assert (done.code, "fex.csv" in done.out) == (3, True)


def test_a_server_is_checked_by_a_run_s_settings(fedkd, files):
    done = fedkd("doctor", "public-path=public.csv", f"output-dir={files}", "num-parties=3")
    assert done.code == 0
    assert "public-fingerprint=" in done.out


def test_a_node_that_could_answer_nobody_does_not_start_and_one_with_bad_rows_does(fedkd, files, monkeypatch):
    started = []
    monkeypatch.setattr("fedkd_flwr.silo.node.run_node", lambda values, link, **_: started.append((values, link)) or 0)
    run = ["node", "run", "--superlink", "127.0.0.1:1", "--insecure", "--approved", files / "approved"]
    done = fedkd(*run, *_node(files, **{"data-path": "gone.csv"}))
    assert (done.code, started) == (3, [])
    assert "NOT READY  missing file" in done.out
    assert done.err.count("\n") == 1
    assert "--no-check starts it anyway" in done.err
    pd.DataFrame({"age": [1], "y": ["maybe"]}).to_csv(files / "own.csv", index=False)
    done = fedkd(*run, *_node(files))
    assert done.code == 0
    assert "NOT READY  class outside schema" in done.out
    ((values, link),) = started
    assert (link.address, link.insecure) == ("127.0.0.1:1", True)
    assert (values["party"], values["data-path"]) == ("a", str(files / "own.csv"))

"""``python -m benchmarks.harness``: which rows are run, and which are shown."""

import json
import sys

import pytest
from report.conftest import sample

from benchmarks.harness.__main__ import bench, main
from benchmarks.harness.runs import Bench
from fedkd_flwr.errors import ConfigError

TABLE = "label-skew-digits"


@pytest.fixture(autouse=True)
def _no_pictures(monkeypatch):
    """Pictures take most of the time."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)


@pytest.fixture
def ran(monkeypatch):
    """Return the list of (consensus, partitioner, seed) that were simulated."""
    done = []

    def simulate(self, settings, show):
        done.append((settings["consensus"], settings.get("dirichlet-alpha", "iid"), settings["seed"]))
        return sample(3, 2)

    monkeypatch.setattr(Bench, "_simulate", simulate)
    return done


def _written(folder):
    return json.loads((folder / "bench" / f"{TABLE}.json").read_text())


def _shown(folder):
    return {line["row"] for line in _written(folder)["lines"]}


def test_only_the_named_rows_are_run_and_rows_that_were_run_before_stay_in_the_table(tmp_path, ran):
    assert bench([TABLE], row=["0.1, majority"], seeds=1, output_dir=tmp_path) == 0
    assert ran == [("majority", 0.1, 1001)]
    assert len(_shown(tmp_path)) == 1
    assert bench([TABLE], row=["iid"], seeds=2, output_dir=tmp_path) == 0
    assert {alpha for _, alpha, _ in ran[1:]} == {"iid"}
    assert any("0.1" in row for row in _shown(tmp_path))
    assert all("0.5" not in row for row in _shown(tmp_path))


def test_a_row_that_there_is_not_is_refused_with_those_there_are(tmp_path, ran):
    with pytest.raises(ConfigError, match=r"--row must be in the name of a row: .*majority.*, got 'Adlut'"):
        bench([TABLE], row=["Adlut"], output_dir=tmp_path)
    assert ran == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "table must be one of"),
        (("--list", "fedkt-99"), "table must be one of"),
        (("fedkt-1", "--data-root", "none"), "be a folder"),
        (("--lisst",), "No such option"),
    ],
)
def test_a_wrong_command_line_is_refused_in_one_line(words, said, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["x", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    assert said in line


def test_the_list_names_every_table(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["x", "--list", "--json"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert TABLE in {one["name"] for one in json.loads(capsys.readouterr().out)["tables"]}

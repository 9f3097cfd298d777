"""``fedkd bench``: which rows are run, and which are shown."""

from __future__ import annotations

import json

import pytest
from report.conftest import sample

from fedkd_flwr.app.bench import Bench
from fedkd_flwr.cli.bench import bench
from fedkd_flwr.errors import ConfigError, DataError
from fedkd_flwr.simulation.simulate import Ended

TABLE = "label-skew-digits"


@pytest.fixture
def ran(monkeypatch, tmp_path):
    """Return the list of (consensus, partitioner, seed) that were simulated."""
    done = []
    path = tmp_path / "record.json"
    path.write_text(sample(3, 2).to_json())

    def simulate(self, settings, show, may_stop):
        done.append((settings["fedct.consensus"], settings.get("dirichlet-alpha", "iid"), settings["seed"]))
        return Ended(run_id="1", status="completed", record=str(path))

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


def test_the_command_written_down_makes_all_that_is_shown_and_not_the_last_rows_alone(tmp_path, ran, monkeypatch):
    monkeypatch.setattr("sys.argv", ["fedkd", "bench", TABLE, "--row", "iid", "--row=0.5", "--seeds", "1"])
    bench([TABLE], row=["iid", "0.5"], seeds=1, output_dir=tmp_path)
    assert _written(tmp_path)["made"]["command"] == f"fedkd bench {TABLE} --seeds 1"


def test_rows_that_need_data_are_refused_with_the_same_command_and_the_data_root(tmp_path, ran):
    with pytest.raises(DataError, match="Run: fedkd bench fedkt-1 --row Adult --data-root /path/to/data"):
        bench(["fedkt-1"], row=["Adult"], output_dir=tmp_path)
    assert ran == []


def test_a_row_that_there_is_not_is_refused_with_those_there_are(tmp_path, ran):
    with pytest.raises(ConfigError, match=r"--row must be in the name of a row: .*majority.*, got 'Adlut'"):
        bench([TABLE], row=["Adlut"], output_dir=tmp_path)
    assert ran == []

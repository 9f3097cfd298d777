"""``fedkd bench``: which rows are run, and which are shown."""

from __future__ import annotations

import json

import pytest
from report.conftest import sample

from fedkd_flwr.apps.bench import Bench
from fedkd_flwr.apps.simulate import Ended
from fedkd_flwr.commands.bench import bench
from fedkd_flwr.errors import ConfigError

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


def _shown(folder):
    return {line["row"] for line in json.loads((folder / "bench" / f"{TABLE}.json").read_text())["lines"]}


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

"""`fedkd compare`: the runs of a folder beside each other."""

import json

import pytest


@pytest.fixture
def runs(make_record, tmp_path):
    """Return a folder with two runs of one name and one of another model."""
    for run_id, name, model, seed in (("11", "plain", "knn", 1), ("12", "plain", "knn", 2), ("13", "", "mlp", 1)):
        record = make_record(2, 2, seed=seed)
        record.run_id, record.config["name"] = run_id, name
        record.config |= {"dataset": "digits", "model": model, "seed": seed}
        (tmp_path / "runs" / run_id).mkdir(parents=True)
        (tmp_path / "runs" / run_id / "record.json").write_text(record.to_json())
    return tmp_path


def test_a_name_that_several_runs_have_means_all_of_them(fedkd, runs):
    done = fedkd("compare", "plain", "13", "--json", "--output-dir", runs)
    assert done.code == 0
    assert [group["seeds"] for group in json.loads(done.out)["groups"]] == [[1, 2], [1]]


def test_a_figure_that_nobody_measures_is_refused_with_those_there_are(fedkd, runs):
    done = fedkd("compare", "plain", "13", "--by", "beauty", "--output-dir", runs)
    assert done.code == 2
    assert done.err.startswith("error: --by must be one of balanced-accuracy, accuracy, ")

"""Runs that there are: pages, tables, comparisons and the list."""

import json

import pytest


@pytest.fixture
def saved(make_record, tmp_path, no_pictures):
    path = tmp_path / "runs" / "77" / "record.json"
    path.parent.mkdir(parents=True)
    path.write_text(make_record(3, 2).to_json(), encoding="utf-8")
    return path


def test_the_page_lies_beside_the_record_and_its_path_is_printed(fedkd, saved, tmp_path):
    done = fedkd("report", "7", "--output-dir", tmp_path)
    page = saved.parent / "report.html"
    assert (done.code, done.out.strip()) == (0, str(page))
    assert "3 parties reach" in page.read_text(encoding="utf-8")
    assert "fedkd report 7300123456789012345 --publishable" in page.read_text(encoding="utf-8")


def test_the_publishable_page_does_not_replace_the_operators(fedkd, saved):
    fedkd("report", saved)
    fedkd("report", saved, "--publishable")
    assert "3 parties reach" in (saved.parent / "report.html").read_text(encoding="utf-8")
    assert "3 parties took part" in (saved.parent / "report-publishable.html").read_text(encoding="utf-8")


def test_the_page_may_go_elsewhere_and_is_opened_on_request(fedkd, saved, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("fedkd_flwr.cli.runs.open_page", opened.append)
    page = tmp_path / "x" / "y.html"
    assert fedkd("report", saved, "--output", page, "--open").code == 0
    assert opened == [page.as_uri()]


def test_the_table_and_the_record_are_printed_instead(fedkd, saved):
    assert "3 answered of 3 asked" in fedkd("report", saved, "--table").out
    record = json.loads(fedkd("report", saved, "--json").out)
    assert record["parties"][0]["federated"]["common"]["n"] == 2000
    assert json.loads(fedkd("report", saved, "--json", "--publishable").out)["parties"][0]["federated"] == {}
    assert not (saved.parent / "report.html").exists()
    assert json.loads(fedkd("report", "--schema").out)["$schema"].endswith("2020-12/schema")


def test_csv_files_hold_the_tables(fedkd, saved, tmp_path):
    done = fedkd("report", saved, "--csv", tmp_path / "csv")
    names = [line.rpartition("/")[2] for line in done.out.split()]
    assert names == ["rounds.csv", "parties.csv", "party_rounds.csv", "models.csv"]
    lines = (tmp_path / "csv" / "rounds.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("run_id,seed,server_round,asked")
    assert lines[2].startswith("7300123456789012345,1,2,3")


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
    assert json.loads(done.out)["groups"] == {"A": ["11", "12"], "B": ["13"]}


def test_a_figure_that_nobody_measures_is_refused_with_those_there_are(fedkd, runs):
    done = fedkd("compare", "plain", "13", "--by", "beauty", "--output-dir", runs)
    assert done.code == 2
    assert done.err.startswith("error: --by must be one of balanced-accuracy, accuracy, ")


def test_runs_lists_what_can_be_read_and_says_what_cannot(fedkd, places):
    done = fedkd("runs", "list", "--json", "--output-dir", places)
    found = {line["record"].split("/")[-2]: line for line in json.loads(done.out)}
    assert done.code == 0
    assert found["100"]["figure"]["n"] == 2000
    assert found["102"]["status"] == "failed"
    assert {found[f"20{i}"]["status"] for i in range(6)} == {"unreadable"}
    assert "200" in fedkd("runs", "list", "--output-dir", places).out
    assert "(8 older ones" in fedkd("runs", "list", "--limit", "1", "--output-dir", places).err

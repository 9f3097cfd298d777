"""The commands of a server of real silos: runs that are waited for, schemas, and public rows."""

import json

import pytest
from click.testing import CliRunner

from fedkd_flwr.app import submit
from fedkd_flwr.cli.main import group
from fedkd_flwr.data.schema import Schema
from fedkd_flwr.silo.bundles import Bundle


@pytest.fixture
def waited(fedkd, monkeypatch):
    """Return a caller of ``fedkd server run --wait`` whose server logs these lines, and ends so."""

    def call(lines, how, details, *words):
        bundle = Bundle(content=b"", sha256="ab", app="a", version="1", client_app="", files={})
        monkeypatch.setattr(submit, "submit", lambda *_, **__: submit.Submitted(run_id="7", bundle=bundle))
        monkeypatch.setattr(submit, "follow", lambda *_: iter(lines))
        monkeypatch.setattr(submit, "status", lambda *_: (how, details))
        return fedkd("server", "run", "--wait", *words)

    return call


ROUND, LEFT = "round 1/2: 2 of 3 parties answered", "left out of round 1: south: not-allowed"
NOT_READY = "north is not ready: missing-file. `fedkd doctor` there says why."
LOG = [f"WARNING :   {NOT_READY}", f"WARNING :   {LEFT}", f"INFO :      {ROUND}"]


def test_a_run_that_is_waited_for_shows_the_codes_of_silos_as_they_come_and_how_it_ended(waited):
    done = waited(LOG, "finished:stopped", "N/A")
    assert done.code == 1
    told = [NOT_READY, LEFT, "error: the run was stopped"]
    assert [line for line in done.err.splitlines() if line in told] == told


def test_quiet_shows_no_progress_of_a_run_that_is_waited_for_and_verbose_all_of_its_log(waited):
    assert "round 1 of 2" in waited(LOG, "finished:completed", "").err
    assert waited(LOG, "finished:completed", "", "-q").err == f"{NOT_READY}\n{LEFT}\n"
    assert waited(LOG, "finished:completed", "", "-v").err == "\n".join([*LOG, ""])


@pytest.mark.parametrize(("how", "code"), [("finished:completed", 0), ("finished:failed", 1)])
def test_a_submitted_run_that_is_waited_for_has_its_exit_code(waited, how, code):
    lines = [f"INFO :      {ROUND}", "INFO :      record: /srv/record.json"]
    details = "ServerApp failed with exception: too few parties"  # so Flower begins what it says
    done = waited(lines, how, details, "public-path=/srv/p.csv", "--superlink", "ops")
    assert done.code == code
    assert done.out.splitlines() == ["run     7", "bundle  ab  a 1", "record: /srv/record.json"]
    assert ("error: the run failed: too few parties\n" in done.err) is (code == 1)


def test_a_run_at_no_superlink_of_silos_is_refused_before_flower_simulates_one(fedkd, monkeypatch, tmp_path):
    monkeypatch.setenv("FLWR_HOME", str(tmp_path))
    done = fedkd("server", "run", "public-path=public.csv")
    assert done.code == 2
    assert "the SuperLink must be one that silos are connected to, got the default (:local:)" in done.err
    assert "fedkd dev net 3" in done.err


@pytest.fixture
def messy(tmp_path):
    path = tmp_path / "public.csv"
    rows = [f"P{i};{i},5;ward {i % 3};{'no' if i % 2 else 'yes'}" for i in range(40)]
    rows[6] = "P6;<0,5;?;no"
    path.write_text("\n".join(["Patient;Laktat;ward;y", *rows]))
    return path


def _server(*words):
    return CliRunner().invoke(group(), ["server", *map(str, words)])


def test_it_says_what_was_found_and_writes_the_schema_beside_the_table(messy):
    done = _server("schema", messy, "--label", "y")
    assert done.exit_code == 0, done.output
    assert "1 cell is no number: '<0,5' in row 7: a bound is read as its number" in done.output
    assert f"To drop them all: fedkd server schema {messy} --label y --id-column Patient" in done.output
    schema = Schema.read(messy.parent / "schema.toml")
    assert schema.id_column == "Patient"
    assert [column.reading.decimal for column in schema.columns] == [",", "."]


def test_its_next_command_does_the_same_and_suggests_nothing_more(messy, tmp_path):
    first = json.loads(_server("schema", messy, "--label", "y", "--json").output)
    written = Schema.read(first["schema"])
    again = json.loads(_server("schema", *first["next"].split()[3:], "--json", "--output", tmp_path / "b.toml").output)
    assert Schema.read(tmp_path / "b.toml") == written
    assert again["next"] == ""
    assert {"name": "y", "read_as": "label, 2 classes", "repaired": 0, "missing": 0, "note": "no, yes"} in again[
        "columns"
    ]


def test_a_schema_is_written_from_names_edited_and_becomes_the_file_of_a_counting_run(tmp_path):
    schema = tmp_path / "schema.toml"
    made = _server("public", schema, "--columns", "age,ward,outcome", "--label", "outcome", "--classes", "home,stay")
    assert made.exit_code == 0, made.output
    assert Schema.read(schema).classes == ("home", "stay")
    assert "not be there yet" in str(_server("public", schema, "--columns", "age").exception)
    schema.write_text(schema.read_text().replace("[0, 1, 2]", "[18, 30, 99]"))
    found = json.loads(_server("public", schema, "--output", tmp_path / "bins", "--json").output)
    assert found["settings"][:2] == ["algorithm=noisy-sums", "epsilon=0.5"]
    assert (tmp_path / "bins" / "bins.csv").read_text().splitlines() == ["age,ward", "24.0,24.0", "64.5,64.5"]

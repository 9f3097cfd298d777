"""The command ``fedkd server public``: a schema to edit, the public file of a counting run, and what it refuses."""

import json

from click.testing import CliRunner

from fedkd_flwr.cli.main import group
from fedkd_flwr.data.schema import Schema


def said(*words):
    return CliRunner().invoke(group(), ["server", "public", *map(str, words)])


def test_a_schema_is_written_from_names_edited_and_becomes_the_file_of_a_counting_run(tmp_path):
    schema = tmp_path / "schema.toml"
    made = said(schema, "--columns", "age,ward,outcome", "--label", "outcome", "--classes", "home,stay")
    assert made.exit_code == 0, made.output
    assert Schema.read(schema).classes == ("home", "stay")
    assert "not be there yet" in str(said(schema, "--columns", "age").exception)
    schema.write_text(schema.read_text().replace("[0, 1, 2]", "[18, 30, 99]"))
    found = json.loads(said(schema, "--output", tmp_path / "bins", "--json").output)
    assert found["settings"][:2] == ["algorithm=noisy-sums", "epsilon=0.5"]
    assert (tmp_path / "bins" / "bins.csv").read_text().splitlines() == ["age,ward", "24.0,24.0", "64.5,64.5"]


def test_a_run_that_is_not_there_is_refused(tmp_path):
    assert said("nothing", "--output-dir", tmp_path).exit_code != 0

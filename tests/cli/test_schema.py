import json

import pytest
from click.testing import CliRunner

from fedkd_flwr.cli import main as command
from fedkd_flwr.data.schema import Schema


@pytest.fixture
def messy(tmp_path):
    path = tmp_path / "public.csv"
    rows = [f"P{i};{i},5;ward {i % 3};{'no' if i % 2 else 'yes'}" for i in range(40)]
    rows[6] = "P6;<0,5;?;no"
    path.write_text("\n".join(["Patient;Laktat;ward;y", *rows]))
    return path


def _run(*words):
    return CliRunner().invoke(command.group(), ["server", "schema", *map(str, words)])


def test_it_says_what_was_found_and_writes_the_schema_beside_the_table(messy):
    done = _run(messy, "--label", "y")
    assert done.exit_code == 0, done.output
    assert "1 cell is no number: '<0,5' in row 7: read as the limit itself (--ranges-as number)" in done.output
    assert f"To drop them all: fedkd server schema {messy} --label y --id-column Patient" in done.output
    schema = Schema.read(messy.parent / "schema.toml")
    assert schema.id_column == "Patient"
    assert [column.reading.decimal for column in schema.columns] == [",", "."]


def test_its_next_command_does_the_same_and_suggests_nothing_more(messy, tmp_path):
    first = json.loads(_run(messy, "--label", "y", "--json").output)
    written = Schema.read(first["schema"])
    again = json.loads(_run(*first["next"].split()[3:], "--json", "--output", tmp_path / "b.toml").output)
    assert Schema.read(tmp_path / "b.toml") == written
    assert again["next"] == ""
    assert {"name": "y", "read_as": "label, 2 classes", "repaired": 0, "missing": 0, "note": "no, yes"} in again[
        "columns"
    ]


def test_a_file_without_a_header_in_another_encoding_has_a_schema_that_says_both(tmp_path):
    path = tmp_path / "public.csv"
    path.write_bytes("".join(f"{i},юг,{'да' if i % 2 else 'нет'}\n" for i in range(40)).encode("cp1251"))
    done = _run(path, "--label", "column-3", "--header", "none", "--encoding", "windows-1251")
    assert done.exit_code == 0, done.output
    schema = Schema.read(tmp_path / "schema.toml")
    assert (schema.header, schema.encoding) == ("column-1,column-2,column-3", "windows-1251")
    assert schema.classes == ("да", "нет")


def test_a_mistake_is_one_sentence_and_status_2(messy, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["fedkd", "server", "schema", str(messy), "--label", "y", "--drop", "z"])
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("error: drop must name columns other than the label: Patient, Laktat")

import json
import subprocess
import sys

import pytest

from fedkd_flwr.report.__main__ import main

pytestmark = pytest.mark.usefixtures("no_pictures")


@pytest.fixture
def saved(make_record, tmp_path):
    path = tmp_path / "record.json"
    path.write_text(make_record(3, 2).to_json(), encoding="utf-8")
    return path


def test_the_page_lies_beside_the_record_and_its_path_is_printed(saved, capsys):
    assert main([str(saved)]) == 0
    page = saved.parent / "report.html"
    assert capsys.readouterr().out.strip() == str(page.resolve())
    assert "3 parties reach" in page.read_text(encoding="utf-8")


def test_the_publishable_page_does_not_replace_the_operators(saved):
    main([str(saved)])
    main([str(saved), "--publishable"])
    assert "3 parties reach" in (saved.parent / "report.html").read_text(encoding="utf-8")
    assert "3 parties took part" in (saved.parent / "report-publishable.html").read_text(encoding="utf-8")


def test_out_names_the_page(saved, tmp_path):
    assert main([str(saved), "--out", str(tmp_path / "x" / "y.html")]) == 0
    assert (tmp_path / "x" / "y.html").is_file()


def test_a_missing_record_is_said(tmp_path, capsys):
    assert main([str(tmp_path / "none.json")]) == 2
    assert "run record must be a readable file" in capsys.readouterr().err


def test_a_damaged_record_is_said(saved, capsys):
    saved.write_text(saved.read_text(encoding="utf-8")[:100], encoding="utf-8")
    assert main([str(saved)]) == 2
    assert "run record must be whole JSON" in capsys.readouterr().err


def test_a_newer_record_is_said(saved, capsys):
    data = json.loads(saved.read_text(encoding="utf-8"))
    data["schema_version"] = 99
    saved.write_text(json.dumps(data), encoding="utf-8")
    assert main([str(saved)]) == 2
    assert "schema_version must be 2, got 99" in capsys.readouterr().err


def test_a_page_that_cannot_be_written_is_said(saved, capsys):
    assert main([str(saved), "--out", str(saved / "below-a-file.html")]) == 2
    assert "cannot write" in capsys.readouterr().err


def test_it_runs_as_a_module_and_explains_itself():
    command = [sys.executable, "-m", "fedkd_flwr.report", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "--publishable" in done.stdout


def test_the_command_writes_the_page_beside_the_results(tmp_path, capsys, make_sweep):
    (tmp_path / "s.json").write_text(make_sweep().to_json())
    assert main(["sweep", str(tmp_path / "s.json")]) == 0
    assert capsys.readouterr().out.strip() == str((tmp_path / "s.html").resolve())
    assert main(["sweep", str(tmp_path / "none.json")]) == 2
    assert "sweep must be a readable JSON file" in capsys.readouterr().err

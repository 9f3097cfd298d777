"""`fedkd node ledger`: which ledgers are printed, and which are not believed."""

import json
import shutil

import pytest
from ledgers import make_entry, make_ledger, write_ledger

from fedkd_flwr.cli.main import main


def _past(*rounds, party="party-000"):
    return make_ledger(*(make_entry(i, when="2020-01-01T10:00:00+00:00") for i in rounds), party=party)


def _command(*words):
    """Call ``fedkd node ledger`` and return its exit code."""
    with pytest.raises(SystemExit) as ended:
        main(["node", "ledger", *map(str, words)])
    return ended.value.code


@pytest.mark.parametrize("path", ["ledger.sqlite3", "", "../.."])
def test_the_command_takes_a_file_its_folder_or_a_state_dir(tmp_path, capsys, path):
    folder = write_ledger(tmp_path / "ledgers" / "party-000-abababababababab", _past(1))
    assert _command(folder / path, "--delta", "0") == 0
    assert "epsilon 0.4 at delta 0" in capsys.readouterr().out


def test_of_several_ledgers_a_damaged_one_is_an_error_and_the_others_are_printed(tmp_path, capsys):
    for party in ("a", "b", "c"):
        write_ledger(tmp_path / "ledgers" / party, _past(1, party=party))
    (tmp_path / "ledgers" / "b" / "ledger.sqlite3").write_text("{")
    assert _command(tmp_path) == 2
    printed = capsys.readouterr()
    assert "party        a" in printed.out
    assert "party        c" in printed.out
    assert "the releases of its own party only" in printed.out
    assert "ledgers/b/ledger.sqlite3 must be whole" in printed.err


def test_programs_get_the_same_figures(tmp_path, capsys):
    folder = write_ledger(tmp_path / "x", _past(1, 2))
    assert _command(folder, "--delta", "0", "--epsilon-budget", "1", "--json") == 0
    [found] = json.loads(capsys.readouterr().out)
    assert found["epsilon_spent"] == pytest.approx(0.8)
    assert found["epsilon_left"] == pytest.approx(0.2)
    assert [entry["round"] for entry in found["entries"]] == [1, 2]
    assert found["entries"][0]["charged"][0]["words"] == "epsilon 0.4"
    assert found["notes"] == ["protects one record against server; data sets compared: replace one record"]


def test_an_older_copy_or_a_missing_file_is_not_printed(tmp_path, capsys):
    older, newer, headless, gone = (tmp_path / name for name in ("older", "newer", "headless", "gone"))
    for folder in (older, headless, gone):
        write_ledger(folder, _past(1))
    write_ledger(newer, _past(1, 2))
    shutil.copy(newer / "head.json", older / "head.json")
    (headless / "head.json").unlink()
    (gone / "ledger.sqlite3").unlink()
    for folder, message in ((older, "an older copy"), (headless, "a ledger with charges"), (gone, "no such file")):
        assert _command(folder) == 2
        printed = capsys.readouterr()
        assert message in printed.err
        assert not printed.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--delta", "2"], "delta-budget must be"),
        (["--epsilon-budget", "nan"], "epsilon-budget must be"),
        ([], "must hold a ledger"),
    ],
)
def test_wrong_settings_and_empty_places_are_errors(tmp_path, capsys, arguments, message):
    assert _command(tmp_path, *arguments) == 2
    assert message in capsys.readouterr().err


def test_the_command_writes_nothing(tmp_path, capsys):
    folder = write_ledger(tmp_path / "x", _past(1))
    before = {path: path.read_bytes() for path in folder.iterdir()}
    assert _command(folder, "--epsilon-budget", "1") == 0
    assert "left         epsilon 0.6" in capsys.readouterr().out
    assert {path: path.read_bytes() for path in folder.iterdir()} == before

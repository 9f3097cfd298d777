"""`fedkd choose`: what a user types, gets, and is told."""

import pytest
from click.testing import CliRunner

from fedkd_flwr.app.choose import candidates
from fedkd_flwr.cli import main as command
from fedkd_flwr.errors import ConfigError, DataError


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ([], "fedkd choose must be told which rows, got neither table nor dataset. Write table=FILE"),
        (["dataset=digits", "--for", "me"], "--for must be one of parties, home, server, got 'me'"),
        (["dataset=digits", "--by", "luck"], "--by must be one of accuracy, balanced-accuracy, got 'luck'"),
        (["dataset=digits", "a"], "must be KEY=VALUE, or one FILE.toml, got 'a'"),
    ],
)
def test_the_command_says_what_is_wrong(words, error):
    found = CliRunner().invoke(command.group(), ["choose", *words])
    assert isinstance(found.exception, ConfigError)
    assert error in str(found.exception)


def test_the_command_compares_a_table(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))  # where finished runs are kept
    rows = [f"P{i},{i % 7},{i % 3},{'yes' if i % 7 > 3 else 'no'}" for i in range(200)]
    (tmp_path / "rows.csv").write_text("PatNr,a,b,outcome\n" + "\n".join(rows), encoding="utf-8")
    words = [f"table={tmp_path / 'rows.csv'}", "label=outcome", "--parties", "2", "id-column=PatNr", "drop=b"]
    name = next(iter(candidates(2)))
    found = CliRunner().invoke(
        command.group(), ["choose", *words, "model=decision-tree", "dirichlet-alpha=100", "--candidate", name]
    )
    assert found.exception is None, found.exception
    assert name in found.output
    assert "One seed says nothing about noise" in found.output


def test_the_next_command_that_an_error_ends_with_is_one_of_choose(tmp_path):
    (tmp_path / "rows.csv").write_text("day,y\n" + "".join(f"0{i}/04/2021,{'ab'[i % 2]}\n" for i in range(1, 9)))
    found = CliRunner().invoke(command.group(), ["choose", f"table={tmp_path / 'rows.csv'}", "label=y"])
    assert isinstance(found.exception, DataError)
    assert "fedkd choose dataset=table" in str(found.exception).splitlines()[-1]

"""What any failing command looks like: exit code not 0, at most five lines on stderr, no traceback."""

import io
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from fedkd_flwr.cli import main as command
from fedkd_flwr.errors import DataError
from fedkd_flwr.registry import COMMANDS, TASKS
from fedkd_flwr.stores.egress_log import EgressLog

ROOT = Path(__file__).parents[2]


FAILING = [
    ("report nope", "got 'nope'"),
    ("report 200", "must be whole JSON"),
    ("report 202", "schema_version"),
    ("report 204", "204"),
    ("report {root}/bytes.bin", "bytes.bin"),
    ("report 1", "must mean one run"),
    ("report 100 --output {root}/file.txt/x.html", "file.txt"),
    ("report 100 --output {root}/empty", "empty"),
    ("runs list --limit -1", "--limit"),
    ("runs forget nope", "got 'nope'"),
    ("compare", "Missing argument 'RUN"),
    ("compare 100 101", "differ in the data set"),
    ("compare 100 102", "two or more different runs, got 1"),
    ("node ledger {root}/ledger.sqlite3", "ledger.sqlite3"),
    ("node ledger {root}/empty --delta 2", "delta"),
    ("dev audit quorun=0.5", "quorun"),
    ("dev audit {root}/broken.toml", "broken.toml"),
    ("dev audit --shadows 5", "shadows must be even"),
    ("dev net many", "SILOS"),
    ("dev net 1", "SILOS"),
    ("server bundle {root}/empty", "empty"),
    ("server run quorun=0.5", "quorun"),
    ("server run model=knn", "public-path must be given to a run at real silos"),
    ("choose", "must be told which rows, got neither table nor dataset. Write table=FILE"),
    ("choose dataset=digits --for me", "--for must be one of parties, home, server, got 'me'"),
    ("choose dataset=digits --by luck", "--by must be one of accuracy, balanced-accuracy, got 'luck'"),
    ("choose dataset=digits a", "must be KEY=VALUE, or one FILE.toml, got 'a'"),
    ("node approve {root}/none.fab", "none.fab"),
    ("node revoke zz", "zz"),
    ("simulate --parties 0", "--parties"),
    ("simulate fedct.quorum=0,8", "fedct.quorum must be a number"),
    ("simulate modl=knn", "Did you mean model?"),
    ("simulate none.toml", "none.toml"),
]


@pytest.mark.parametrize(("line", "said"), FAILING, ids=lambda value: value)
def test_a_failing_command_says_why_in_at_most_five_lines(fedkd, places, line, said, no_pictures):
    words = line.format(root=places).split()
    if words[0] in ("report", "runs", "compare") or words[1:2] == ["ledger"]:
        words += ["--output-dir", str(places)]
    done = fedkd(*words)
    lines = done.err.splitlines()
    assert (done.code, done.out) == (2, "")
    assert lines[0].startswith("error: ")
    assert said in done.err
    assert len(lines) <= 5
    assert "Traceback" not in done.err
    assert "Errno" not in done.err


@pytest.mark.parametrize("words", [words.split() for words in COMMANDS], ids=" ".join)
def test_each_command_has_examples_and_refuses_unknown_options(fedkd, words):
    done = fedkd(*words, "--help")
    assert done.code == 0
    assert f"Examples:\n    fedkd {' '.join(words)}" in done.out
    done = fedkd(*words, "--no-such-option")
    assert done.code == 2
    assert done.err.startswith("error: No such option")
    assert f"`fedkd {' '.join(words)} --help`" in done.err


def _raising(monkeypatch, error):
    def run(*_, **__):
        raise error

    monkeypatch.setattr("fedkd_flwr.app.runs.list_runs", run)


@pytest.mark.parametrize(("name", "encoding"), [("Häuser–Höfe", "ascii"), (os.fsdecode(b"\xff"), "utf-8")])
def test_what_an_output_cannot_spell_is_escaped_and_no_bug(tmp_path, monkeypatch, name, encoding):
    """A folder's name may be no UTF-8, and a terminal, or a file under Windows, may know few characters."""
    state = tmp_path / name
    EgressLog(state, party="a").append({})
    output = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", output)
    with pytest.raises(SystemExit) as ended:
        command.main(["node", "egress", "verify", str(state)])
    assert ended.value.code == 0
    assert b"holds  no line was altered" in output.buffer.getvalue()


def test_an_error_in_the_package_is_one_sentence_and_its_traceback_lies_in_a_file(fedkd, monkeypatch):
    _raising(monkeypatch, ZeroDivisionError("by\nzero"))
    done = fedkd("runs", "list")
    assert done.code == 70
    [line] = done.err.splitlines()
    assert line.startswith("error in fedkd itself: ZeroDivisionError: by. Its traceback is in ")
    file = Path(line.partition("Its traceback is in ")[2].partition(";")[0])
    assert "ZeroDivisionError: by\nzero" in file.read_text(encoding="utf-8")
    assert file.stat().st_mode & 0o777 == 0o600
    file.unlink()
    monkeypatch.setenv("FEDKD_TRACEBACK", "1")
    assert "Traceback (most recent call last)" in fedkd("runs", "list").err


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (KeyboardInterrupt(), 130, ""),
        (BrokenPipeError(32, "Broken pipe"), 141, ""),
        (
            PermissionError(13, "Permission denied", "/srv/x"),
            2,
            "error: the system refused /srv/x: Permission denied.\n",
        ),
        (DataError("\n".join("abcdefg")), 2, "error: a\nb\nc\nd\n(3 more lines)\n"),
        (SystemExit(3), 3, ""),
        (SystemExit("words"), 1, "words\n"),
        (click.Abort(), 1, "Nothing was done: the question was not answered.\n"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_end_has_its_exit_code(fedkd, monkeypatch, error, code, said):
    _raising(monkeypatch, error)
    done = fedkd("runs", "list")
    assert (done.code, done.err) == (code, said)


@pytest.mark.parametrize(("output", "code"), [("closed", 141), ("/dev/full", 2)])
def test_an_output_that_takes_nothing_leaves_no_traceback(places, output, code):
    program = [sys.executable, "-m", "fedkd_flwr.cli", "runs", "list", "--json", "--output-dir", str(places)]
    if output == "closed":
        reading, writing = os.pipe()
        os.close(reading)
    else:
        writing = os.open(output, os.O_WRONLY)
    done = subprocess.run(program, cwd=ROOT, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert done.returncode == code
    assert len(done.stderr.splitlines()) <= (0 if output == "closed" else 1)


def _commands(group, words=()):
    for name in group.list_commands():
        one = group.get_command(None, name)
        yield (*words, name), one
        if isinstance(one, command.Commands):
            yield from _commands(one, (*words, name))


def _completed(*words):
    from click.shell_completion import ShellComplete

    found = ShellComplete(command.group(), {}, "fedkd", "_FEDKD_COMPLETE").get_completions([*words[:-1]], words[-1])
    return [one.value for one in found]


def test_a_shell_completes_commands_settings_runs_and_files(places):
    assert _completed("si") == ["simulate"]
    assert _completed("node", "egress", "ap") == ["approve"]
    assert _completed("simulate", "dirichlet-") == ["dirichlet-alpha="]
    runs = ("--output-dir", str(places), "10")
    assert sorted(_completed("report", *runs)) == ["100", "101", "102"]
    assert _completed("report", "la") == ["last"]
    assert _completed("simulate", f"{places}/br") == [f"{places}/broken.toml"]
    assert _completed("simulate", f"{places}/ru") == [f"{places}/runs/"]


def test_help_is_short_fits_a_narrow_terminal_and_holds_each_command_once(fedkd, monkeypatch):
    for words in ((), ("node",), ("simulate", "-h")):
        done = fedkd(*words)
        assert (done.code, done.err) == (0, "")
        assert "Usage: fedkd" in done.out
    assert fedkd("-h").out == fedkd("--help").out == fedkd().out
    assert fedkd("compare", "--help").out.count("a name that several runs have means all of") == 1
    assert fedkd("-V").out.startswith("fedkd-flwr ")
    assert sorted(sum(TASKS.values(), ())) == sorted(command.group().list_commands())
    assert all(f"\n{task}:\n" in fedkd("--help").out for task in TASKS)
    assert not [words for words, one in _commands(command.group()) if len(one.help.partition("\n")[0]) > 50]
    monkeypatch.setenv("COLUMNS", "50")
    assert max(map(len, fedkd("--help").out.splitlines())) <= 50


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("compair", "Did you mean 'compare'?\n"),
        ("ledger", "Did you mean 'node ledger'?"),
        ("run", "Did you mean 'server run' or 'node run'?"),
        ("export kt --onnx", "`fedkd export --help`"),
        ("node egress log --nope", "`fedkd node egress log --help`"),
        ("compare --table x.csv", "`fedkd compare --help`"),
        ("simulate --table x.csv", "No such option: --table. It is a setting: write table=VALUE, without --.\n"),
        ("server run --table=x.csv", "No such option: --table. It is a setting: write table=VALUE, without --.\n"),
    ],
)
def test_a_mistyped_command_or_option_is_told_what_was_meant(fedkd, words, said):
    done = fedkd(*words.split())
    assert done.code == 2
    assert said in done.err

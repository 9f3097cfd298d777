"""What any failing command looks like: exit code not 0, at most five lines on stderr, no traceback."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pandas as pd
import pytest
from sklearn.dummy import DummyClassifier

from fedkd_flwr.cli import main as command
from fedkd_flwr.data.public import make_public_set
from fedkd_flwr.data.schema import Schema
from fedkd_flwr.errors import DataError
from fedkd_flwr.models import Classifier
from fedkd_flwr.registry import COMMANDS, TASKS
from fedkd_flwr.stores.egress_log import EgressLog
from fedkd_flwr.stores.saved_model import save

ROOT = Path(__file__).parents[2]


REPORT = [
    ("report", "nope"),
    *(("report", f"20{i}") for i in (0, 2, 4)),
    ("report", "{root}/bytes.bin"),
    ("report", "1"),  # several runs
    ("report", "100", "--output", "{root}/file.txt/x.html"),
    ("report", "100", "--output", "{root}/empty"),
    ("report", "100", "--csv", "{root}/file.txt"),
]
OF_RUNS = [
    ("runs", "list", "--limit", "-1"),
    ("runs", "log", "nope"),
    ("runs", "stop", "100"),  # has ended
    ("compare",),
    ("compare", "100", "101"),
    ("compare", "100", "102"),
    ("node", "ledger", "{root}/ledger.sqlite3"),
    ("node", "ledger", "{root}/empty", "--delta", "2"),
]
OTHERS = [
    ("dev", "audit", "quorun=0.5"),
    ("dev", "audit", "{root}/broken.toml"),
    ("dev", "audit", "--shadows", "5"),
    ("server", "bundle", "{root}/empty"),
    ("choose",),
    ("dev", "net", "many"),
    ("node", "approve", "{root}/none.fab"),
    ("node", "revoke", "zz"),
    ("server", "run", "quorun=0.5"),
    ("simulate", "--parties", "0"),
]


@pytest.mark.parametrize("words", REPORT + OF_RUNS + OTHERS, ids=" ".join)
def test_a_failing_command_says_why_in_at_most_five_lines(fedkd, places, words, no_pictures):
    words = [word.format(root=places) for word in words]
    if words[0] in ("report", "runs", "compare") or words[1:2] == ["ledger"]:
        words += ["--output-dir", str(places)]
    done = fedkd(*words)
    lines = done.err.splitlines()
    assert done.code == 2, done
    assert lines[0].startswith("error: ")
    assert len(lines) <= 5
    assert "Traceback" not in done.err + done.out
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


def test_no_escape_stands_in_a_table_or_json_that_a_program_reads(tmp_path, monkeypatch):
    """As under Windows, where a file that the shell writes knows few characters: no reader knows these escapes."""

    def said(*words):
        output = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
        monkeypatch.setattr(sys, "stdout", output)
        with pytest.raises(SystemExit) as ended:
            command.main([str(word) for word in words])
        assert ended.value.code == 0
        return output.buffer.getvalue().decode()

    pd.DataFrame({"x": range(9), "y": ["café", "złoto", "café"] * 3}).to_csv(tmp_path / "t.csv", index=False)
    assert json.loads(said("server", "schema", tmp_path / "t.csv", "--label", "y", "--json"))["classes"] == [
        "café",
        "złoto",
    ]
    public = make_public_set(pd.read_csv(tmp_path / "t.csv"), Schema.read(tmp_path / "schema.toml"))
    model = Classifier(DummyClassifier(strategy="most_frequent"), num_classes=2).fit(public.X, [0, 1, 0] * 3)
    save(model, public, tmp_path / "m.fedkd")
    labels = said("predict", tmp_path / "m.fedkd", tmp_path / "t.csv", "--labels-only")
    assert labels == "prediction\n" + "café\n" * 9


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


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("node", "ledger", "{root}/bytes.fedkd"), "bytes.fedkd must be a ledger, ledger.sqlite3, got another file"),
        (("predict", "{root}/bytes.fedkd", "{root}/file.txt"), "bytes.fedkd"),
        (("server", "schema", "{root}/empty", "--label", "y"), "got the folder "),
    ],
    ids=lambda words: words[0] if isinstance(words, tuple) else "",
)
def test_a_message_names_the_file_and_shows_none_of_its_bytes(fedkd, places, words, said):
    (places / "bytes.fedkd").write_bytes(b"\xff" * 99)
    error = fedkd(*(word.format(root=places) for word in words)).err
    assert said in error
    assert "\\xff" not in error


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
    assert sorted(_completed("runs", "log", *runs)) == sorted(_completed("report", *runs)) == ["100", "101", "102"]
    assert _completed("runs", "log", "la") == ["last"]
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

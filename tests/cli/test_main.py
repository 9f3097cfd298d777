"""What any failing command looks like: exit code not 0, at most five lines on stderr, no traceback."""

from __future__ import annotations

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


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Return a folder with a good run, a failed one on other data, broken ones, and files of other kinds."""
    from report.conftest import failed, sample

    root = tmp_path_factory.mktemp("places")

    def write(run_id, text):
        folder = root / "runs" / run_id
        folder.mkdir(parents=True)
        (folder / "record.json").write_text(text, encoding="utf-8")

    good = sample(3, 2)
    write("100", good.to_json())
    other = sample(3, 2)
    other.run_id, other.config["dataset"] = "101", "adult"
    write("101", other.to_json())
    write("102", failed().to_json())
    write("200", good.to_json()[:200])
    write("201", "[]")
    write("202", json.dumps(good.as_dict() | {"schema_version": 1}))
    write("203", json.dumps(good.as_dict() | {"seed": "x"}))
    (root / "runs" / "204").mkdir()
    (root / "runs" / "205" / "record.json").mkdir(parents=True)
    (root / "file.txt").write_text("text", encoding="utf-8")
    (root / "bytes.bin").write_bytes(b"\xff\xfe\x00\x80" * 9)
    (root / "broken.toml").write_text("a = = 1\n", encoding="utf-8")
    (root / "empty").mkdir()
    (root / "ledger.sqlite3").write_text("{", encoding="utf-8")
    return root


REPORT = [
    ("report", "nope"),
    *(("report", f"20{i}") for i in range(6)),
    ("report", "{root}/bytes.bin"),
    ("report", "{root}/empty"),
    ("report", "1"),  # several runs
    ("report", ""),
    ("report", "100", "--output", "{root}/file.txt/x.html"),
    ("report", "100", "--output", "{root}/empty"),
    ("report", "100", "--csv", "{root}/file.txt"),
    ("report", "100", "--unknown"),
]
OF_RUNS = [
    ("runs", "list", "--limit", "-1"),
    ("runs", "list", "surplus"),
    ("runs", "log", "nope"),
    ("runs", "log"),
    ("runs", "stop", "100"),  # has ended
    ("runs", "stop", "nope"),
    ("runs", "stop", "200"),
    ("compare",),
    ("compare", "100"),
    ("compare", "100", "101"),
    ("compare", "100", "102"),
    ("compare", "100", "200"),
    ("compare", "100", "101", "--by", "beauty"),
    ("compare", "100", "101", "--force", "--by", "brier"),
    ("compare", "100", "101", "--force", "--output", "{root}/file.txt/x.html"),
    ("node", "ledger", "{root}/empty"),
    ("node", "ledger", "{root}/ledger.sqlite3"),
    ("node", "ledger", "nope"),
    ("node", "ledger", "{root}/empty", "--delta", "2"),
    ("node", "ledger", "{root}/empty", "--epsilon-budget", "nan"),
]
OTHERS = [
    ("chose",),
    ("dev", "audit", "quorun=0.5"),
    ("dev", "audit", "{root}/none.toml"),
    ("dev", "audit", "{root}/broken.toml"),
    ("dev", "audit", "knn"),
    ("dev", "audit", "seed=x"),
    ("dev", "audit", "dataset=nothing"),
    ("dev", "audit", "--shadows", "5"),
    ("dev", "audit", "--parties", "many"),
    ("server", "bundle", "{root}/none"),
    ("server", "bundle", "{root}/empty"),
    ("choose",),
    ("choose", "--dataset", "nothing"),
    ("choose", "--table", "{root}/none.csv", "--label", "y"),
    ("choose", "--table", "{root}/bytes.bin", "--label", "y"),
    ("choose", "--dataset", "digits", "--set", "quorum"),
    ("choose", "--dataset", "digits", "--by", "beauty"),
    ("dev", "net", "many"),
    ("node", "approve", "{root}/none.fab"),
    ("node", "approve", "{root}/file.txt"),
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


def test_a_guess_is_made_at_a_mistyped_command(fedkd):
    assert "Did you mean 'compare'?\n" in fedkd("compair").err


@pytest.mark.parametrize("name", ["Häuser–Höfe", os.fsdecode(b"\xff")])
@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "ascii"])
def test_what_an_output_cannot_spell_is_escaped_and_no_bug(tmp_path, monkeypatch, encoding, name):
    """A folder's name may be no UTF-8, and a terminal, or a file under Windows, may know few characters."""
    state = tmp_path / name
    EgressLog(state, party="a").append({})
    output = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", output)
    with pytest.raises(SystemExit) as ended:
        command.main(["node", "egress", "verify", str(state)])
    assert ended.value.code == 0
    assert b"holds  no line was altered" in output.buffer.getvalue()


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_no_escape_stands_in_a_table_or_json_that_a_program_reads(tmp_path, monkeypatch, encoding):
    """As under Windows, where a file that the shell writes knows few characters: no reader knows these escapes."""

    def said(*words):
        output = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
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
    EgressLog(tmp_path, party="a").append({"approval": {"verdict": "approved", "by": "Łucja", "reason": ""}})
    assert "approved by Łucja" in said("node", "egress", "log", tmp_path, "--csv")


def test_help_alone_is_no_error(fedkd):
    for words in ((), ("node",)):
        done = fedkd(*words)
        assert (done.code, done.err) == (0, "")
        assert "Usage: fedkd" in done.out


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


def test_the_help_lists_arguments_once(fedkd):
    help_ = fedkd("compare", "--help").out
    assert help_.count("a name that several runs have means all of") == 1


_INTERRUPTED_IMPORT = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a test run in the background ignores it
from fedkd_flwr.cli.start import main

class Finder:
    def find_spec(self, name, *_):
        if name == "fedkd_flwr.cli.main":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder())
main()
"""


def test_ctrl_c_before_the_command_is_imported_leaves_no_traceback():
    program = [sys.executable, "-c", _INTERRUPTED_IMPORT]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "")


ASCII = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}


def test_a_locale_that_cannot_write_a_file_s_name_is_no_reason_not_to_find_it(tmp_path):
    (tmp_path / "dätä.csv").write_text("x\n1\n", encoding="utf-8")
    node = f'party="a"\ndata-path="{tmp_path}/dätä.csv"\npublic-path="{tmp_path}/dätä.csv"\nstate-dir="{tmp_path}"\n'
    (tmp_path / "node.toml").write_text(node, encoding="utf-8")
    program = [sys.executable, "-m", "fedkd_flwr.cli", "doctor", str(tmp_path / "node.toml")]
    done = subprocess.run(program, cwd=ROOT, env=os.environ | ASCII, capture_output=True, check=False)
    assert b"public file   schema must be a file" in done.stdout  # the next thing that is missing
    assert b"Traceback" not in done.stderr


def test_a_process_that_flower_starts_in_such_a_locale_says_so(tmp_path):
    (tmp_path / "dätä.csv").write_text("x\n1\n", encoding="utf-8")
    program = "import sys; from fedkd_flwr.data.formats import require_readable as read; "
    program += "read(sys.stdin.buffer.read().decode())"
    path = str(tmp_path / "dätä.csv").encode()
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | ASCII, input=path, capture_output=True, check=False)
    assert b"that this process's locale (ascii) can write" in done.stderr
    assert b"PYTHONUTF8=1" in done.stderr


def test_runs_lists_what_can_be_read_and_says_what_cannot(fedkd, places):
    done = fedkd("runs", "list", "--json", "--output-dir", places)
    found = {line["record"].split("/")[-2]: line for line in json.loads(done.out)}
    assert done.code == 0
    assert found["100"]["figure"]["n"] == 2000
    assert found["102"]["status"] == "failed"
    assert {found[f"20{i}"]["status"] for i in range(6)} == {"unreadable"}
    assert "200" in fedkd("runs", "list", "--output-dir", places).out
    assert "(8 older ones" in fedkd("runs", "list", "--limit", "1", "--output-dir", places).err


def test_an_option_without_its_value_points_to_the_help_of_its_own_command(capsys):
    for words, where in (
        (["export", "kt", "--onnx"], "fedkd export"),
        (["node", "egress", "log", "--nope"], "fedkd node egress log"),
    ):
        with pytest.raises(SystemExit) as caught:
            command.main(words)
        assert caught.value.code == 2
        assert f"`{where} --help`" in capsys.readouterr().err


def test_where_no_browser_can_be_opened_nothing_of_xdg_open_is_printed(monkeypatch, capfd, tmp_path):
    from fedkd_flwr.cli.options import open_page

    fake = tmp_path / "xdg-open"
    fake.write_text("#!/bin/sh\necho noise >&2\n", encoding="utf-8")
    fake.chmod(0o755)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    open_page("/x.html")
    monkeypatch.setenv("PATH", "")
    open_page("/x.html")
    assert capfd.readouterr().err == "No browser was found. Open this page: /x.html\n"


def _command(words, folder, **environment):
    """Run the command as installed, in a folder that is its home too."""
    program = [sys.executable, "-c", "from fedkd_flwr.cli.start import main; main()", *words]
    homes = {"HOME": str(folder), "FLWR_HOME": str(folder / ".flwr"), "PYTHONPATH": str(ROOT)}
    environment = {**os.environ, **homes, **environment}
    return subprocess.run(program, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_warnings_of_libraries_are_no_errors_of_the_command_whatever_python_is_told(tmp_path):
    done = _command(["runs", "list"], tmp_path, PYTHONWARNINGS="error")
    assert (done.returncode, done.stderr.count("\n")) == (0, 1), done.stderr


def test_a_run_at_no_superlink_of_silos_is_refused_before_flower_simulates_one(tmp_path):
    done = _command(["server", "run", "public-path=public.csv"], tmp_path)
    assert done.returncode == 2
    assert "the SuperLink must be one that silos are connected to, got the default (:local:)" in done.stderr
    assert "fedkd dev net 3" in done.stderr


@pytest.mark.parametrize("words", [["simulate"], ["server", "run", "public-path=public.csv"]])
def test_an_algorithm_of_one_s_own_is_found_in_the_current_folder(tmp_path, words):
    (tmp_path / "mine.py").write_text("CARD = 1\n", encoding="utf-8")
    done = _command([*words, "algorithm=mine:CARD"], tmp_path)
    assert "algorithm must name a fedkd_flwr Card, got mine:CARD, a int" in done.stderr


def test_a_home_that_cannot_be_written_is_said_with_the_way_out(tmp_path):
    (tmp_path / "home").write_text("a file", encoding="utf-8")
    home = str(tmp_path / "home")
    done = _command(["server", "run", "public-path=public.csv"], tmp_path, HOME=home, FLWR_HOME="")
    assert (done.returncode, "error: the system refused" in done.stderr) == (2, True)
    assert "It is in your home folder: name another one by FEDKD_HOME" in done.stderr
    done = _command(["simulate", "model=knn", "--parties", "3"], tmp_path, HOME=home)
    assert (done.returncode, "output-dir must be a folder" in done.stderr) == (2, True)


def _log_of_a_server(monkeypatch, lines, how, details):
    from fedkd_flwr.app import submit
    from fedkd_flwr.silo.bundles import Bundle

    made = submit.Submitted(
        run_id="7", bundle=Bundle(content=b"", sha256="ab", app="a", version="1", client_app="", files={})
    )
    monkeypatch.setattr(submit, "submit", lambda *_, **__: made)
    monkeypatch.setattr(submit, "follow", lambda *_: iter(lines))
    monkeypatch.setattr(submit, "status", lambda *_: (how, details))


def test_a_run_that_is_waited_for_shows_the_codes_of_silos_as_they_come_and_how_it_ended(fedkd, monkeypatch):
    lines = [
        "WARNING :   north is not ready: missing-file. `fedkd doctor` there says why.",
        "WARNING :   left out of round 1: south: not-allowed",
        "INFO :      round 1/2: 2 of 3 parties answered",
    ]
    _log_of_a_server(monkeypatch, lines, "finished:stopped", "N/A")
    done = fedkd("server", "run", "--wait")
    assert done.code == 1
    told = [
        "north is not ready: missing-file. `fedkd doctor` there says why.",
        "left out of round 1: south: not-allowed",
        "error: the run was stopped",
    ]
    assert [line for line in done.err.splitlines() if line in told] == told


@pytest.mark.parametrize("word", ["-V", "--version"])
def test_the_version_is_told(fedkd, word):
    done = fedkd(word)
    assert (done.code, done.out.startswith("fedkd-flwr ")) == (0, True)


def test_h_is_help_everywhere(fedkd):
    for words in ((), ("node", "egress"), ("simulate",)):
        assert fedkd(*words, "-h").out == fedkd(*words, "--help").out


@pytest.mark.parametrize(("old", "new"), [("ledger", "'node ledger'"), ("run", "'server run' or 'node run'")])
def test_a_verb_that_stands_in_a_group_is_found_there(fedkd, old, new):
    assert f"Did you mean {new}?" in fedkd(old).err


def test_a_setting_that_is_written_as_an_option_is_told_how_to_be_given(fedkd):
    for words in (("simulate", "--table", "x.csv"), ("server", "run", "--table=x.csv")):
        done = fedkd(*words)
        assert (done.code, done.err) == (
            2,
            "error: No such option: --table. It is a setting: write table=VALUE, without --.\n",
        )
    assert "`fedkd compare --help`" in fedkd("compare", "--table", "x.csv").err


def _commands(group, words=()):
    for name in group.list_commands():
        one = group.get_command(None, name)
        yield (*words, name), one
        if isinstance(one, command.Commands):
            yield from _commands(one, (*words, name))


def test_each_help_begins_with_a_sentence_of_at_most_50_characters():
    long = [words for words, one in _commands(command.group()) if len(one.help.partition("\n")[0]) > 50]
    assert not long


def test_the_tasks_of_the_help_hold_each_command_once(fedkd):
    assert sorted(sum(TASKS.values(), ())) == sorted(command.group().list_commands())
    assert all(f"\n{task}:\n" in fedkd("--help").out for task in TASKS)


def test_help_is_no_wider_than_a_terminal_of_50_columns(fedkd, monkeypatch):
    monkeypatch.setenv("COLUMNS", "50")
    assert max(map(len, fedkd("--help").out.splitlines())) <= 50


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


@pytest.mark.parametrize(
    ("shell", "begins"), [("bash", "_fedkd_completion"), ("zsh", "#compdef"), ("fish", "function")]
)
def test_the_line_that_the_help_names_gives_a_shell_its_script(tmp_path, shell, begins):
    # bash is started by click, to ask for its version
    done = _command([], tmp_path, _FEDKD_COMPLETE=f"{shell}_source")
    assert (done.returncode, done.stdout.lstrip().startswith(begins)) == (0, True), done.stderr
    assert f"_FEDKD_COMPLETE={shell}_source" in _command(["-h"], tmp_path).stdout


def test_fedkd_home_is_where_runs_lie_and_models_get_their_key(tmp_path):
    program = "from fedkd_flwr.app.output import output_root; from fedkd_flwr.models.own_files import SECRET; "
    program += "from fedkd_flwr.silo.bundles import APPROVED; print(output_root(''), SECRET, APPROVED, sep='\\n')"
    environment = os.environ | {"FEDKD_HOME": "mine", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    home = tmp_path / "mine"
    assert done.stdout.splitlines()[:2] == [str(home), str(home / "model-files.key")]
    assert done.stdout.splitlines()[2] in (str(home / "approved"), "/etc/fedkd/approved")


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
def test_an_error_is_red_in_a_terminal_and_nowhere_else_nor_with_no_color(tmp_path):
    def said(terminal, **environment):
        reading, writing = os.openpty() if terminal else os.pipe()
        program = [sys.executable, "-m", "fedkd_flwr.cli", "report", "nope"]
        environment = {key: value for key, value in os.environ.items() if key != "NO_COLOR"} | environment
        subprocess.run(program, cwd=ROOT, env=environment | {"HOME": str(tmp_path)}, stderr=writing, check=False)
        found = os.read(reading, 9999)
        os.close(writing)
        os.close(reading)
        return found

    assert said(True).startswith(b"\x1b[31m\x1b[1merror\x1b[0m: ")
    assert b"\x1b" not in said(False)
    assert b"\x1b" not in said(True, NO_COLOR="1")


def test_quiet_shows_no_progress_of_a_run_that_is_waited_for_and_verbose_all_of_its_log(fedkd, monkeypatch):
    lines = ["INFO :      round 1/2: 2 of 3 parties answered", "WARNING :   left out of round 1: south: not-allowed"]
    _log_of_a_server(monkeypatch, lines, "finished:completed", "")
    assert "round 1 of 2" in fedkd("server", "run", "--wait").err
    assert fedkd("server", "run", "--wait", "-q").err == "left out of round 1: south: not-allowed\n"
    assert fedkd("server", "run", "--wait", "-v").err == "\n".join([*lines, ""])

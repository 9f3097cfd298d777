"""The command as a process of its own: interrupts, homes, warnings, colours, and scripts for shells."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fedkd_flwr.app.output import output_root
from fedkd_flwr.files import HOME
from fedkd_flwr.models.serialize import SECRET
from fedkd_flwr.silo.bundles import APPROVED

ROOT = Path(__file__).parents[2]

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


def _command(words, folder, **environment):
    """Run the command as installed, in a folder that is its home too."""
    program = [sys.executable, "-c", "from fedkd_flwr.cli.start import main; main()", *words]
    homes = {"HOME": str(folder), "FLWR_HOME": str(folder / ".flwr"), "PYTHONPATH": str(ROOT)}
    environment = {**os.environ, **homes, **environment}
    return subprocess.run(program, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_warnings_of_libraries_are_no_errors_of_the_command_whatever_python_is_told(tmp_path):
    done = _command(["runs", "list"], tmp_path, PYTHONWARNINGS="error")
    assert (done.returncode, done.stderr.count("\n")) == (0, 1), done.stderr


def test_a_home_that_cannot_be_written_is_said_with_the_way_out(tmp_path):
    (tmp_path / "home").write_text("a file", encoding="utf-8")
    home = str(tmp_path / "home")
    done = _command(["server", "run", "public-path=public.csv"], tmp_path, HOME=home, FLWR_HOME="")
    assert (done.returncode, "error: the system refused" in done.stderr) == (2, True)
    assert "It is in your home folder: name another one by FEDKD_HOME" in done.stderr


@pytest.mark.parametrize(("shell", "begins"), [("zsh", "#compdef"), ("fish", "function")])
def test_the_line_that_the_help_names_gives_a_shell_its_script(fedkd, tmp_path, shell, begins):
    done = _command([], tmp_path, _FEDKD_COMPLETE=f"{shell}_source")
    assert (done.returncode, done.stdout.lstrip().startswith(begins)) == (0, True), done.stderr
    assert f"_FEDKD_COMPLETE={shell}_source" in fedkd("-h").out


def test_fedkd_home_is_where_runs_lie_and_models_get_their_key(tmp_path):
    program = [sys.executable, "-c", "from fedkd_flwr.files import HOME; print(HOME)"]
    environment = os.environ | {"FEDKD_HOME": "mine", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(program, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == f"{tmp_path / 'mine'}\n"
    assert (output_root(""), SECRET.expanduser()) == (HOME.expanduser(), HOME.expanduser() / "model-files.key")
    assert Path(APPROVED).expanduser() in (HOME.expanduser() / "approved", Path("/etc/fedkd/approved"))


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

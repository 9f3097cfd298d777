"""The commands `fedkd file`: from the keys to the result, by the words that a person types."""

import subprocess
import sys

import pytest
from by_file import NAMES
from click.testing import CliRunner

from fedkd_flwr.app.submit import toml
from fedkd_flwr.cli.main import group
from fedkd_flwr.errors import ConfigError, DataError

pytestmark = pytest.mark.usefixtures("in_this_process")


def _fedkd(*words):
    done = CliRunner().invoke(group(), ["file", *map(str, words)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def _write(path, settings, **keys):
    plain = [f"{key} = {toml(value)}\n" for key, value in settings.items()]
    path.write_text("".join([*plain, "[file]\n", *(f'{key} = "{value}"\n' for key, value in keys.items())]))
    return path


@pytest.fixture
def here(federation, monkeypatch):
    """Write the files of settings; keys beside them are named by relative paths."""
    folder = federation.folder
    settings = {"algorithm": "fedkt", "model": "decision-tree", "public-path": "public.csv", "output-dir": "out"}
    _write(folder / "run.toml", settings, key="server", parties=", ".join(f"{name}.pub" for name in NAMES))
    for name, node in federation.nodes.items():
        _write(folder / f"{name}.toml", node, key=name, server="server.pub")
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    return folder


def test_a_run_goes_by_file_from_the_question_to_the_page(here):
    assert "question.fedkd is for north, south, west" in _fedkd("ask", "../run.toml").output
    shown = _fedkd("show", "question.fedkd").output
    assert "question of server about round 1" in shown
    assert "setting  algorithm = 'fedkt'" in shown
    assert "signature  not checked" in shown
    assert "signature  right, of server" in _fedkd("show", "question.fedkd", "--key", "../server.pub").output
    with pytest.raises(DataError, match="be signed by one whose public key is here"):
        _fedkd("show", "question.fedkd", "--key", "../north.pub")
    for name in NAMES:
        said = _fedkd("answer", "question.fedkd", f"../{name}.toml", "-o", f"{name}.fedkd").output
        assert "answered: question of server about round 1" in said
    assert "labels: uint8" in _fedkd("show", "north.fedkd").output
    files = [f"{name}.fedkd" for name in NAMES]
    assert sum((here / "elsewhere" / file).stat().st_size for file in files) < 6_000 * len(NAMES)
    done = _fedkd("count", *files, "--output-dir", here / "out").output
    assert "3 answered of 3 asked" in done
    assert "next.fedkd, for north, south, west" in done
    (page,) = (here / "out" / "runs").glob("*/report.html")
    assert f"page    {page}" in done
    said = _fedkd("answer", "next.fedkd", "../north.toml").output
    assert f"Your model and page: {here / 'state-north' / 'runs' / page.parent.name}" in said


_HEAR = """
import sys
sys.addaudithook(lambda event, _: print(event, file=sys.stderr) if event.startswith("socket.") else None)
"""
_MAIN = "from fedkd_flwr.cli.main import main\nsys.argv[0] = 'fedkd'\nmain()"


def test_an_answer_opens_no_socket(here):
    """In a process of its own: what this one has imported opens its sockets on import."""
    _fedkd("ask", "../run.toml")

    def heard(code, *words):
        return subprocess.run([sys.executable, "-c", _HEAR + code, *words], capture_output=True, text=True, check=True)

    done = heard(_MAIN, "file", "answer", "question.fedkd", "../north.toml")
    assert "answered: question of server about round 1" in done.stdout
    assert "socket." not in done.stderr
    assert "socket.bind" in heard("import socket; socket.socket().bind(('127.0.0.1', 0))").stderr  # the hook can hear


def test_an_answer_that_waits_says_how_to_approve_it(here):
    _fedkd("ask", "../run.toml")
    done = _fedkd("answer", "question.fedkd", "../north.toml", "approve=always")
    assert done.exit_code == 1
    assert f"fedkd node egress approve last --state-dir {here / 'state-north'}" in done.output
    assert not (here / "elsewhere" / "answer.fedkd").exists()


def test_a_key_that_is_missing_is_asked_for(here):
    text = (here / "run.toml").read_text().replace('key = "server"\n', "")
    (here / "run.toml").write_text(text)
    with pytest.raises(ConfigError, match=r"file\.key must be given"):
        _fedkd("ask", "../run.toml")


def test_doctor_reads_the_same_node_config(here):
    said = CliRunner().invoke(group(), ["doctor", "../north.toml"]).output
    assert "file.key" not in said
    assert "not ready" not in said

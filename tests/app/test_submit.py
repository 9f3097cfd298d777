"""A run is submitted to a SuperLink of silos: Flower is believed only where it says that it succeeded."""

import shutil
import tomllib
from pathlib import Path

import pytest

from fedkd_flwr.app import submit
from fedkd_flwr.app.submit import direct, proxy_of
from fedkd_flwr.cli.main import main
from fedkd_flwr.silo.bundles import build_bundle, installed_differences


class Answer:
    """What ``flwr`` printed."""

    def __init__(self, stdout, stderr=""):
        self.stdout, self.stderr = stdout, stderr


def test_flower_is_believed_only_if_it_says_that_it_succeeded():
    said = submit.flower("run", run=lambda *_, **__: Answer('Starting...\n{"success": true, "run-id": "7"}\n'))
    assert said["run-id"] == "7"
    with pytest.raises(submit.FlowerError, match=r"flwr run must be accepted by Flower, got .*no such SuperLink"):
        submit.flower("run", run=lambda *_, **__: Answer('{"success": false, "error-message": "no such SuperLink"}'))
    # as `flwr stop` of Flower 1.41 prints it for a run that has ended
    refused = "Using SuperLink: ops (10.0.0.7:9093)\\n Stopping run ID 7...\\n\\n[code: 18] Run is already finished."
    with pytest.raises(submit.FlowerError, match=r"flwr stop must .*, got an error: Run is already finished\. `flwr"):
        submit.flower("stop", run=lambda *_, **__: Answer(f'{{"success": false, "error-message": "{refused}"}}\n'))
    with pytest.raises(submit.FlowerError, match="nothing listens"):
        submit.flower("run", run=lambda *_, **__: Answer("", "\x1b[31mError: nothing listens\x1b[0m"))


def test_ctrl_c_while_a_run_is_submitted_says_how_to_learn_whether_it_was(monkeypatch, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(submit, "submit", interrupted)
    with pytest.raises(SystemExit) as caught:
        main(["server", "run", "--superlink", "ops"])
    assert caught.value.code == 130
    assert "Perhaps submitted, perhaps not: `flwr list ops`" in capsys.readouterr().err


ROOT = Path(__file__).parents[2]


@pytest.mark.filterwarnings("ignore:GitWildMatchPattern")
def test_an_installed_package_makes_an_app_with_the_same_settings_and_code(tmp_path, monkeypatch):
    assert submit.app_folder(tmp_path) == ROOT
    installed = tmp_path / "site-packages" / "fedkd_flwr"
    shutil.copytree(ROOT / "fedkd_flwr", installed, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(submit, "_PACKAGE", installed)
    first, second = (build_bundle(submit.app_folder(tmp_path / name)) for name in ("one", "two"))
    assert first.sha256 == second.sha256
    assert installed_differences(first) == []
    apps = [
        tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
        for folder in (tmp_path / "one" / "app", ROOT)
    ]
    assert apps[0]["tool"]["flwr"]["app"] == apps[1]["tool"]["flwr"]["app"]
    assert apps[0]["project"]["version"] == apps[1]["project"]["version"]


def test_every_file_of_the_package_is_one_that_a_flower_bundle_takes():
    """A page's template of another kind would be missing at the server, and no page would be written."""
    package = Path(submit.__file__).parents[1]
    kinds = {path.suffix for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert kinds - {".py", ".md", ".toml", ".json"} <= {".typed"}  # py.typed is for type checkers alone


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch):
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def test_this_machine_is_reached_without_a_proxy_beside_what_was_exempt_before(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "intranet.example,127.0.0.1")
    assert direct()["no_proxy"] == direct()["NO_PROXY"] == "intranet.example,127.0.0.1,localhost,::1"


def test_a_proxy_is_named_by_its_variable_without_its_password(monkeypatch):
    assert proxy_of("link.example.org") == ""
    monkeypatch.setenv("HTTPS_PROXY", "http://ada:secret@proxy.example:3128")
    assert proxy_of("link.example.org") == "HTTPS_PROXY=http://proxy.example:3128"
    assert proxy_of("127.0.0.1") == ""
    monkeypatch.setenv("NO_PROXY", "link.example.org")
    assert proxy_of("link.example.org") == ""

"""The command `fedkd`: what an owner sees before he approves, and what he is told when something is wrong."""

from pathlib import Path

import pytest
from app_bundles import make_bundle
from click.testing import CliRunner

from fedkd_flwr.cli import main as command
from fedkd_flwr.silo.bundles import Approvals
from fedkd_flwr.silo.cli.node import node_settings


@pytest.fixture
def fedkd(tmp_path, monkeypatch):
    """Return a caller of the command, with an installed app ``votes`` and a folder for approvals."""
    package = tmp_path / "site" / "votes"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "client.py").write_text("app = None\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(package.parent))

    def call(*arguments, text=None):
        where = ["--approved", str(tmp_path / "approved")] if arguments[0] == "node" else []
        return CliRunner().invoke(command.group(), [*map(str, arguments), *where], input=text)

    return call


@pytest.fixture
def bundle_file(tmp_path):
    path = tmp_path / "votes.fab"
    path.write_bytes(make_bundle().content)
    return path


def test_an_owner_sees_files_hashes_and_what_will_run_and_is_asked(fedkd, bundle_file, tmp_path):
    bundle = make_bundle()
    shown = fedkd("node", "approve", bundle_file, text="n\n")
    assert shown.exit_code == 1
    assert "votes/client.py" in shown.output
    assert f"sha256     {bundle.sha256}" in shown.output
    assert "runs       votes.client:app, as it is installed here" in shown.output
    assert "installed  the same code" in shown.output
    assert "Nothing was approved." in shown.output
    assert Approvals(tmp_path / "approved").files() == {}
    assert fedkd("node", "approve", bundle_file, text="y\n").exit_code == 0
    assert bundle.sha256 in fedkd("node", "list").output
    assert "is approved already" in fedkd("node", "approve", bundle_file).output
    assert "Revoked" in fedkd("node", "revoke", bundle.sha256[:12]).output
    assert fedkd("node", "list").output == ""


def test_an_owner_sees_what_differs_from_what_is_installed(fedkd, bundle_file):
    changed = make_bundle("app = 1\n", version="1.1", **{"votes/\x1b[2Jnew.py": "y\n"})
    bundle_file.write_bytes(changed.content)
    output = fedkd("node", "approve", bundle_file, text="n\n").output
    assert "installed  other code in 2 files" in output
    assert "           votes/client.py" in output
    assert "\x1b" not in output


def test_with_yes_nobody_is_asked(fedkd, bundle_file):
    done = fedkd("node", "approve", bundle_file, "--yes")
    assert (done.exit_code, "Answer runs" in done.output, "Approved: " in done.output) == (0, False, True)


def _bundle():
    return CliRunner().invoke(command.group(), ["server", "bundle"])


def test_a_bundle_is_of_the_current_folder_or_else_of_this_package(tmp_path, monkeypatch):
    apps, own = [], tmp_path / "own"
    monkeypatch.setattr("fedkd_flwr.app.submit.app_folder", lambda scratch: apps.append(scratch) or own)
    monkeypatch.setattr("fedkd_flwr.silo.cli.node.build_bundle", lambda folder: apps.append(folder) or make_bundle())
    monkeypatch.chdir(tmp_path)
    assert _bundle().output.startswith(make_bundle().sha256)
    assert apps[1:] == [own]
    (tmp_path / "pyproject.toml").touch()
    _bundle()
    assert apps[2:] == [Path()]


def test_settings_that_only_fedkd_file_reads_are_left_out():
    assert node_settings(["party=a", "data-path=/own.csv", "file.key=k"]) == {"party": "a", "data-path": "/own.csv"}
    assert node_settings(None) == {}

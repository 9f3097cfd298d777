"""`fedkd server bundle`."""

from pathlib import Path

from app_bundles import make_bundle
from click.testing import CliRunner

from fedkd_flwr.cli import main as command


def _bundle():
    return CliRunner().invoke(command.group(), ["server", "bundle"])


def test_a_bundle_is_of_the_current_folder_or_else_of_this_package(tmp_path, monkeypatch):
    apps, own = [], tmp_path / "own"
    monkeypatch.setattr("fedkd_flwr.app.app_folder.app_folder", lambda scratch: apps.append(scratch) or own)
    monkeypatch.setattr("fedkd_flwr.silo.cli.bundle.build_bundle", lambda folder: apps.append(folder) or make_bundle())
    monkeypatch.chdir(tmp_path)
    assert _bundle().output.startswith(make_bundle().sha256)
    assert apps[1:] == [own]
    (tmp_path / "pyproject.toml").touch()
    _bundle()
    assert apps[2:] == [Path()]

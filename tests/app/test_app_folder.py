"""The app's folder where the package is installed without its checkout."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

import pytest

from fedkd_flwr.app import app_folder as made_by
from fedkd_flwr.silo.bundles import build_bundle, installed_differences

ROOT = Path(__file__).parents[2]


@pytest.mark.filterwarnings("ignore:GitWildMatchPattern")
def test_an_installed_package_makes_an_app_with_the_same_settings_and_code(tmp_path, monkeypatch):
    assert made_by.app_folder(tmp_path) == ROOT
    installed = tmp_path / "site-packages" / "fedkd_flwr"
    shutil.copytree(ROOT / "fedkd_flwr", installed, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(made_by, "_PACKAGE", installed)
    first, second = (build_bundle(made_by.app_folder(tmp_path / name)) for name in ("one", "two"))
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
    package = Path(made_by.__file__).parents[1]
    kinds = {path.suffix for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert kinds - {".py", ".md", ".toml", ".json"} <= {".typed"}  # py.typed is for type checkers alone

"""Records and logs name the releases that computed."""

import numpy

from fedkd_flwr.app import versions


def test_what_is_installed_is_named_with_its_release_and_what_is_not_is_left_out(monkeypatch):
    monkeypatch.setattr(versions, "_NAMES", ("numpy", "no-such-package"))
    assert versions.installed_versions() == {"numpy": numpy.__version__}

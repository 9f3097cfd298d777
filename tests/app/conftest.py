"""Runs of the apps write pages without pictures, which take most of their time; tests/report looks at those."""

import pytest

from fedkd_flwr.errors import MissingExtraError
from fedkd_flwr.report.figure import Canvas


@pytest.fixture
def in_this_process(monkeypatch):
    """Let silos learn without a child process, as where a system knows no limits: the forks take half of the time."""
    monkeypatch.setattr("fedkd_flwr.app.assembly.limits_of", lambda seconds, gigabytes: None)


@pytest.fixture(autouse=True)
def _no_pictures(monkeypatch):
    def none(self, height):
        raise MissingExtraError("no pictures here")

    monkeypatch.setattr(Canvas, "__init__", none)

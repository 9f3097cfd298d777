"""Runs of the apps write pages without pictures, which take most of their time; tests/report looks at those."""

import pytest

from fedkd_flwr.errors import MissingExtraError
from fedkd_flwr.report.canvas import Canvas


@pytest.fixture(autouse=True)
def _no_pictures(monkeypatch):
    def none(self, height):
        raise MissingExtraError("no pictures here")

    monkeypatch.setattr(Canvas, "__init__", none)

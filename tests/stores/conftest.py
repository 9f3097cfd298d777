"""A disk that need not survive a power cut, for tests of something else that write very often."""

import os

import pytest

from fedkd_flwr.stores import book


@pytest.fixture
def no_power_cut(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    monkeypatch.setattr(book, "SYNC", "OFF")

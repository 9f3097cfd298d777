"""Federations by file, in which nobody opens a socket."""

import socket

import pytest
from by_file import Federation


@pytest.fixture
def federation(tmp_path, monkeypatch):
    """Return three silos and a server, each with its key; whoever opens a socket fails."""

    def no_socket(*_args, **_keywords):
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", no_socket)
    return Federation(tmp_path)

"""Proxies that the environment names."""

from __future__ import annotations

import pytest

from fedkd_flwr.app.proxies import direct, proxy_of


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


def test_flower_itself_goes_past_the_proxy_to_this_machine(monkeypatch):
    import httpx

    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    for name, value in direct().items():
        monkeypatch.setenv(name, value)
    with httpx.Client() as client:
        assert client._transport_for_url(httpx.URL("https://127.0.0.1:50800")) is client._transport
        assert client._transport_for_url(httpx.URL("https://link.example.org")) is not client._transport

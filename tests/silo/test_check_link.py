"""The way to the SuperLink, as `fedkd doctor` looks at it: its certificate, its clock, its address."""

import http.server
import ssl
import threading
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from fedkd_flwr.app import server_app
from fedkd_flwr.errors import ConfigError, FedkdError, TooFewPartiesError
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.silo import check_link
from fedkd_flwr.silo.check import Level
from fedkd_flwr.silo.check_link import Link
from fedkd_flwr.silo.devnet import make_key, make_tls


@contextmanager
def server(tls=None, *, clock=timedelta(0)):
    """Answer as a SuperLink does to whoever has no node: 404 with a date, by HTTPS where ``tls`` is given."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response_only(404)
            self.send_header("Date", format_datetime(datetime.now(UTC) + clock, usegmt=True))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args):
            pass

    made = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tls["server"], tls["key"])
        made.socket = context.wrap_socket(made.socket, server_side=True)
        made.handle_error = lambda *args: None  # a client that does not believe the certificate hangs up
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{made.server_address[1]}"
    finally:
        made.shutdown()
        thread.join()
        made.server_close()


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    (folder / "other").mkdir()
    return make_tls(folder) | {"other": make_tls(folder / "other")["ca"]}


def _by_subject(link):
    return {one.subject: one for one in check_link.check_link(link)}


def test_a_wrong_ca_is_named(tls):
    with server(tls) as address:
        found = _by_subject(Link(address=address, root_certificates=tls["other"]))
    assert found["certificate"].level == Level.FAULT
    assert "is not believed, by the CA of" in found["certificate"].what
    assert "--root-certificates /path/of/ca.crt" in found["certificate"].way_out


@pytest.mark.parametrize(
    ("clock", "level"),
    [
        (timedelta(minutes=10), Level.FAULT),
        (timedelta(seconds=-20), Level.FAULT),
        (timedelta(seconds=60), Level.READY),
        (timedelta(0), Level.READY),
    ],
)
def test_a_clock_that_is_off_is_named(clock, level):
    with server(clock=clock) as address:
        found = _by_subject(Link(address=address, insecure=True))
    assert found["clock"].level == level
    assert ("timedatectl" in found["clock"].way_out) is (level != Level.READY)
    assert found["certificate"].level == Level.WARNING


def test_an_address_where_nobody_listens_is_named(tls):
    with server() as address:
        pass
    (found,) = check_link.check_link(Link(address=address, insecure=True))
    assert (found.subject, found.level) == ("address", Level.FAULT)
    assert "nothing listens there" in found.what


def test_a_key_that_is_none_and_a_certificate_that_nothing_would_look_at_are_named(tls, tmp_path):
    assert Link("host:1", key=make_key(tmp_path / "key").with_suffix("")).keys()
    link = Link("127.0.0.1:1", insecure=True, key=tls["key"])
    key = next(check_link.check_link(link))
    assert (key.subject, key.level, "ssh-keygen -t ecdsa" in key.what) == ("key", Level.FAULT, True)
    with pytest.raises(ConfigError, match="--root-certificates must be left out with --insecure"):
        Link("host:1", insecure=True, root_certificates=tls["ca"])


@pytest.fixture
def expired(tmp_path, monkeypatch):
    class Earlier(datetime):
        @classmethod
        def now(cls, tz=None):
            return super().now(tz) - timedelta(days=400)

    with monkeypatch.context() as patched:
        patched.setattr("fedkd_flwr.silo.devnet.datetime", Earlier)
        return make_tls(tmp_path)


def _arguments(address, tls):
    """Return the command line of a ServerApp of the SuperLink at an address."""
    return ["flwr-serverapp", "--runtime-api-address", address, "--token", "t", "--root-certificates", str(tls["ca"])]


def test_an_expired_certificate_is_named_and_one_that_holds_is_not(tls, expired):
    with server(expired) as address:
        told = check_link.certificate_fault(_arguments(address, expired))
    assert told.startswith("No node can connect: the server's certificate does not hold today by this machine's clock:")
    assert "certificate has expired. Check this machine's date" in told
    with server(tls) as address:
        assert check_link.certificate_fault(_arguments(address, tls)) == ""
    assert check_link.certificate_fault(["flwr-simulation", "--run-id", "5"]) == ""  # it has none


@pytest.mark.parametrize(
    "error",
    [TooFewPartiesError("min-parties must be reached in round 1, got 0 valid replies of 2."), ConnectionError("[SSL]")],
    ids=["nobody answered", "the server itself cannot connect"],
)
def test_a_run_that_ends_so_names_the_certificate_in_its_record(tmp_path, expired, monkeypatch, error):
    def nobody(*_):
        raise error

    class Context:
        run_id = 5
        run_config = {"public-path": "x.csv", "output-dir": str(tmp_path / "out")}  # noqa: RUF012

    monkeypatch.setattr(server_app, "_run", nobody)
    with server(expired) as address:
        monkeypatch.setattr("sys.argv", _arguments(address, expired))
        with pytest.raises(FedkdError, match="No node can connect"):
            server_app.federate(None, Context(), page=False)
    record = RunRecord.load(tmp_path / "out" / "runs" / "5" / "record.json")
    assert record.status == "failed"
    assert f"{error} No node can connect: the server's certificate" in record.reason

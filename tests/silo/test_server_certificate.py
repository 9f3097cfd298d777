"""A server whose certificate has expired says so, and not only that nobody replied."""

import socket
import ssl
import threading
from contextlib import contextmanager
from datetime import datetime, timedelta

import pytest

from fedkd_flwr.app import server_app
from fedkd_flwr.errors import FedkdError, TooFewPartiesError
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.silo.devnet import make_tls
from fedkd_flwr.silo.server_certificate import certificate_fault


@contextmanager
def _tls_server(tls):
    """Accept TLS connections on the loopback; yield the command line of a ServerApp of this SuperLink."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tls["server"], tls["key"])

    def serve():
        while True:
            try:
                with context.wrap_socket(listening.accept()[0], server_side=True) as one:
                    one.recv(1000)
                    one.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            except ssl.SSLError:
                continue
            except OSError:
                return

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        yield ["flwr-serverapp", "--runtime-api-address", address, "--token", "t", "--root-certificates", tls["ca"]]
        listening.shutdown(socket.SHUT_RDWR)
    thread.join(5)


@pytest.fixture
def expired(tmp_path, monkeypatch):
    class Earlier(datetime):
        @classmethod
        def now(cls, tz=None):
            return super().now(tz) - timedelta(days=400)

    with monkeypatch.context() as patched:
        patched.setattr("fedkd_flwr.silo.devnet.datetime", Earlier)
        return {name: str(path) for name, path in make_tls(tmp_path).items()}


def test_an_expired_certificate_is_named_and_one_that_holds_is_not(tmp_path, expired):
    with _tls_server(expired) as arguments:
        told = certificate_fault(arguments)
    assert told.startswith("No node can connect: the server's certificate does not hold today by this machine's clock:")
    assert "certificate has expired. Check this machine's date" in told
    (tmp_path / "new").mkdir()
    with _tls_server({name: str(path) for name, path in make_tls(tmp_path / "new").items()}) as arguments:
        assert certificate_fault(arguments) == ""


def test_a_simulation_has_no_certificate_to_look_at():
    assert certificate_fault(["flwr-simulation", "--run-id", "5"]) == ""


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
    with _tls_server(expired) as arguments:
        monkeypatch.setattr("sys.argv", arguments)
        with pytest.raises(FedkdError, match="No node can connect"):
            server_app.federate(None, Context(), page=False)
    record = RunRecord.load(tmp_path / "out" / "runs" / "5" / "record.json")
    assert record.status == "failed"
    assert f"{error} No node can connect: the server's certificate" in record.reason

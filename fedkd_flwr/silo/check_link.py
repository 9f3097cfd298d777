"""Readiness of the way to the SuperLink: its address, its certificate, this node's key, and the two clocks.

Nothing changes at the server: no node is registered, and none comes online.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import socket
import ssl
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, NoReturn

from fedkd_flwr.app.proxies import proxy_of
from fedkd_flwr.errors import ConfigError, explain
from fedkd_flwr.silo.check import Finding, Level, fault, ready, warning

__all__ = ["Link", "check_link", "read_supernode_options"]

_TIMEOUT_S = 8.0
_EXPIRES_SOON_DAYS = 14
# Flower's SuperLink takes signatures that are up to 5 s from the future, or 305 s old
_AHEAD_S, _BEHIND_S, _NOTED_S = 5.0, 300.0, 2.0


@dataclass(frozen=True, kw_only=True)
class Link:
    """How a node, or an operator, reaches its SuperLink."""

    address: str  # ``host:port``
    insecure: bool = False  # without TLS
    root_certificates: Path | None = None  # the CA's certificate; by default those of the system
    key: Path | None = None  # the node's private key
    node: bool = True  # whether a node connects, which may need a key; not where an operator does


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(explain("options of flower-supernode", "be such options", message))


def read_supernode_options(words: Sequence[str]) -> tuple[dict[str, Any], Link | None]:
    """Return the node config and the link that options of ``flower-supernode`` name; others are passed over.

    Raises `ConfigError` if an option lacks its value, or the node config cannot be read.
    """
    parser = _Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("--superlink", default="")
    parser.add_argument("--insecure", action="store_true")
    parser.add_argument("--root-certificates", type=Path)
    parser.add_argument("--auth-supernode-private-key", type=Path)
    parser.add_argument("--node-config", default="")
    given, _ = parser.parse_known_args(list(words))
    link = Link(
        address=given.superlink,
        insecure=given.insecure,
        root_certificates=given.root_certificates,
        key=given.auth_supernode_private_key,
    )
    return _node_config(given.node_config), link if given.superlink else None


def _node_config(text: str) -> dict[str, Any]:
    """Return a node config as Flower reads it: ``key="value"`` words, or the path of a TOML file."""
    from flwr.common.config import parse_config_args

    if not text:
        return {}
    try:
        return dict(parse_config_args([text]))
    except Exception as error:  # a file that is not there, or no TOML
        way_out = 'Write --node-config \'party="st-mary" data-path="/srv/own.csv" public-path="/srv/public.csv"\'.'
        raise ConfigError(
            explain("--node-config", "be key=value words, or a TOML file", str(error), way_out)
        ) from error


def check_link(link: Link) -> Iterator[Finding]:
    """Yield what is found out about a SuperLink's address, its certificate, the clocks, and a node's key."""
    context = None
    if link.insecure:
        what = "none: --insecure sends everything unencrypted, and anybody may pretend to be the server"
        way_out = "For more than a trial, use TLS: docs/howto/certificates.md."
        certificate = warning("certificate", what, way_out)
    else:
        try:
            context = ssl.create_default_context(cafile=link.root_certificates)
        except OSError as error:  # ssl.SSLError is one
            way_out = "Ask the server's operator for the CA's certificate: --root-certificates /path/of/ca.crt"
            missing = isinstance(error, FileNotFoundError)
            what = f"{link.root_certificates} {'is not there' if missing else f'is no certificate in PEM: {error}'}"
            yield fault("certificate", what, way_out)
            return
    host, port = _split(link.address)
    try:
        with contextlib.closing(_connection(host, port, context)) as connection:
            connection.connect()
            yield ready("address", f"{link.address} answers")
            if proxy := proxy_of(host):
                what = f"{link.address} was reached directly here; Flower goes through the proxy of {proxy}"
                way_out = f"Where that proxy does not let it through, start the node with NO_PROXY={host}."
                yield warning("address", what, way_out)
            if context is not None:
                certificate = _lasting(connection.sock)
            yield certificate
            connection.request("GET", "/")
            answered = connection.getresponse()
            here = datetime.now(UTC)
            said = answered.getheader("Date")
        yield _clock(here, said, signed=link.key is not None)
    except ssl.SSLCertVerificationError as error:
        yield ready("address", f"{link.address} answers")
        yield _refused(link, error)
        return
    except ssl.SSLError as error:
        way_out = "Check host and port with the server's operator; a SuperLink without TLS is reached with --insecure."
        yield fault("address", f"{link.address} answers, but not with TLS: {error.reason or error}", way_out)
        return
    except (OSError, http.client.HTTPException, ValueError) as error:
        yield _unreachable(link.address, host, error)
        if proxy := proxy_of(host):
            what = f"{link.address} was tried directly; Flower goes through the proxy of {proxy}"
            yield warning("address", what, "--no-check starts the node.")
        return
    if link.node:
        yield _key(link)


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.removeprefix("https://").removeprefix("http://").rpartition(":")
    return host.strip("[]"), int(port) if port.isdigit() else -1


def _connection(host: str, port: int, context: ssl.SSLContext | None) -> http.client.HTTPConnection:
    if not host or not 0 < port < 65536:
        raise ValueError("it is no host:port")
    if context is None:
        return http.client.HTTPConnection(host, port, timeout=_TIMEOUT_S)
    return http.client.HTTPSConnection(host, port, timeout=_TIMEOUT_S, context=context)


def _unreachable(address: str, host: str, error: Exception) -> Finding:
    if isinstance(error, socket.gaierror):
        why, way_out = f"nobody knows the host {host!r}", "Check the name with the server's operator, and this DNS."
    elif isinstance(error, ConnectionRefusedError):
        why, way_out = (
            "nothing listens there",
            "Ask the server's operator whether the SuperLink runs, and on which port.",
        )
    elif isinstance(error, TimeoutError):
        why, way_out = f"no answer in {_TIMEOUT_S:g} s", "Let outgoing TCP connections to it through your firewall."
    elif isinstance(error, ConnectionResetError | http.client.HTTPException):
        why = "it does not speak as a SuperLink does"
        way_out = "Check host and port; a SuperLink with TLS is reached without --insecure."
    else:
        why, way_out = str(error), "Write --superlink HOST:PORT as the server's operator says."
    return fault("address", f"{address} cannot be reached: {why}", way_out)


def _lasting(sock: Any) -> Finding:
    """Return until when a certificate that has been verified holds."""
    until = ssl.cert_time_to_seconds(sock.getpeercert()["notAfter"])
    days = (until - datetime.now(UTC).timestamp()) / 86400
    what = f"verified; it holds until {datetime.fromtimestamp(until, UTC):%Y-%m-%d %H:%M} UTC"
    if days < _EXPIRES_SOON_DAYS:
        way_out = "Tell the server's operator: from then on no node can connect until it is renewed."
        return warning("certificate", f"{what}, {days:.0f} days", way_out)
    return ready("certificate", what)


def _refused(link: Link, error: ssl.SSLCertVerificationError) -> Finding:
    """Return why a server's certificate was not believed."""
    words, subject = error.verify_message, "certificate"
    ca = f"the CA of {link.root_certificates}" if link.root_certificates else "a CA that this system knows"
    if error.verify_code in (10, 9):  # X509_V_ERR_CERT_HAS_EXPIRED, _NOT_YET_VALID
        way_out = "Check this machine's date (`date -u`). If it is right, the server's operator has to renew it."
        what = f"the server's certificate does not hold today by this machine's clock: {words}"
        subject = "certificate" if error.verify_code == 10 else "clock"
    elif error.verify_code in (62, 64):  # X509_V_ERR_HOSTNAME_MISMATCH, _IP_ADDRESS_MISMATCH
        what = f"the server's certificate is for another name: {words}"
        way_out = "Write --superlink with the name that the certificate has, or have it made for this one."
    else:
        what = f"the server's certificate was not signed by {ca}: {words}"
        way_out = (
            "Ask the server's operator, on another way than this network, for the CA's certificate, and give its file: "
            "--root-certificates /path/of/ca.crt"
        )
    return fault(subject, what, way_out)


def _clock(here: datetime, said: str | None, *, signed: bool) -> Finding:
    """Compare this machine's clock with the date in the server's answer."""
    try:
        there = parsedate_to_datetime(said or "")
    except ValueError:
        return ready("clock", "the server's answer has no date: nothing to compare this clock with")
    ahead = (here - there).total_seconds()  # the answer's date is cut to whole seconds
    if -_NOTED_S <= ahead <= 1 + _NOTED_S:
        return ready("clock", "within 2 s of the server's")
    what = f"this machine's clock is {abs(ahead):,.0f} s {'ahead of' if ahead > 0 else 'behind'} the server's"
    refused = ahead > _AHEAD_S or ahead < -_BEHIND_S
    if refused and signed:
        what += ", and the server refuses what is signed with such a time"
    level = Level.FAULT if refused and (signed or abs(ahead) > _BEHIND_S) else Level.WARNING
    way_out = "Have it set by a time server: timedatectl set-ntp true. If it is right, tell the server's operator."
    return Finding(subject="clock", level=level, what=what, way_out=way_out)


def _key(link: Link) -> Finding:
    """Ask the SuperLink whether it knows this node's key, with a request that it never carries out."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_ssh_private_key
    from flwr.supercore.primitives.asymmetric import public_key_to_bytes

    make = "ssh-keygen -t ecdsa -b 384 -N '' -f st-mary"
    private: ec.EllipticCurvePrivateKey | None = None
    if link.key is not None:
        path = link.key.expanduser()
        try:
            loaded = load_ssh_private_key(path.read_bytes(), None)
            if not isinstance(loaded, ec.EllipticCurvePrivateKey):
                raise ValueError("another kind of key")
            private = loaded
        except OSError as error:
            what = f"{path} cannot be read: {error.strerror or error}"
            return fault("key", what, f"Give the path of this node's private key, or make one: {make}")
        except (ValueError, UnsupportedAlgorithm) as error:
            way_out = f"Flower takes an ECDSA key without a passphrase: {make}. Send the .pub half to the operator."
            return fault("key", f"{path}: {error}", way_out)
    asked = private or ec.generate_private_key(ec.SECP384R1())
    try:
        known = _known(link, private, public_key_to_bytes(asked.public_key()))
    except Exception as error:  # another release of Flower, or a proxy that answers in its own way
        what = f"whether the server knows it could not be found out: {type(error).__name__}: {error}"
        return warning("key", what[:400], way_out="Start the node, and read its log.")
    if private is None:
        if known == "refused":
            way_out = (
                f"Make one ({make}), send the .pub half to the operator, and add --auth-supernode-private-key st-mary"
            )
            return fault("key", "this SuperLink takes registered nodes only, and no key was given", way_out)
        return ready("key", "none is needed: this SuperLink takes any node that reaches it")
    if known == "registered":
        return ready("key", f"{link.key} is registered at the SuperLink")
    way_out = (
        f"Send the public half to the server's operator (ssh-keygen -y -f {link.key} > node.pub), who registers it: "
        "flwr supernode register node.pub ops"
    )
    if known == "refused":
        way_out = f"Have the clock set first (timedatectl set-ntp true). Else: {way_out}"
    return fault("key", f"the SuperLink does not know the key of {link.key}", way_out)


def _known(link: Link, private: Any, public: bytes) -> str:
    """Return whether a SuperLink knows a key: ``registered``, ``unknown`` or ``refused`` (the request itself).

    The request to come online has an interval that no SuperLink accepts; it looks the key up before that.
    """
    import httpx
    from flwr.proto.fleet_pb2 import ActivateNodeRequest
    from flwr.supercore.error import ApiErrorCode
    from flwr.supernode.fleet_http_client import FleetHttpClient
    from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

    interceptors = [] if private is None else [NodeAuthHttpInterceptor(private, private.public_key())]
    roots = link.root_certificates.read_bytes() if link.root_certificates and not link.insecure else None
    client = FleetHttpClient.from_server_address(link.address, link.insecure, roots, interceptors)
    try:
        client.ActivateNode(ActivateNodeRequest(public_key=public, heartbeat_interval=-1.0))
    except httpx.HTTPStatusError as error:
        status, body = error.response.status_code, error.response.text
        if status in (401, 403):
            return "refused"

        if str(int(ApiErrorCode.FLEET_INVALID_HEARTBEAT_INTERVAL)) in body:
            return "registered"
        if str(int(ApiErrorCode.FLEET_NODE_ACTIVATION_FAILED)) in body:
            return "unknown"
        raise
    finally:
        client.close()
    raise ConnectionError("the server took a request that it should refuse")

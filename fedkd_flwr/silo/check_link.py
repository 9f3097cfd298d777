"""Readiness of the way to the SuperLink: its address, its certificate, and the two clocks.

Nothing changes at the server: no node is registered, and none comes online.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey

from fedkd_flwr.app.submit import proxy_of
from fedkd_flwr.errors import ConfigError, explain
from fedkd_flwr.silo.check import Finding, Level, fault, finding_of, ready, warning
from fedkd_flwr.silo.letters import read_key

__all__ = ["Link", "certificate_fault", "check_link"]

_TIMEOUT_S = 8.0
_EXPIRES_SOON_DAYS = 14
# Flower's SuperLink takes signatures that are up to 5 s from the future, or 305 s old
_AHEAD_S, _BEHIND_S = 5.0, 300.0
_EXPIRED, _NOT_YET_VALID = 10, 9  # X509_V_ERR_CERT_HAS_EXPIRED, X509_V_ERR_CERT_NOT_YET_VALID


@dataclass(frozen=True)
class Link:
    """How a node, or an operator, reaches its SuperLink."""

    address: str  # ``host:port``
    insecure: bool = False  # without TLS
    root_certificates: Path | None = None  # the CA's certificate; by default those of the system
    key: Path | None = None  # the node's private key, where the SuperLink knows nodes by theirs

    def __post_init__(self) -> None:
        if self.insecure and self.root_certificates:
            way_out = "Leave --insecure out: with it, everything goes unencrypted."
            raise ConfigError(explain("--root-certificates", "be left out with --insecure", "both", way_out))

    def keys(self) -> tuple[EllipticCurvePrivateKey, EllipticCurvePublicKey] | None:
        """Return both halves of the node's key, None without one; raises `ConfigError` where it cannot be read."""
        key = read_key(self.key, EllipticCurvePrivateKey) if self.key else None
        return (key, key.public_key()) if key else None


def check_link(link: Link) -> Iterator[Finding]:
    """Yield what is found out about a node's key, a SuperLink's address, its certificate, and the clocks."""
    context = None
    try:
        link.keys()
    except ConfigError as error:
        yield finding_of("key", error)
    if link.insecure:
        what = "none: --insecure sends everything unencrypted, and anybody may pretend to be the server"
        certificate = warning("certificate", what, "For more than a trial, use TLS: docs/howto/certificates.md.")
    else:
        try:
            context = ssl.create_default_context(cafile=link.root_certificates)
        except OSError as error:  # ssl.SSLError is one
            way_out = "Ask the server's operator for the CA's certificate: --root-certificates /path/of/ca.crt"
            yield fault("certificate", f"{link.root_certificates} is no certificate in PEM: {error}", way_out)
            return
    host, _, port = link.address.removeprefix("https://").removeprefix("http://").rpartition(":")
    host, proxy = host.strip("[]"), proxy_of(host.strip("[]"))
    through = f". Flower goes through the proxy of {proxy}; to go directly, start it with NO_PROXY={host}"
    try:
        with contextlib.closing(_connection(host, port, context)) as connection:
            connection.connect()
            direct = warning("address", f"{link.address} was reached directly here", f"Check the proxy{through}.")
            yield direct if proxy else ready("address", f"{link.address} answers")
            yield certificate if context is None else _lasting(connection.sock)
            connection.request("GET", "/")
            said = connection.getresponse().getheader("Date") or ""
            yield _clock(datetime.now(UTC), said)
    except ssl.SSLCertVerificationError as error:
        yield _refused(link, error)
    except ssl.SSLError as error:
        way_out = "Check host and port with the server's operator; a SuperLink without TLS is reached with --insecure."
        yield fault("address", f"{link.address} answers, but not with TLS: {error.reason or error}", way_out)
    except (OSError, http.client.HTTPException, ValueError) as error:
        why = _WHY.get(type(error)) or str(error) or type(error).__name__
        what = f"{link.address} cannot be reached: {why}{through if proxy else ''}"
        way_out = (
            "Ask the server's operator for HOST:PORT and whether the SuperLink runs there (with TLS, unless "
            "--insecure), and let outgoing TCP connections to it through your firewall."
        )
        yield fault("address", what, way_out)


def _connection(host: str, port: str, context: ssl.SSLContext | None) -> http.client.HTTPConnection:
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError("it is no host:port")
    if context is None:
        return http.client.HTTPConnection(host, int(port), timeout=_TIMEOUT_S)
    return http.client.HTTPSConnection(host, int(port), timeout=_TIMEOUT_S, context=context)


_WHY: dict[type[Exception], str] = {
    socket.gaierror: "nobody knows this host",
    ConnectionRefusedError: "nothing listens there",
    TimeoutError: f"no answer in {_TIMEOUT_S:g} s",
}


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
    if error.verify_code in (_EXPIRED, _NOT_YET_VALID):
        what = f"the server's certificate does not hold today by this machine's clock: {error.verify_message}"
        way_out = "Check this machine's date (`date -u`). If it is right, the server's operator has to renew it."
        return fault("certificate" if error.verify_code == _EXPIRED else "clock", what, way_out)
    ca = f"the CA of {link.root_certificates}" if link.root_certificates else "the CAs that this system knows"
    way_out = (
        "Write --superlink with the name that the certificate has, and ask the server's operator, on another way than "
        "this network, for the CA's certificate: --root-certificates /path/of/ca.crt"
    )
    what = f"the server's certificate is not believed, by {ca}: {error.verify_message}"
    return fault("certificate", what, way_out)


def _clock(here: datetime, said: str) -> Finding:
    """Compare this machine's clock with the date in the server's answer."""
    try:
        ahead = (here - parsedate_to_datetime(said)).total_seconds()  # the answer's date is cut to whole seconds
    except ValueError:
        return ready("clock", "the server's answer has no date: nothing to compare this clock with")
    what = f"this machine's clock is {abs(ahead):,.0f} s {'ahead of' if ahead > 0 else 'behind'} the server's"
    if -_BEHIND_S <= ahead <= 1 + _AHEAD_S:
        return ready("clock", what)
    way_out = "Have it set by a time server: timedatectl set-ntp true. If it is right, tell the server's operator."
    return fault("clock", f"{what}, and the server refuses what is signed with such a time", way_out)


def certificate_fault(arguments: Sequence[str] | None = None) -> str:
    """Return why no node can connect to the SuperLink of this ServerApp, and what to do; "" where nothing is wrong.

    Nodes that were connected before its certificate expired may stay for a while: their silence is the only other sign.
    """
    given = dict(pairwise(sys.argv if arguments is None else arguments))
    address, roots = (given.get(name, "") for name in ("--runtime-api-address", "--root-certificates"))
    if not address or not roots:  # a simulation, or no TLS
        return ""
    found = check_link(Link(address=address, root_certificates=Path(roots)))
    faults = (one for one in found if one.level == Level.FAULT and one.subject in ("certificate", "clock"))
    return next((f"No node can connect: {one.what}. {one.way_out}" for one in faults), "")

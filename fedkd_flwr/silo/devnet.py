"""A federation on this machine's loopback as real ones are: TLS, registered keys, approved bundles; for trying things.

Everything lies in one temporary folder, except the entry in Flower's configuration that makes the SuperLink known to
``fedkd server run``. Both are taken away at the end.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import NameOID

from fedkd_flwr.app.submit import FlowerError, app_folder, flower, flower_env, toml
from fedkd_flwr.errors import ConfigError, explain
from fedkd_flwr.processes.limits import leaving_nothing
from fedkd_flwr.settings.config import parse_node_config
from fedkd_flwr.silo.bundles import Approvals, build_bundle

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["Devnet", "deal", "devnet", "make_key", "make_tls"]

_START_S = 120.0


@dataclass(frozen=True, kw_only=True)
class Devnet:
    """A running federation."""

    name: str  # the SuperLink's name in Flower's configuration
    folder: Path  # logs and data of the server (``server``) and of each silo (``silo-1``, ...)
    public: Path  # the server's public file
    processes: Mapping[str, subprocess.Popen[bytes]]  # by the names of the folders


def deal(folder: Path, silos: Sequence[str], rows: DataFrame | None = None, label: str = "digit") -> Path:
    """Deal rows to silos, a fifth of them, without labels, to all; return the server's public file.

    Each silo and the server get a folder in ``folder``. ``rows``: scikit-learn's digits without any.
    """
    from sklearn.datasets import load_digits

    from fedkd_flwr.data.look import infer_schema

    if rows is None:
        digits = load_digits(as_frame=True)
        rows = digits.data.astype(int).assign(digit="digit " + digits.target.astype(str))
    schema = infer_schema(rows, label=label)
    order = np.random.default_rng(1).permutation(len(rows))
    public, *private = np.split(order, np.linspace(len(rows) // 5, len(rows), len(silos) + 1).astype(int)[:-1])
    for name, held in zip(("server", *silos), (None, *private), strict=True):
        (place := folder / name).mkdir()
        rows.iloc[np.sort(public)].drop(columns=label).to_csv(place / "public.csv", index=False)
        schema.write(place / "schema.toml")
        if held is not None:
            rows.iloc[np.sort(held)].to_csv(place / "private.csv", index=False)
    return folder / "server" / "public.csv"


def make_tls(folder: Path) -> dict[str, Path]:
    """Make a certificate of this machine's loopback that vouches for itself, and its key; return the files by kind."""
    now, key = datetime.now(UTC), ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    hosts = [x509.DNSName("localhost"), x509.IPAddress(IPv4Address("127.0.0.1"))]
    builder = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=30))
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.KeyUsage(True, False, False, False, False, True, True, False, False), critical=True)
    )
    files = {"ca": folder / "server.crt", "server": folder / "server.crt", "key": folder / "server.key"}
    files["ca"].write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM))
    _write_key(files["key"], key, PrivateFormat.PKCS8)
    return files


def make_key(path: Path) -> Path:
    """Make a silo's key pair as Flower wants it; return the file of the public half."""
    key = ec.generate_private_key(ec.SECP384R1())
    _write_key(path, key, PrivateFormat.OpenSSH)
    public = path.with_suffix(".pub")
    public.write_bytes(key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH))
    return public


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey, how: PrivateFormat) -> None:
    path.touch(mode=0o600)
    path.write_bytes(key.private_bytes(Encoding.PEM, how, NoEncryption()))


@contextmanager
def devnet(
    count: int,
    *,
    rows: DataFrame | None = None,
    label: str = "digit",
    node_settings: Mapping[str, object] | None = None,
    name: str = "devnet",
    show: Callable[[str], None] = lambda _: None,
) -> Iterator[Devnet]:
    """Run a SuperLink and ``count`` nodes until the block is left.

    ``rows`` with their ``label`` column are dealt, see `deal`. ``node_settings``: settings of every node's config,
    beside its party and its paths. ``name``: what the SuperLink is called in Flower's configuration.
    """
    silos = [f"silo-{i + 1}" for i in range(count)]
    folder = Path(tempfile.mkdtemp(prefix="fedkd-devnet-"))
    with ExitStack() as undo:
        undo.callback(shutil.rmtree, folder, ignore_errors=True)
        show("dealing the rows")
        public = deal(folder, silos, rows, label)
        configs = {}
        for silo in silos:
            place = folder / silo
            own = {"party": silo, "data-path": place / "private.csv", "public-path": place / "public.csv"}
            own |= {"state-dir": place / "state"}
            configs[silo] = {key: str(value) for key, value in own.items()} | dict(node_settings or {})
            parse_node_config(configs[silo])
        app = app_folder(folder)
        Approvals(folder / "approved").add(build_bundle(app))
        tls = make_tls(folder)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = int(free.getsockname()[1])
        undo.enter_context(_known_as(name, f"127.0.0.1:{port}", tls["ca"]))
        show("starting the SuperLink")
        processes: dict[str, subprocess.Popen[bytes]] = {}
        undo.callback(_end, processes, undo.enter_context(leaving_nothing()))
        options = ["--host", "127.0.0.1", "--port", port, "--database", folder / "superlink.db"]
        options += ["--ssl-ca-certfile", tls["ca"], "--ssl-certfile", tls["server"], "--ssl-keyfile", tls["key"]]
        options += ["--enable-supernode-auth", "--disable-runtime-dependency-installation"]
        start = "from flwr.superlink.cli import flower_superlink; flower_superlink()"
        processes["server"] = _start(folder, "server", ["-c", start, *options])
        _wait_for_port(port, processes["server"], folder / "server" / "log.txt")
        for silo in silos:
            show(f"starting {silo}")
            flower("supernode", "register", str(make_key(folder / silo / "key")), name, "--name", silo)
            # its files have just been dealt
            node = ["-m", "fedkd_flwr.cli", "node", "run", "--no-check", "--approved", folder / "approved"]
            node += ["--root-certificates", tls["ca"], "--superlink", f"127.0.0.1:{port}"]
            node += ["--auth-supernode-private-key", folder / silo / "key"]
            node += [f"{key}={toml(value)}" for key, value in configs[silo].items()]
            processes[silo] = _start(folder, silo, node)
        yield Devnet(name=name, folder=folder, public=public, processes=processes)


def _start(folder: Path, name: str, command: Sequence[object]) -> subprocess.Popen[bytes]:
    """Start a Python process in its own folder, with Flower's files in it, and its output in its log."""
    env = {**flower_env(), "FLWR_HOME": str(folder / name / "flwr")}
    env["FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION"] = "1"
    # Flower starts helpers by name; nodes find the user's own modules
    env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    env["PYTHONPATH"] = os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(Path(__file__).parents[2])])
    words = [sys.executable, "-P", *map(str, command)]
    with (folder / name / "log.txt").open("ab") as log:  # what it said before it was restarted stays
        return subprocess.Popen(
            words, cwd=folder / name, env=env, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )


def _end(processes: Mapping[str, subprocess.Popen[bytes]], end: Callable[[int], None]) -> None:
    """End processes and what they started: they are asked first, so that each ends its own children."""
    for process in processes.values():
        process.terminate()
    deadline = time.monotonic() + 15.0
    for process in processes.values():
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(deadline - time.monotonic(), 0.1))
    for process in processes.values():
        end(process.pid)
        process.wait()


def _wait_for_port(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.1)
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    raise FlowerError(explain("SuperLink", f"answer within {_START_S:g} s", " ".join(lines[-2:]) or "no answer"))


@contextmanager
def _known_as(name: str, address: str, certificates: Path) -> Iterator[None]:
    """Have Flower's configuration know a SuperLink meanwhile."""
    from flwr.cli.flower_config import init_flwr_config, read_flower_config, write_flower_config

    init_flwr_config()
    settings, path = read_flower_config()
    if name in settings.get("superlink", {}):
        way_out = f"Give this one another with --name, or take [superlink.{name}] out of {path}."
        raise ConfigError(explain("name of the devnet", "be no other SuperLink's", name, way_out))
    settings.setdefault("superlink", {})[name] = {"address": address, "root-certificates": str(certificates)}
    write_flower_config(settings)
    try:
        yield
    finally:
        settings, _ = read_flower_config()  # others may have changed it meanwhile
        settings.get("superlink", {}).pop(name, None)
        write_flower_config(settings)

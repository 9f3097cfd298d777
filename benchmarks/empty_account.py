"""Try what somebody with the CA certificate alone can do to the documented set-up, and what an operator can.

    python benchmarks/empty_account.py --out benchmarks/results/empty-account.json

It starts a SuperLink with TLS and node keys, nginx in front of it with ``docs/deploy/nginx.conf``, two silos that
run approved bundles only, and a third one that reaches the SuperLink through nginx. Then

- an account that has nothing but the CA certificate registers a key, submits an app that reads files, lists runs,
  starts a SuperNode with a key of its own, and asks nginx for other paths in many spellings;
- an operator submits that app, which no silo has approved;
- an operator submits an honest run of FedKT, which all silos must answer.

It needs nginx (1.22 or newer) and exits with 1 if anything got through, or if the honest run was not answered.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "flower")]

from flower_runtime import BIN, free_ports, stop, wait_for_port  # noqa: E402
from test_supernodes import CURIOUS  # noqa: E402

from fedkd_flwr.record.run_record import RunRecord  # noqa: E402
from fedkd_flwr.silo.devnet import Devnet, devnet, make_key  # noqa: E402

PATHS = (
    "/v1/control/start-run", "/v1/control/register-node", "/v1/control/list-runs", "/v1/fleet/register-node",
    "/v1/fleet/../control/start-run", "/v1/fleet/%2e%2e/control/start-run", "/v1/fleet/..%2fcontrol%2fstart-run",
    "//v1/control/start-run", "/v1//control/start-run", "/v1/fleet//../control/start-run", "/V1/CONTROL/start-run",
    "/v1/fleet/pull-messages/../../control/start-run", "/v1/fleet/pull-messages%00/control/start-run",
    "/v1/fleet/pull-messages;/../../control/start-run", "/v1/fleet/pull-messages?x=/v1/control/start-run",
    "/v1/fleet/pull-messages/", "/v1/fleet/%70ull-messages", "/v1/runtime/acquire-task", "/v1/runtime/pull-messages",
    "/docs", "/openapi.json", "/", "/v1/fleet/.%0d%0a/control/start-run", "/v1/control%2fstart-run",
    "/v2/control/start-run",
)  # fmt: skip
SILOS = ["silo-1", "silo-2", "silo-3"]
TLS_FILES = {
    "/etc/fedkd/server.pem": "server.crt",
    "/etc/fedkd/server.key": "server.key",
    "/etc/fedkd/ca.crt": "ca.crt",
}


def flwr(home: Path, *words: str, cwd: Path) -> str:
    """Return what a ``flwr`` command says to an account whose configuration is at ``home``."""
    env = {**os.environ, "FLWR_HOME": str(home), "FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
    command = [str(BIN / "flwr"), *words]
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=120, check=False)
    said = " ".join((done.stdout + done.stderr).split())
    return f"exit code {done.returncode}" + (", 403" if "403" in said else f": {said[-160:]}")


def asked(port: int, ca: Path, method: str, path: str, more: str = "") -> str:
    """Return the first line of nginx's answer to a request, sent as it is written here."""
    context = ssl.create_default_context(cafile=ca)
    text = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{more}\r\n"
    with (
        socket.create_connection(("127.0.0.1", port), timeout=20) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as wrapped,
    ):
        wrapped.sendall(text.encode())
        return wrapped.recv(200).split(b"\r\n")[0].decode("latin-1")


def account(folder: Path, port: int, ca: Path) -> Path:
    """Make a Flower home that knows the proxy and the CA certificate."""
    folder.mkdir()
    words = f'address = "127.0.0.1:{port}"\nroot-certificates = "{ca}"\n'
    (folder / "config.toml").write_text(f'[superlink]\ndefault = "out"\n\n[superlink.out]\n{words}')
    return folder


def proxied(folder: Path, link: int, tls: Path) -> tuple[subprocess.Popen[bytes], int]:
    """Start nginx with the documented configuration; return it and its port."""
    (port,) = free_ports(1)
    text = (ROOT / "docs" / "deploy" / "nginx.conf").read_text()
    for written, name in TLS_FILES.items():
        text = text.replace(written, str(tls / name))
    text = text.replace("50801", str(link)).replace("50800", str(port))
    text = text.replace("/run/nginx.pid", str(folder / "nginx.pid"))
    text = text.replace("/var/log/nginx/access.log", str(folder / "access.log"))
    (folder / "nginx.conf").write_text(text)
    program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        sys.exit("nginx is not installed")
    command = [program, "-c", str(folder / "nginx.conf"), "-e", str(folder / "error.log"), "-g", "daemon off;"]
    process = subprocess.Popen(command)
    wait_for_port(port, process)
    return process, port


def outsider(net: Devnet, folder: Path, port: int, app: Path) -> dict[str, str]:
    """Return what an account with the CA certificate alone gets, by attempt."""
    ca = net.folder / "ca.crt"
    home = account(folder / "account", port, ca)
    key = make_key(folder / "account" / "mine")
    found = {
        "register a key": flwr(home, "supernode", "register", str(key), "out", "--name", "me", cwd=folder),
        "submit an app that reads files": flwr(home, "run", str(app), "out", "--run-config", 'out="x"', cwd=folder),
        "list runs": flwr(home, "list", "out", cwd=folder),
    }
    node = [BIN / "flower-supernode", "--root-certificates", ca, "--superlink", f"127.0.0.1:{port}"]
    node += ["--auth-supernode-private-key", folder / "account" / "mine", "--port", free_ports(1)[0]]
    with (folder / "node.log").open("wb") as log:
        env = {**os.environ, "FLWR_HOME": str(home), "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
        process = subprocess.Popen([*map(str, node)], env=env, stdout=log, stderr=subprocess.STDOUT)
        try:
            process.wait(timeout=90)
            last = " ".join((folder / "node.log").read_text(errors="replace").split())
            refused = "Exit Code: 305" in last and "Failed to activate SuperNode" in last
            found["a SuperNode with that key"] = "exit code 305" if refused else f"exit code 0: {last[-500:]}"
        except subprocess.TimeoutExpired:
            last = Path(folder / "node.log").read_text(errors="replace").splitlines()[-6:]
            found["a SuperNode with that key"] = f"exit code 0: it was still running after 90 s: {last}"
            stop([process.pid])
    for path in PATHS:
        found[f"POST {path}"] = asked(port, ca, "POST", path, "Content-Length: 0\r\n")
    found["two content lengths"] = asked(
        port, ca, "POST", "/v1/control/start-run", "Content-Length: 0\r\nContent-Length: 9\r\n"
    )
    found["an absolute address"] = asked(port, ca, "POST", f"https://127.0.0.1:{port}/v1/control/start-run")
    found["CONNECT"] = asked(port, ca, "CONNECT", "127.0.0.1:443")
    return found


def through(attempt: str, said: str) -> bool:
    """Tell whether an attempt of the account got through."""
    if said.startswith("exit code"):
        return said.startswith("exit code 0")
    return not said.startswith("HTTP/1.1 4")


def behind_the_proxy(net: Devnet, port: int, silo: str) -> subprocess.Popen[bytes]:
    """Start a third silo, with every second row of the second one, whose node reaches the SuperLink through nginx."""
    place, other = net.folder / silo, net.folder / "silo-2"
    shutil.copytree(other, place, ignore=shutil.ignore_patterns("state", "log.txt", "key*"))
    lines = (other / "private.csv").read_text().splitlines(keepends=True)
    (place / "private.csv").write_text("".join([lines[0], *lines[1::2]]))
    home = Path(os.environ.get("FLWR_HOME", Path.home() / ".flwr"))
    said = flwr(home, "supernode", "register", str(make_key(place / "key")), net.name, "--name", silo, cwd=place)
    if not said.startswith("exit code 0"):
        sys.exit(said)
    own = {"party": silo, "data-path": place / "private.csv", "public-path": place / "public.csv"}
    config = [f"{key}={value}" for key, value in (own | {"state-dir": place / "state"}).items()]
    node = ["-m", "fedkd_flwr.cli", "node", "run", "--no-check", "--approved", net.folder / "approved"]
    node += ["--root-certificates", net.folder / "ca.crt", "--superlink", f"127.0.0.1:{port}"]
    node += ["--auth-supernode-private-key", place / "key", *config]
    env = {**os.environ, "FLWR_HOME": str(place / "home"), "FLWR_DISABLE_UPDATE_CHECK": "1"}
    with (place / "log.txt").open("wb") as log:
        command = [sys.executable, "-P", *map(str, node)]
        return subprocess.Popen(command, cwd=place, env=env, stdout=log, stderr=subprocess.STDOUT)


def operator(net: Devnet, folder: Path, app: Path, silos: list[str]) -> dict[str, Any]:
    """Submit the app that nobody approved, and then an honest run; return what came of them."""
    home, out = Path(os.environ.get("FLWR_HOME", Path.home() / ".flwr")), folder / "curious.json"
    said = flwr(home, "run", str(app), net.name, "--run-config", f'out="{out}"', cwd=folder)
    for _ in range(400):
        if out.exists():
            break
        time.sleep(0.5)
    replies = json.loads(out.read_text()) if out.exists() else [said]
    traces = [silo for silo in silos if (net.folder / silo / "trace").exists()]
    runs = folder / "runs"
    words = [f"public-path={net.public}", f"output-dir={runs}", "algorithm=fedkt", f"num-parties={len(silos)}"]
    command = [sys.executable, "-m", "fedkd_flwr.cli", "server", "run", *words, "--superlink", net.name, "--wait"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    answered = [party.name for path in runs.glob("**/record.json") for party in RunRecord.load(path).parties]
    return {
        "the app that nobody approved": sorted(replies),
        "traces of it": traces,
        "the next honest run": done.returncode,
        "answered by": sorted(answered),
        "said": done.stdout[-300:] if done.returncode else "",
    }


def main() -> int:
    """Run all attempts and print what came of them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="fedkd-account-"))
    app, started = folder / "curious-app", []
    for name, text in CURIOUS.items():
        (app / name).parent.mkdir(parents=True, exist_ok=True)
        (app / name).write_text(text, encoding="utf-8")
    try:
        with devnet(2, name="fedkd-account", show=print) as net:
            words = Path(f"/proc/{net.processes['server'].pid}/cmdline").read_bytes().decode().split("\0")
            link = int(words[words.index("--port") + 1])
            proxy, port = proxied(folder, link, net.folder)
            started.append(proxy)
            print("nginx is in front")
            started.append(behind_the_proxy(net, port, "silo-3"))
            found: dict[str, Any] = {"account": outsider(net, folder, port, app)}
            for attempt, said in found["account"].items():
                print(f"  {attempt}: {said}", flush=True)
            found["operator"] = operator(net, folder, app, SILOS)
            print(json.dumps(found["operator"], indent=1))
    finally:
        stop(process.pid for process in started)
        shutil.rmtree(folder, ignore_errors=True)
    wrong = [attempt for attempt, said in found["account"].items() if through(attempt, said)]
    told = found["operator"]
    if set(told["the app that nobody approved"]) != {"bundle-not-approved"} or told["traces of it"]:
        wrong.append("the app that nobody approved")
    if told["the next honest run"] or told["answered by"] != SILOS:
        wrong.append("the next honest run")
    print(f"{len(found['account'])} attempts; got through or failed: {', '.join(wrong) or 'none'}")
    if options.out:
        command = shlex.join(["python", "benchmarks/empty_account.py", *sys.argv[1:]])
        options.out.write_text(json.dumps({"command": command, "wrong": wrong, **found}, indent=1) + "\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())

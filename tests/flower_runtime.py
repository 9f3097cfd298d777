"""Real Flower processes for tests: a copy of the app, a private home, free ports, and nothing left running."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent


class FlowerHome:
    """A folder with its own ``FLWR_HOME`` and a copy of the app: `flwr` edits pyproject files, never ours.

    Parameters
    ----------
    folder : Path
        An empty folder.
    """

    def __init__(self, folder: Path) -> None:
        self.home, self.app = folder / "flwr-home", folder / "app"
        self.home.mkdir(parents=True)
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "fedkd_flwr", self.app / "fedkd_flwr", ignore=ignored)
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, self.app)
        ports = free_ports(2)
        self.env = {
            **os.environ,
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "FLWR_HOME": str(self.home),
            # a private SuperLink, also where the user's own one is running
            "FLWR_LOCAL_SUPERLINK_HTTP_API_PORT": str(ports[0]),
            "FLWR_LOCAL_CONTROL_API_PORT": str(ports[1]),
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_worker_niceness": "0",  # by default Ray's workers give way to every other test
            # Ray refuses to start beside a cluster that this folder names; its sockets want a short path
            "RAY_TMPDIR": tempfile.mkdtemp(prefix="ray-"),
        }

    def flwr(self, *arguments: str) -> dict[str, Any]:
        """Run one ``flwr`` command and return its JSON."""
        command = [str(BIN / "flwr"), *arguments, "--format", "json"]
        done = subprocess.run(
            command, cwd=self.app, env=self.env, capture_output=True, text=True, timeout=120, check=False
        )
        try:
            return json.loads(done.stdout[done.stdout.index("{") :])
        except ValueError:
            raise AssertionError(f"{command} printed no JSON:\n{done.stdout}\n{done.stderr}") from None

    def submit(self, *superlink: str, federation_config: str = "", **settings: Any) -> str:
        """Start a run; return its id. ``num_rounds=2`` becomes ``num-rounds=2``."""
        # JSON writes strings, numbers and booleans as TOML does
        config = " ".join(f"{key.replace('_', '-')}={json.dumps(value)}" for key, value in settings.items())
        more = ["--federation-config", federation_config] if federation_config else []
        self._wait_for_simulations()
        for _ in range(3):
            answer = self.flwr("run", ".", *superlink, "--run-config", config, *more)
            # Flower gives its SuperLink 15 s, which a busy machine may not keep
            if answer["success"] or "Failed to start local SuperLink" not in answer["error-message"]:
                break
            stop(self._superlinks())
        assert answer["success"], answer
        return str(answer["run-id"])

    def wait(self, run_id: str, *superlink: str, output: Path, seconds: float = 300.0) -> str:
        """Wait until a run has ended; return ``finished:completed`` or ``finished:failed``.

        Flower is asked seconds after ``output``, a run's record, says no more that it is running, and every minute: a
        question takes seconds of a processor that the run wants.
        """
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            wait_for_file(output, seconds=60.0)
            time.sleep(2.0)  # the process that wrote it ends
            status = str(self.flwr("list", *superlink, "--run-id", run_id)["runs"][0]["status"])
            if status.startswith("finished"):
                return status
        raise AssertionError(f"run {run_id} was still {status!r} after {seconds:g} s")

    def log(self, run_id: str) -> str:
        """Return what a run has logged."""
        command = [str(BIN / "flwr"), "log", run_id, "--show"]
        done = subprocess.run(
            command, cwd=self.app, env=self.env, capture_output=True, text=True, timeout=120, check=False
        )
        return done.stdout + done.stderr

    def _superlinks(self) -> list[int]:
        return [pid for pid, _, args in _processes() if "flower-superlink" in args and str(self.home) in args]

    def _wait_for_simulations(self, seconds: float = 60.0) -> None:
        """Wait until the process of an earlier run is gone: it ends Ray seconds after Flower calls the run finished."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            children = _descendants(self._superlinks())
            if not any(pid in children and "flwr-simulation --" in args for pid, _, args in _processes()):
                return
            time.sleep(0.2)
        raise AssertionError(f"the process of a finished run was still there after {seconds:g} s")

    def stop(self) -> None:
        """Stop the SuperLink that ``flwr run`` started in this home, with all its processes."""
        stop(self._superlinks())
        shutil.rmtree(self.env["RAY_TMPDIR"], ignore_errors=True)


def free_ports(count: int) -> list[int]:
    """Return ports nobody listens on, drawn together so that they differ."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def wait_for_file(path: Path, seconds: float) -> None:
    """Wait until a file is there and is no record of a run that goes on, or until so many seconds have passed."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if path.exists() and '"status": "running"' not in path.read_text(encoding="utf-8"):
            return
        time.sleep(0.2)


def wait_for_port(port: int, process: subprocess.Popen[bytes], seconds: float = 120.0) -> None:
    """Wait until somebody listens on a port."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert process.poll() is None, f"{process.args} ended with {process.returncode}"
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError(f"nobody listens on port {port} after {seconds:g} s")


def stop(pids: Iterable[int], seconds: float = 10.0) -> None:
    """Terminate processes and all that descend from them; kill what is still there after ``seconds``."""
    tree = _descendants(list(pids))
    for pid in tree:  # all of them: a SuperNode's SuperExec outlives it by more than ten seconds
        _signal(pid, signal.SIGTERM)
    deadline = time.monotonic() + seconds
    while tree & _alive() and time.monotonic() < deadline:
        time.sleep(0.2)
    for pid in tree & _alive():
        _signal(pid, signal.SIGKILL)


def _processes() -> list[tuple[int, int, str]]:
    listed = subprocess.run(["ps", "-A", "-ww", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True)
    lines = (line.split(None, 2) for line in listed.stdout.splitlines())
    return [(int(line[0]), int(line[1]), line[2]) for line in lines if len(line) == 3]


def _alive() -> set[int]:
    return {pid for pid, _, args in _processes() if "<defunct>" not in args}


def _descendants(roots: list[int]) -> set[int]:
    found, parents = set(roots), {pid: parent for pid, parent, _ in _processes()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)

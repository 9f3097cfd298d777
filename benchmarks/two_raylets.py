"""One run over two raylets, and the same run without Ray: labels and accuracies must be equal.

    python benchmarks/two_raylets.py --out benchmarks/results/two-raylets.json

Starts Ray with a head and a second raylet on this machine, one core each, and runs the app over both with
`flwr run .` and ``RAY_ADDRESS``; the rival is `fedkd simulate`. Then twice more, to see what is refused: with
``init-args-num-cpus`` beside the running cluster, and (as root) with a second raylet that has another file system
where the output folder is, as a machine that does not share it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from flower_runtime import FlowerHome, _processes, free_ports, stop  # noqa: E402

from fedkd_flwr.record.run_record import RunRecord  # noqa: E402

PARTIES = 4
SETTINGS: dict[str, Any] = {
    "dataset": "synthetic(rows=1200)",
    "num-rounds": 2,
    "num-parties": PARTIES,
    "model": "mixed",
    "seed": 3,
}
CASES = ["two raylets", "init-args-num-cpus", "not shared"]
SIZE = f"num-supernodes={PARTIES} client-resources-num-cpus=1"


class Cluster:
    """Two raylets; the second, where ``apart`` is given, in a mount namespace with an empty folder in its place."""

    def __init__(self, scratch: Path, env: dict[str, str], apart: Path | None = None) -> None:
        self.env, ports = env | {"RAY_raylet_start_wait_time_s": "300"}, free_ports(1)
        self.address, self.port = f"127.0.0.1:{ports[0]}", f":{ports[0]}"  # Ray replaces the address by the machine's
        common = ["--num-cpus", "1", "--object-store-memory", "100000000", "--disable-usage-stats"]
        head = ["--head", "--port", str(ports[0]), "--node-ip-address", "127.0.0.1", "--include-dashboard=false"]
        self._start([*head, "--temp-dir", str(scratch / "1"), *common])
        self.first = set(self.raylets())
        self._start(["--address", self.address, "--node-ip-address", "127.0.0.1", *common], apart)
        self.second = set(self.raylets()) - self.first

    def _start(self, options: list[str], apart: Path | None = None) -> None:
        command = [sys.executable, "-c", "from ray.scripts.scripts import main; main()", "start", *options]
        if apart is not None:
            inside = f"mount -t tmpfs none {shlex.quote(str(apart))} && exec {shlex.join(command)}"
            command = ["unshare", "--mount", "sh", "-c", inside]
        subprocess.run(command, env=self.env, check=True, stdout=subprocess.DEVNULL)

    def raylets(self) -> list[int]:
        """Return the raylets of this cluster."""
        return [pid for pid, _, args in _processes() if "raylet/raylet" in args and self.port in args]

    def stop(self) -> None:
        """End all of the cluster's processes, and nobody else's."""
        words = (self.port, f"port={self.port[1:]}")
        stop([pid for pid, _, args in _processes() if "ray" in args and any(word in args for word in words)])


class Where(threading.Thread):
    """Notes which raylet started the actors that played the parties."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(daemon=True)
        self.cluster, self.over = cluster, threading.Event()
        self.seen: dict[int, str] = {}

    def run(self) -> None:
        """Look every second."""
        while not self.over.wait(1.0):
            for pid, parent, args in _processes():
                if "ray::ClientAppActor" in args and parent in self.cluster.first | self.cluster.second:
                    self.seen[pid] = "first" if parent in self.cluster.first else "second"


def labels(folder: Path) -> str:
    """Return a digest of the arrays of the last checkpoint, the consensus and the parties' answers among them."""
    with np.load(folder / "checkpoint" / "checkpoint.npz") as kept:
        arrays = [kept[name] for name in sorted(kept.files) if name != "meta"]
    return hashlib.sha256(b"".join(np.ascontiguousarray(one).tobytes() for one in arrays)).hexdigest()


def figures(record: RunRecord, folder: Path) -> dict[str, Any]:
    """Return what must be equal in two runs of one seed."""
    return {
        "arrays": labels(folder),
        "rounds": [[one.agreement, one.consensus_accuracy, one.bytes_up] for one in record.rounds],
        "parties": {
            one.name: [one.solo["common"].accuracy, one.federated["common"].accuracy] for one in record.parties
        },
    }


def main() -> None:
    """Run all and keep what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=CASES, nargs="+", default=CASES)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found: dict[str, Any] = {"command": shlex.join(["python", "benchmarks/two_raylets.py", *sys.argv[1:]])}
    # Ray's sockets want a short path
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryDirectory(prefix="ray", dir="/tmp") as short:
        folder = Path(name)
        words = [f"{key}={value}" for key, value in SETTINGS.items()]
        command = [
            sys.executable,
            "-m",
            "fedkd_flwr.cli",
            "simulate",
            *words,
            f"output-dir={folder}/one",
            "--json",
        ]
        said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        path = Path(json.loads(said.stdout)["runs"][0]["record"])
        rival = figures(RunRecord.load(path), path.parent)
        for case in options.only:
            more = " init-args-num-cpus=2" if case == "init-args-num-cpus" else ""
            out = folder / "out"
            out.mkdir(exist_ok=True)
            if case == "not shared" and os.geteuid():
                continue
            home = FlowerHome(folder / case.replace(" ", "-"))
            env = home.env | {"PYTHONPATH": str(ROOT)}
            cluster = Cluster(Path(short) / case[0], env, out if case == "not shared" else None)
            try:
                home.env["RAY_ADDRESS"] = cluster.address
                where = Where(cluster)
                where.start()
                written = {key.replace("-", "_"): value for key, value in SETTINGS.items()}
                run_id = home.submit(federation_config=SIZE + more, output_dir=str(out), **written)
                record = out / "runs" / run_id / "record.json"
                found[case] = {"status": home.wait(run_id, output=record, seconds=900)}
                where.over.set()
                found[case]["actors started by"] = dict(Counter(where.seen.values()))
                if found[case]["status"] == "finished:completed":
                    found[case]["equal to fedkd simulate"] = figures(RunRecord.load(record), record.parent) == rival
                elif record.is_file():
                    found[case]["reason"] = RunRecord.load(record).reason.replace(str(folder), "FOLDER")
                if "reason" not in found[case] and found[case]["status"] != "finished:completed":
                    found[case]["log"] = home.log(run_id)[-800:]
            finally:
                home.stop()
                cluster.stop()
            print(case, found[case], flush=True)
            shutil.rmtree(out, ignore_errors=True)
    if options.out:
        options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

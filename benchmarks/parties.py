"""How a simulation grows with the number of parties: time, processor time, memory, and whose code it is spent in.

    python benchmarks/parties.py --parties 100 1000 --out benchmarks/results/parties-fedkd.json
    python benchmarks/parties.py --parties 100 1000 --engine ray --py-spy py-spy

Each run is FedCT with a majority vote, two rounds and the final result: 4 visits a party (the first only starts it),
with decision trees on 30 rows a party and 300 public rows; or with ``--algorithm fedkt`` its one round. ``fedkd`` is
`fedkd simulate`, ``ray`` is `flwr run .`, both with two parties at a time. Memory is what a process has alone plus its
part of what it shares (PSS), sampled every two seconds. With ``--py-spy``, stacks of all processes are sampled; a
sample counts for the library whose function is the innermost one of those told apart. Ray's party processes are not
sampled: a program that is not Python starts them.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from flower_runtime import FlowerHome  # noqa: E402

from fedkd_flwr.record.run_record import RunRecord  # noqa: E402

SETTINGS: dict[str, Any] = {
    "dataset": "synthetic",
    "model": "decision-tree",
    "partitioner": "iid",
    "num-public": 300,
    "num-test": 300,
    "consensus": "majority",
}
KINDS = {  # a word of the command line -> what the process is
    "ray::ClientAppActor": "parties",
    "multiprocessing.forkserver": "parties",
    "ray::": "ray",
    "gcs_server": "ray",
    "raylet": "ray",
    "ray/": "ray",
    "simulate": "server",
    "flwr-simulation": "server",
}
LIBRARIES = {"sklearn": "compute", "numpy": "compute", "scipy": "compute", "matplotlib": "page"}
LIBRARIES |= {"fedkd_flwr": "fedkd", "flwr": "flower", "google/protobuf": "flower", "ray": "ray"}
# a thread that waits for another one, for a message or for a while
WAITS = re.compile(
    r"\b(_recv|_watch|select|wait|send_and_receive|_drive|get|sleep|poll|_poll|_try_wait|get_objects|monitor|_log_uploader"
    r"|listen_error_messages|print_logs|_wait_for_tstate_lock|Runner\.run|LogMonitor\.run) \("
)
_TICK = os.sysconf("SC_CLK_TCK")


class Watch(threading.Thread):
    """Samples a process and all that descend from it."""

    def __init__(self, root: int) -> None:
        super().__init__(daemon=True)
        self.root, self.over, self.began, self.wall = root, threading.Event(), time.monotonic(), 0.0
        self.peak: dict[str, int] = defaultdict(int)  # bytes, by kind and in all
        self.cpu: dict[tuple[str, int], float] = {}  # (kind, process) -> seconds

    def run(self) -> None:
        """Take a sample every two seconds."""
        while not self.over.wait(2.0):
            now: Counter[str] = Counter()
            for pid in self._tree():
                try:
                    command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    kind = next((kind for word, kind in KINDS.items() if word in command), "others")
                    pss = re.search(r"^Pss:\s+(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
                    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                except OSError:  # it has ended
                    continue
                now[kind] += int(pss[1]) * 1024 if pss else 0
                self.cpu[kind, pid] = (int(fields[11]) + int(fields[12])) / _TICK
            now["in all"] = sum(now.values())
            for kind, size in now.items():
                self.peak[kind] = max(self.peak[kind], size)

    def end(self) -> None:
        """Stop; the run has ended."""
        self.wall = time.monotonic() - self.began
        self.over.set()

    def _tree(self) -> set[int]:
        children: dict[int, list[int]] = defaultdict(list)
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                children[int(path.read_text().rpartition(")")[2].split()[1])].append(int(path.parent.name))
            except OSError:
                continue
        found, new = {self.root}, [self.root]
        while new:
            new = [child for parent in new for child in children[parent]]
            found |= set(new)
        return found

    def seconds(self) -> dict[str, float]:
        """Return processor seconds by kind."""
        total: Counter[str] = Counter()
        for (kind, _), used in self.cpu.items():
            total[kind] += used  # type: ignore[assignment]
        return {kind: round(used, 1) for kind, used in total.items()}


def stacks(path: Path) -> dict[str, float]:
    """Return the share of samples by library, of a file of collapsed stacks; waiting does not count."""
    found: Counter[str] = Counter()
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        frames, _, count = line.rpartition(" ")
        if WAITS.search(frames.rpartition(";")[2]):
            continue
        for frame in reversed(frames.split(";")):
            if whose := next((who for name, who in LIBRARIES.items() if re.search(rf"\b{name}/", frame)), ""):
                found[whose] += int(count)
                break
        else:
            found["others"] += int(count)
    every = sum(found.values()) or 1
    return {whose: round(count / every, 3) for whose, count in found.most_common()}


def settings(algorithm: str, parties: int, folder: Path) -> dict[str, Any]:
    """Return the run's settings: 30 rows a party."""
    rows = 30 * parties + SETTINGS["num-public"] + SETTINGS["num-test"]
    rounds = {"num-rounds": 2} if algorithm == "fedct" else {}
    return {
        **SETTINGS,
        **rounds,
        "algorithm": algorithm,
        "dataset": f"synthetic(rows={max(rows, 4000)})",
        "num-parties": parties,
        "output-dir": str(folder),
    }


def profiled(py_spy: str, pid: int, out: Path) -> subprocess.Popen[bytes] | None:
    """Start to sample the stacks of a process and of those that it starts."""
    if not py_spy:
        return None
    command = [py_spy, "record", "--subprocesses", "--rate", "10", "--format", "raw", "--output", str(out)]
    return subprocess.Popen(
        [*command, "--full-filenames", "--pid", str(pid)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def fedkd(values: dict[str, Any], folder: Path, py_spy: str) -> tuple[Path, Watch, Path]:
    """Run `fedkd simulate`; return the record's path, what was watched, and the file of stacks."""
    words = [f"{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in values.items()]
    command = [sys.executable, "-m", "fedkd_flwr.cli", "simulate", *words, "--processes", "2", "--json"]
    out = folder / "stacks.txt"
    run = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    watch = Watch(run.pid)
    watch.start()
    spy = profiled(py_spy, run.pid, out)
    said, _ = run.communicate()
    watch.end()
    if spy:
        spy.send_signal(signal.SIGINT)
        spy.wait(60)
    if run.returncode:
        sys.exit(f"fedkd simulate ended with {run.returncode}: {said[-500:]}")
    return Path(json.loads(said)["runs"][0]["record"]), watch, out


def ray(values: dict[str, Any], folder: Path, py_spy: str) -> tuple[Path, Watch, Path]:
    """Run `flwr run .` in a home of its own; return the same."""
    home = FlowerHome(folder / "home")
    out = folder / "stacks.txt"
    size = f"num-supernodes={values['num-parties']} client-resources-num-cpus=1 init-args-num-cpus=2"
    try:
        written = {key.replace("-", "_"): value for key, value in values.items()}
        run_id = home.submit(federation_config=size, **written)
        watch = Watch(home._superlinks()[0])
        watch.start()
        spy = profiled(py_spy, watch.root, out)
        record = folder / "runs" / run_id / "record.json"
        status = home.wait(run_id, output=record, seconds=3 * 3600)
        watch.end()
        if spy:
            spy.send_signal(signal.SIGINT)
            spy.wait(60)
        if status != "finished:completed":
            sys.exit(f"run {run_id}: {status}\n{home.log(run_id)[-3000:]}")
    finally:
        home.stop()
    return record, watch, out


def line(options: argparse.Namespace, parties: int, record: RunRecord, watch: Watch, out: Path) -> dict[str, Any]:
    """Return the figures of one run."""
    return {
        "algorithm": options.algorithm,
        "engine": options.engine,
        "parties": parties,
        "answered": [len(one.answered) for one in record.rounds],
        "federated-common": record.mean_accuracies().get("federated-common"),
        "seconds": round(watch.wall, 1),
        "start-up seconds": round(record.startup_seconds, 1),
        "round seconds": [round(one.seconds, 1) for one in record.rounds],
        "processor seconds": watch.seconds(),
        "peak MB": {kind: round(size / 1e6) for kind, size in watch.peak.items()},
        **({"stacks": stacks(out)} if out.is_file() else {}),
    }


def main() -> None:
    """Run each size once and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parties", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--algorithm", choices=("fedct", "fedkt"), default="fedct")
    parser.add_argument("--engine", choices=("fedkd", "ray"), default="fedkd")
    parser.add_argument("--py-spy", default="", help="the program py-spy; by default no stacks are sampled")
    parser.add_argument("--keep", type=Path, help="copy the records and pages into this folder")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    runs = []
    for parties in options.parties:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            path, watch, out = {"fedkd": fedkd, "ray": ray}[options.engine](
                settings(options.algorithm, parties, folder), folder, options.py_spy
            )
            runs.append(line(options, parties, RunRecord.load(path), watch, out))
            print(runs[-1], flush=True)
            if options.keep:
                kept = options.keep / f"{options.engine}-{parties}"
                kept.mkdir(parents=True, exist_ok=True)
                for file in (*path.parent.glob("*.*"), *([out] if out.is_file() else [])):
                    (kept / file.name).write_bytes(file.read_bytes())
        if options.out:  # after each: a later one may be stopped
            options.out.write_text(json.dumps(summary(runs), indent=1) + "\n", encoding="utf-8")


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the runs, and what one more party costs between the smallest and the largest."""
    told: dict[str, Any] = {
        "command": shlex.join(["python", "benchmarks/parties.py", *sys.argv[1:]]),
        "cores": os.cpu_count(),
        "load at the end": os.getloadavg()[0],
        "runs": runs,
    }
    if len(runs) > 1:
        first, last = (f(runs, key=lambda one: one["parties"]) for f in (min, max))
        more = last["parties"] - first["parties"]
        told["one more party"] = {
            "MB": {
                kind: round((size - first["peak MB"].get(kind, 0)) / more, 3) for kind, size in last["peak MB"].items()
            },
            "processor seconds": {
                kind: round((used - first["processor seconds"].get(kind, 0.0)) / more, 3)
                for kind, used in last["processor seconds"].items()
            },
        }
    return told


if __name__ == "__main__":
    main()

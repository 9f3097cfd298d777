"""Run a configuration of ``simulations/`` with ``flwr run`` (Ray) and tabulate the figures of the records.

    python benchmarks/simulate.py fedkt-adult --data-root /data --partition-path /oracles/fedkt-a9a-partitions.npz \
        --vary partitioner 'file(index=0)' 'file(index=1)' 'file(index=2)'

It prints one line per run, and then means and deviations. ``--out`` keeps them as JSON, with the command that made
them; the same command goes on where it was stopped. "up KB" is what a party sent in the last round, "in all KB" what it
sent or received over all rounds. With ``--in-process`` there is no Ray, and one process does all: the same figures, but
for seconds and memory.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flwr.common.config import flatten_dict

from fedkd_flwr.record.run_record import RunRecord

ROOT = Path(__file__).parents[1]
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
}


def _flwr(*arguments: str) -> Any:
    """Call the ``flwr`` of the environment in which this script runs, and return its JSON answer."""
    bin_dir = Path(sys.executable).parent
    env = {**os.environ, **QUIET, "PATH": f"{bin_dir}{os.pathsep}{os.environ.get('PATH', '')}"}
    answer = subprocess.run(
        [str(bin_dir / "flwr"), *arguments, "--format", "json"], cwd=ROOT, env=env, capture_output=True, text=True
    )
    return json.loads(answer.stdout[answer.stdout.index("{") :])


def _toml(value: Any) -> str:
    """Return a value for ``flwr run --run-config``, whose parser fails at escaped quotes."""
    if isinstance(value, bool):
        return str(value).lower()
    quote = '"' if "'" in str(value) else "'"
    return f"{quote}{value}{quote}" if isinstance(value, str) else str(value)


def settings(text: str) -> dict[str, Any]:
    """Return settings written as TOML by their keys, as Flower reads them: a section's name stands before a dot.

    >>> settings("fedct.quorum = 0.8")
    {'fedct.quorum': 0.8}
    """
    return flatten_dict(tomllib.loads(text))


def configuration(path: Path, data_root: str, partition_path: str, further: Sequence[str]) -> dict[str, Any]:
    """Return the run config of a file, with this machine's folders and further ``KEY=VALUE`` settings as TOML."""
    here = {"data-root": data_root, "paper.partition-path": partition_path}
    folders = {key: str(Path(value).absolute()) for key, value in here.items() if value}
    return {**settings(path.read_text(encoding="utf-8")), **folders, **settings("\n".join(further))}


def _text(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(_text, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)


class PeakMemory(threading.Thread):
    """Measures the peak resident memory of Flower's simulation and of Ray's party processes together."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = 0
        self.over = threading.Event()

    def run(self) -> None:
        """Take a sample twice a second."""
        while not self.over.wait(0.5):
            total = 0
            for status in Path("/proc").glob("[0-9]*/status"):
                try:
                    text = status.read_text()
                    command = (status.parent / "cmdline").read_bytes()
                except OSError:  # the process has ended
                    continue
                if b"ClientAppActor" in command or b"flwr-simulation" in command:
                    resident = re.search(r"VmRSS:\s+(\d+) kB", text)
                    total += int(resident[1]) * 1024 if resident else 0
            self.peak = max(self.peak, total)


def run(config: dict[str, Any], folder: Path, actors: int) -> tuple[RunRecord, int]:
    """Run one federation to its end and return its record and peak memory in bytes.

    Parameters
    ----------
    config : dict
        The run config, by dotted keys.
    folder : Path
        Where to write its results.
    actors : int
        Parallel party processes.
    """
    written = {**config, "output-dir": str(folder)}
    text = " ".join(f"{key}={_toml(value)}" for key, value in written.items())
    federation = f"num-supernodes={config['num-parties']} client-resources-num-cpus=1 init-args-num-cpus={actors}"
    started = _flwr("run", str(ROOT), "--run-config", text, "--federation-config", federation)
    run_id = str(started["run-id"])
    memory = PeakMemory()
    memory.start()
    while True:
        time.sleep(5.0)  # each question costs a second of computing
        listed = _flwr("list", "--run-id", run_id)
        status = listed["runs"][0]["status"]
        if status.startswith("finished"):
            break
    memory.over.set()
    path = folder / "runs" / run_id / "record.json"
    if not path.is_file():
        sys.exit(f"run {run_id}: {status}, without a record; `flwr log {run_id}` says more")
    record = RunRecord.load(path)
    if status != "finished:completed":
        sys.exit(f"run {run_id}: {status}: {record.reason}")
    return record, memory.peak


def run_here(config: dict[str, Any], folder: Path) -> tuple[RunRecord, int]:
    """Run one federation in this process, party after party; return its record, and 0 for the memory of its parties."""
    from flwr.app import Context, RecordDict

    from fedkd_flwr.app.client_app import app as client_app
    from fedkd_flwr.app.live_run import captured_log
    from fedkd_flwr.app.server_app import app as server_app
    from fedkd_flwr.simulation.grid import InProcessGrid

    parties, run_id = int(config["num-parties"]), 1
    nodes = [{"partition-id": i, "num-partitions": parties} for i in range(parties)]
    with tempfile.TemporaryDirectory(dir=folder) as home, captured_log():
        written = {**config, "output-dir": home, "nodes-stable-s": 0.05}
        grid = InProcessGrid(client_app, nodes, written, run_id=run_id)
        server_app(grid, Context(run_id, run_id, {}, RecordDict(), written))
        return RunRecord.load(Path(home) / "runs" / str(run_id) / "record.json"), 0


def line(record: RunRecord, peak: int) -> dict[str, Any]:
    """Return the figures of one run."""
    means, balanced = record.mean_accuracies(), record.mean_accuracies("balanced_accuracy")
    server = record.server.get("common")
    first, last = record.rounds[0], record.rounds[-1]
    measured = [list(r.accuracy.values()) for r in record.rounds]
    return {
        "seed": record.seed,
        "parties": f"{len(first.answered)}/{first.asked}",
        "rounds": len(record.rounds),
        "solo": means.get("solo-common"),
        "federated": means.get("federated-common"),
        "server": record.server_accuracy,
        "central": record.centralised_accuracy,
        "solo balanced": balanced.get("solo-common"),
        "federated balanced": balanced.get("federated-common"),
        "server balanced": server.balanced_accuracy if server else None,
        "consensus": last.consensus_accuracy,
        "labelled": last.labelled_share,
        "up KB": last.bytes_up / max(last.asked, 1) / 1e3,
        "up in all KB": sum(r.bytes_up / max(r.asked, 1) for r in record.rounds) / 1e3,
        "down in all KB": sum(r.bytes_down / max(r.asked, 1) for r in record.rounds) / 1e3,
        "start-up s": record.startup_seconds,
        "exchange s": sum(r.seconds for r in record.rounds),
        "all s": record.seconds,
        "peak GB": peak / 1e9,
        "federated by round": [round(statistics.fmean(values), 4) for values in measured if values],
    }


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="a file of simulations/, without .toml")
    parser.add_argument("--data-root", default="", help="folder of the data sets")
    parser.add_argument("--partition-path", default="", help="for partitioner = file")
    parser.add_argument("--vary", nargs="+", default=["seed", "1"], metavar=("KEY", "VALUE"), help="default: seed 1")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="further settings, as TOML")
    parser.add_argument("--actors", type=int, default=2, help="parallel party processes (default 2)")
    parser.add_argument("--in-process", action="store_true", help="without Ray, party after party: the same figures")
    parser.add_argument("--out", type=Path, help="JSON file for the results")
    options = parser.parse_args()
    path = ROOT / "simulations" / f"{options.name}.toml"
    config = configuration(path, options.data_root, options.partition_path, options.set)
    key, *values = options.vary
    lines = kept(options)
    done = [str(one[key]) for one in lines]
    with tempfile.TemporaryDirectory() as folder:
        for value in (value for value in values if value not in done):
            varied = {**config, **settings(f"{key} = {value}")}
            made = run_here(varied, Path(folder)) if options.in_process else run(varied, Path(folder), options.actors)
            figures = {key: value, **line(*made)}
            lines.append(figures)
            print("  ".join(f"{k} {_text(v)}" for k, v in figures.items()), flush=True)
            if options.out:  # after every run: a later one may be stopped
                keep(options, lines)
    for name, values_of in summary(lines).items():
        print(f"{name}  " + "  ".join(f"{k} {v:.4f}" for k, v in values_of.items()))


def summary(lines: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return the means of the runs' figures and, of several runs, their standard deviations.

    >>> summary([{"solo": 0.5, "seed": 1}, {"solo": 0.7, "seed": 2}])
    {'means': {'solo': 0.6}, 'deviations': {'solo': 0.1414}}
    """
    figures = [name for name in lines[0] if all(isinstance(one[name], float) for one in lines)]
    made = {"means": statistics.fmean, **({"deviations": statistics.stdev} if len(lines) > 1 else {})}
    return {what: {k: round(of([x[k] for x in lines]), 4) for k in figures} for what, of in made.items()}


def command(options: argparse.Namespace) -> str:
    """Return the command line, without the folders of this machine."""
    here = {value: f"/path/to/{Path(value).name}" for value in (options.data_root, options.partition_path) if value}
    return shlex.join(["python", "benchmarks/simulate.py", *(here.get(word, word) for word in sys.argv[1:])])


def kept(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the runs that the same command has made before it was stopped."""
    if not (options.out and options.out.is_file()):
        return []
    before = json.loads(options.out.read_text(encoding="utf-8"))
    return list(before["runs"]) if before["command"] == command(options) else []


def keep(options: argparse.Namespace, lines: Sequence[dict[str, Any]]) -> None:
    """Write the runs, their summary and the command."""
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({"command": command(options), "runs": lines, **summary(lines)}, indent=1) + "\n")


if __name__ == "__main__":
    main()

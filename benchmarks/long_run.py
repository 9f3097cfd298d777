"""Run many rounds over real SuperNodes, and see whether memory, open files or disk grow.

    python benchmarks/long_run.py --rounds 200 --silos 5 --out benchmarks/results/long-run.json

FedCT with decision trees in a federation of `fedkd dev net`, with TLS and keys. After each round the resident memory
and the open files of every lasting process are read from ``/proc``: the SuperLink, each node, and the server's process.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT)]

from fedkd_flwr.app.output import output_root  # noqa: E402
from fedkd_flwr.app.submit import submit  # noqa: E402
from fedkd_flwr.record.run_record import RunRecord  # noqa: E402
from fedkd_flwr.silo.devnet import Devnet, devnet  # noqa: E402

RUN = {
    "algorithm": "fedct",
    "model": "decision-tree",
    "consensus": "majority",
    "paper.stop-when-converged": False,
    "round-timeout-s": 300.0,
}
FIRST = 20  # the round that later ones are compared with


def children(parent: int) -> list[int]:
    """Return the processes below one, itself first."""
    found, below = [parent], Path(f"/proc/{parent}/task/{parent}/children")
    if below.exists():
        for child in below.read_text(encoding="utf-8").split():
            found += children(int(child))
    return found


def of_process(pid: int) -> tuple[int, int]:
    """Return a process's resident memory in kB, and its open files."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    memory = next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")), 0)
    return memory, len(list(Path(f"/proc/{pid}/fd").iterdir()))


def measured(net: Devnet) -> dict[str, tuple[int, int]]:
    """Return memory and open files of the lasting processes, by name."""
    found = {}
    for name, process in net.processes.items():
        for pid in children(process.pid):
            try:
                words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
                if pid == process.pid:
                    found[name] = of_process(pid)
                elif any("serverapp" in word for word in words):
                    found["ServerApp"] = of_process(pid)
            except (OSError, ValueError):  # it has ended meanwhile
                continue
    return found


def size_of(folder: Path) -> int:
    """Return the bytes of all files in a folder, those left out that end meanwhile."""
    found = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            found += path.stat().st_size if path.is_file() else 0
    return found


def main() -> None:
    """Run and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--silos", type=int, default=5)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "long-run.json")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the federation is ended, too
    by_round: dict[int, dict[str, tuple[int, int]]] = {}
    disk: dict[int, dict[str, int]] = {}
    with devnet(given.silos, name="long-run", show=print) as net:
        settings = {**RUN, "num-parties": given.silos, "num-rounds": given.rounds, "public-path": str(net.public)}
        run_id = submit(settings, superlink=net.name).run_id
        path = output_root("") / "runs" / run_id / "record.json"
        record = None
        while record is None or record.status == "running":
            time.sleep(1.0)
            if path.exists():
                record = RunRecord.load(path)
                done = sum(one.ended for one in record.rounds)
                if done and done not in by_round:
                    by_round[done] = measured(net)
                    if done % 10 == 0:
                        states = [size_of(net.folder / f"silo-{number + 1}" / "state") for number in range(given.silos)]
                        all_of_it = size_of(net.folder)
                        disk[done] = {"a silo's state": max(states), "run folder": size_of(path.parent)}
                        disk[done]["everything else"] = all_of_it - sum(states)
                        print(done, by_round[done], disk[done], flush=True)
        last = max(by_round)
        grown = {
            name: {"kB": (before[0], after[0]), "open files": (before[1], after[1])}
            for name, before in by_round[min(FIRST, last)].items()
            if (after := by_round[last].get(name)) is not None
        }
        found = {
            "command": f"python benchmarks/long_run.py --rounds {given.rounds} --silos {given.silos}",
            "status": record.status,
            "rounds": len(record.rounds),
            "rounds with all answers": sum(len(one.answered) == given.silos for one in record.rounds),
            f"round {min(FIRST, last)} and {last}": grown,
            "bytes on disk, by round": disk,
        }
    given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found))


if __name__ == "__main__":
    main()

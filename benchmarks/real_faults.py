"""Meet faults of a real machine over real SuperNodes: a wrong clock, a full disk, a killed server.

    python benchmarks/real_faults.py clock keyless-clock full-disk memory --out benchmarks/results/real-faults.json

Needs root on Linux with ``faketime`` and ``mount -t tmpfs``. Each fault meets FedCT with
three nodes of `fedkd dev net`. What the server's record and log say, and the log of the silo it happened to, is printed
and kept, so that a person reads whether one sentence at each end names the fault.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT)]

from fedkd_flwr.app.output import output_root  # noqa: E402
from fedkd_flwr.app.submit import follow, status, submit  # noqa: E402
from fedkd_flwr.record.run_record import RunRecord  # noqa: E402
from fedkd_flwr.report.status import run_status  # noqa: E402
from fedkd_flwr.silo.devnet import Devnet, _end, _start, devnet  # noqa: E402

RUN = {"algorithm": "fedct", "model": "decision-tree", "consensus": "majority", "round-timeout-s": 60.0}
RUN |= {"num-parties": 3, "num-rounds": 4, "paper.stop-when-converged": False, "min-parties": 2}


def restarted(net: Devnet, name: str, *before: str, without: tuple[str, ...] = ()) -> None:
    """Start one process of a federation again, below another command or without some of its options."""
    process = net.processes[name]
    command = list(map(str, process.args))
    _end({name: process})
    for option in without:
        where = command.index(option)
        del command[where : where + (2 if option.endswith("key") else 1)]
    net.processes[name] = _start(net.folder, name, [*before, *command])  # type: ignore[index]


@contextlib.contextmanager
def small_disk(kilobytes: int) -> Iterator[Path]:
    """Mount a disk of so many kilobytes meanwhile."""
    with tempfile.TemporaryDirectory() as place:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", place], check=True)
        try:
            yield Path(place)
        finally:
            subprocess.run(["umount", "-l", place], check=True)


def followed(net: Devnet, settings: dict[str, object], *, limit_s: float = 300.0) -> dict[str, object]:
    """Run with these settings and return what both ends say."""
    began = {silo: (net.folder / silo / "log.txt").stat().st_size for silo in net.processes}
    run_id = submit({**RUN, "public-path": str(net.public), **settings}, superlink=net.name).run_id
    deadline = time.monotonic() + limit_s
    while not (stands := status(run_id, net.name))[0].startswith("finished") and time.monotonic() < deadline:
        time.sleep(2.0)
    time.sleep(3.0)
    said = [line for line in follow(run_id, net.name, stream=False) if re.search(r"WARN|ERROR|rror:", line)]
    path = output_root(str(settings.get("output-dir", ""))) / "runs" / run_id / "record.json"
    found: dict[str, object] = {"status at the SuperLink": stands, "the server's log": said[-8:]}
    if path.exists():
        record = RunRecord.load(path)
        found["record"] = {"status": record.status, "reason": record.reason}
        found["rounds"] = [
            {"answered": sorted(one.answered), "rejected": {r.party or r.node_id: r.code for r in one.rejected}}
            for one in record.rounds
        ]
        found["as a reader sees it"] = run_status(record).sentence
        found["notes"] = [str(note) for note in record.notes][-6:]
    for silo in net.processes:
        with (net.folder / silo / "log.txt").open(encoding="utf-8", errors="replace") as log:
            log.seek(began[silo])
            lines = [line.rstrip() for line in log if re.search(r"WARN|ERROR|rror:|clock|disk|memory", line)]
        found[f"log of {silo}"] = lines[-6:]
    return found


def clock() -> dict[str, object]:
    """Meet a silo whose clock is three days ahead; it signs its requests with a key."""
    with devnet(3, name="faults", show=print) as net:
        restarted(net, "silo-3", "faketime", "-f", "+3d")
        return followed(net, {})


def keyless_clock() -> dict[str, object]:
    """Meet a silo whose clock is three days ahead at a SuperLink that asks for no keys."""
    with devnet(3, name="faults", show=print) as net:
        restarted(net, "server", without=("--enable-supernode-auth",))
        time.sleep(5.0)
        for silo in ("silo-1", "silo-2", "silo-3"):
            before = ("faketime", "-f", "+3d") if silo == "silo-3" else ()
            restarted(net, silo, *before, without=("--auth-supernode-private-key",))
        return followed(net, {})


def full_disk() -> dict[str, object]:
    """Meet a disk of the server that has no place for the results."""
    with small_disk(64) as disk, devnet(3, name="faults", show=print) as net:
        return followed(net, {"output-dir": str(disk)})


def full_silo() -> dict[str, object]:
    """Meet a disk of a silo that has no place for its state."""
    with small_disk(24) as disk, devnet(3, name="faults", show=print) as net:
        state = net.folder / "silo-3" / "state"
        state.mkdir(exist_ok=True)
        subprocess.run(["mount", "--bind", str(disk), str(state)], check=True)
        try:
            return followed(net, {})
        finally:
            subprocess.run(["umount", "-l", str(state)], check=True)


def memory() -> dict[str, object]:
    """Meet what the kernel does where memory runs out: the run's process at the server is killed."""

    def kill() -> None:
        before = {path.name for path in runs.glob("*")}
        while not (new := [path for path in runs.glob("*/record.json") if path.parent.name not in before]):
            time.sleep(0.5)
        while not RunRecord.load(new[0]).rounds:
            time.sleep(0.5)
        record = RunRecord.load(new[0])
        if record.process is not None:
            os.kill(record.process.pid, signal.SIGKILL)

    runs = output_root("") / "runs"
    with devnet(3, name="faults", show=print) as net:
        threading.Thread(target=kill, daemon=True).start()
        return followed(net, {"num-rounds": 60}, limit_s=150.0)


FAULTS = {"clock": clock, "keyless-clock": keyless_clock, "full-disk": full_disk, "full-silo": full_silo}
FAULTS |= {"memory": memory}


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("faults", nargs="+", choices=FAULTS)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the federation is ended, too
    found = {}
    for name in given.faults:
        found[name] = FAULTS[name]()
        print(json.dumps({name: found[name]}, indent=1), flush=True)
    if given.out:
        given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

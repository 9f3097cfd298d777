"""Kill a process that writes its egress log, again and again, and see whether the log holds every line it wrote.

python benchmarks/killed_egress_log.py --kills 150
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import tempfile
import time

from fedkd_flwr.stores.egress_log import EgressLog, read_log


def killed(log: EgressLog, after_s: float) -> int:
    """Let a process append lines until it is killed; return the number of the last one that it was told is written."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        while True:
            os.write(write, b"%d\n" % log.append({"filler": "x" * 5000})["number"])
    os.close(write)
    time.sleep(after_s)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(read, "rb") as pipe:
        return max((int(line) for line in pipe.read().split()), default=0)


def main() -> None:
    """Kill, and look at the log after each kill."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    rng, written, behind, lines = random.Random(given.seed), 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        log = EgressLog(folder, party="a")
        for _ in range(given.kills):
            written = max(written, killed(log, rng.uniform(0.005, 0.15)))
            if not log.head_path.exists():
                continue
            found = read_log(log.path)
            lines, behind = len(found.lines), behind + bool(found.notes)
            if found.problems or lines < written:
                raise SystemExit(f"{lines} lines, {written} were written: {found.problems}")
    print(f"{given.kills} kills: {lines} lines hold, {written} of them were told to be written;")
    print(f"{behind} kills left half a line, or the head one line behind")


if __name__ == "__main__":
    main()

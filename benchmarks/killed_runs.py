"""End real simulations at random moments, and compare their records and pages with what the parties really sent.

    python benchmarks/killed_runs.py --kills 6 --seed 1 --out benchmarks/results/killed-runs.json

Each run is a simulation under ``flwr run`` (Ray, a SuperLink of its own) of FedCT with randomised response. It is ended
in turn by SIGKILL of the server's process, ``flwr stop``, SIGINT and SIGTERM, at a random moment after a random round.
What left is known from the parties' ledgers, which are charged before a reply leaves. Checked in each record:

- no ledger holds a round that the record does not say was asked; all parties answered in each round that it says ended
- the round that it says was asked last is the last one charged, or the one after it
- the claim on the disk counts as many rounds as were asked
- the status is that of the way it ended; a reader finds a killed process killed
- the page, as it was left and as it is written again, names no round that was not asked, and never says that nothing
  left
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests")]

from flower_runtime import BIN, FlowerHome, wait_for_port  # noqa: E402

from fedkd_flwr.privacy.claims.claim import label_privacy  # noqa: E402
from fedkd_flwr.privacy.noise.labels import RandomizedResponse  # noqa: E402
from fedkd_flwr.record.run_record import RunRecord  # noqa: E402
from fedkd_flwr.report import write_page  # noqa: E402
from fedkd_flwr.report.status import run_status  # noqa: E402
from fedkd_flwr.stores.book import ledger_in  # noqa: E402

PARTIES, ROUNDS, PUBLIC, CLASSES = 3, 60, 60, 3
EPSILON = 0.5
CONFIG = {
    "dataset": f"synthetic(rows=300, classes={CLASSES})",
    "num_public": PUBLIC,
    "partitioner": "iid",
    "model": "decision-tree",
    "num_rounds": ROUNDS,
    "num_parties": PARTIES,
    "centralised": False,
    "label_mechanism": "randomized-response",
    "noise_strength": EPSILON,
}
WAYS = {
    "SIGKILL": ("killed",),
    "flwr stop": ("stopped",),
    "SIGINT": ("stopped",),
    "SIGTERM": ("stopped", "killed"),  # a simulation ended without a word: it is presumed that Ray takes the signal
}


def _record(path: Path) -> RunRecord | None:
    return RunRecord.load(path) if path.is_file() else None


def charged(folder: Path, run_id: str) -> dict[str, set[int]]:
    """Return the rounds that each party's ledger was charged for."""
    found = {}
    for path in folder.rglob("ledger.sqlite3"):
        entries = ledger_in(path.parent)[0].entries
        found[path.parent.name] = {one.server_round for one in entries if one.run_id == run_id}
    return found


def superlink(flower: FlowerHome) -> None:
    """Start the local SuperLink as ``flwr run`` does, which waits 15 s for it: too few on a busy machine."""
    port, control = (flower.env[f"FLWR_LOCAL_{name}_PORT"] for name in ("SUPERLINK_HTTP_API", "CONTROL_API"))
    command = [str(BIN / "flower-superlink"), "--insecure", "--simulation", "--isolation", "subprocess"]
    command += ["--control-api-address", f"127.0.0.1:{control}", "--host", "127.0.0.1", "--port", port]
    command += ["--database", str(flower.home / "state.db")]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, env=flower.env, start_new_session=True, **quiet)
    wait_for_port(int(port), process, 300.0)


def end_one(flower: FlowerHome, folder: Path, way: str, rng: random.Random) -> dict[str, Any]:
    """Start a run, end it, and return what was found."""
    federation = f"num-supernodes={PARTIES} client-resources-num-cpus=1 init-args-num-cpus=2"
    run_id = flower.submit(federation_config=federation, output_dir=str(folder), **CONFIG)
    path = folder / "runs" / run_id / "record.json"
    wanted, deadline = rng.randrange(0, 12), time.monotonic() + 240
    while time.monotonic() < deadline:
        record = _record(path)
        if record is not None and len(record.rounds) >= wanted:
            break
        time.sleep(0.05)
    time.sleep(rng.uniform(0.0, 1.5))
    record = RunRecord.load(path)
    process, before = record.process, len(record.rounds)
    assert process is not None
    if way == "flwr stop":
        flower.flwr("stop", run_id)
    else:
        os.kill(process.pid, getattr(signal, way))
    deadline = time.monotonic() + 90
    while run_status(RunRecord.load(path)).word == "running" and time.monotonic() < deadline:
        time.sleep(0.2)
    time.sleep(8.0)  # parties that are at work finish, or are ended by Ray
    return {"way": way, "asked when struck": before, **checked(path, run_id, way)}


def checked(path: Path, run_id: str, way: str) -> dict[str, Any]:
    """Compare the record and page with the ledgers; ``false`` lists what they say that is not so."""
    record = RunRecord.load(path)
    stands, left = run_status(record), charged(path.parent, run_id)
    asked = [one.server_round for one in record.rounds]
    last, most = max(asked, default=0), max((max(rounds, default=0) for rounds in left.values()), default=0)
    ended = [one.server_round for one in record.rounds if one.ended]
    wrong = []
    if any(rounds - set(asked) for rounds in left.values()):
        wrong.append("a round was charged that the record does not name")
    if not most <= last <= most + 1:
        wrong.append(f"round {last} is named, round {most} was charged last")
    for one in record.rounds:
        if one.ended and not all(one.server_round in left.get(name, set()) for name in _folders(one.answered, left)):
            wrong.append(f"round {one.server_round} ended without a charge of all who answered")
    if stands.word not in WAYS[way]:
        wrong.append(f"it is said to be {stands.word}")
    mechanism = RandomizedResponse(epsilon=EPSILON, num_classes=CLASSES)
    claims = []
    if last:  # before, the record need not know the public set yet
        asked_for = {"num_labels": record.num_public, "rounds": last, "delta": 1e-5, "num_parties": PARTIES}
        claims = [label_privacy(mechanism, **asked_for).as_dict()]
    if record.claims != claims:
        wrong.append("the claim does not count the rounds that were asked")
    pages = {"left": path.parent / "report.html", "again": write_page(record, path.parent / "again.html")}
    named = {}
    for name, page in pages.items():
        text = " ".join(re.sub(r"<[^>]*>", " ", page.read_text(encoding="utf-8")).split())
        told = re.search(r"This run (?:is going on|was \w+|failed) ?([^.:]*)", text)
        named[name] = told[0] if told else ""
        if last and "nothing was released" in text:
            wrong.append(f"the page {name} says that nothing was released")
        rounds = [int(found) for found in re.findall(r"round (\d+) began", text)]
        if any(number > last for number in rounds):
            wrong.append(f"the page {name} names round {rounds}")
        if name == "again" and record.open_round is not None and last not in rounds:
            wrong.append("the page written again does not name the round that had begun")
    return {
        "status": record.status,
        "reason": record.reason,
        "word": stands.word,
        "doing": record.doing,
        "asked": last,
        "ended": len(ended),
        "charged last": most,
        "page left": named["left"],
        "page again": named["again"],
        "false": wrong,
    }


def _folders(names: list[str], left: dict[str, set[int]]) -> list[str]:
    """Return the ledgers' folders of some parties: their names begin with the party's."""
    return [folder for name in names for folder in left if folder.startswith(name)] or names


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rng, found = random.Random(options.seed), []
    with tempfile.TemporaryDirectory() as folder:
        for i in range(options.kills):
            way = list(WAYS)[i % len(WAYS)]
            # a SuperLink of its own: a killed simulation leaves Ray processes behind for a while
            flower = FlowerHome(Path(folder) / f"flower-{i}")
            try:
                superlink(flower)
                found.append(end_one(flower, Path(folder) / "out", way, rng))
            finally:
                flower.stop()
            print(json.dumps(found[-1]), flush=True)
            if options.out:
                options.out.parent.mkdir(parents=True, exist_ok=True)
                command = f"python benchmarks/killed_runs.py --kills {options.kills} --seed {options.seed}"
                options.out.write_text(json.dumps({"command": command, "runs": found}, indent=1) + "\n")
    wrong = sum(bool(one["false"]) for one in found)
    print(f"{len(found)} runs ended, {wrong} with something false")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()

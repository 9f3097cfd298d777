"""Stop real runs at random moments, and see whether each silo's later answers arrive under their own instructions.

    python benchmarks/stopped_runs.py --stops 20 --seed 1 --out benchmarks/results/stopped-runs.json

One federation of `fedkd dev net`, with TLS and keys: three nodes under ``fedkd node run`` where a person approves each
answer. In turn a run of DP-FedCT is stopped (``flwr stop``) at a random moment, and a private run of one round follows
whose answers are all approved. Checked after each pair, and in the egress logs at the end:

- the second run is completed, and all three parties have answered its round
- every answer that was approved, in either run, is said to be sent, or not sent, or perhaps sent
- an answer that the record counts is one that the log calls sent
- the logs hold, line by line
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT)]

from fedkd_flwr.app.output import output_root  # noqa: E402
from fedkd_flwr.app.submit import FlowerError, flower, status, submit  # noqa: E402
from fedkd_flwr.errors import FedkdError  # noqa: E402
from fedkd_flwr.record.run_record import RunRecord  # noqa: E402
from fedkd_flwr.silo.devnet import Devnet, devnet  # noqa: E402
from fedkd_flwr.silo.review import decide, pending  # noqa: E402
from fedkd_flwr.stores.egress_log import read_log  # noqa: E402

SILOS = 3
NODE = {"approve": "always", "approve-within-s": 300.0, "share-metrics": ""}
RUN = {
    "algorithm": "fedct",
    "model": "decision-tree",
    "num-parties": SILOS,
    "label-mechanism": "randomized-response",
    "paper.noise-strength": 1.0,
    "round-timeout-s": 120.0,
}


def approve_all(net: Devnet, ended: threading.Event, rng: random.Random) -> None:
    """Approve whatever waits, a moment after it began to."""
    while not ended.wait(0.3):
        for number in range(1, SILOS + 1):
            state = net.folder / f"silo-{number}" / "state"
            if not state.is_dir() or rng.random() < 0.5:
                continue
            try:
                for held in pending(state):
                    decide(str(held.facts["run"]), state, approved=True, reason="seen", by="Ada")
            except FedkdError:  # decided or removed meanwhile
                continue


def one_run(net: Devnet, **settings: Any) -> str:
    """Submit a run and return its id."""
    return submit({**RUN, **settings, "public-path": str(net.public)}, superlink=net.name).run_id


def lines_of(net: Devnet) -> dict[str, list[dict[str, Any]]]:
    """Return the lines of each silo's egress log."""
    found = {}
    for path in sorted(net.folder.glob("silo-*/state/egress/*/log.jsonl")):
        log = read_log(path)
        found[path.parent.name] = log.lines
        if log.problems:
            raise SystemExit(f"{path}: {log.problems}")
    return found


def outcomes(net: Devnet, run_id: str) -> dict[str, list[str]]:
    """Return what each silo's log says became of its approved answers in a run."""
    told: dict[str, list[str]] = {}
    for party, lines in lines_of(net).items():
        settled = {line["answer"]: line["outcome"] for line in lines if "outcome" in line}
        for line in lines:
            if line.get("run") == run_id and (line.get("approval") or {}).get("verdict") == "approved":
                told.setdefault(party, []).append(
                    settled.get(line["number"], "unknown") if line["left"] else "not sent: held"
                )
    return told


def wait_for_end(run_id: str, net: Devnet, seconds: float) -> str:
    """Return how a run ended; "hangs" where it has not."""
    deadline = time.monotonic() + seconds
    record = output_root("") / "runs" / run_id / "record.json"
    while time.monotonic() < deadline:
        if record.exists() and '"status": "running"' not in record.read_text(encoding="utf-8"):
            return RunRecord.load(record).status
        time.sleep(0.5)
    return f"hangs: {status(run_id, net.name)[0]}"


def pair(net: Devnet, rng: random.Random, longest: float) -> dict[str, Any]:
    """Stop one run at a random moment, and let one follow."""
    first, moment = one_run(net, **{"num-rounds": 5}), rng.uniform(0.0, longest)
    begun, deadline = output_root("") / "runs" / first / "record.json", time.monotonic() + 120.0
    while not begun.exists() and time.monotonic() < deadline:  # until then there is nothing to be stopped
        time.sleep(0.1)
    time.sleep(moment)
    stopped = "stopped"
    try:
        flower("stop", first, net.name)
    except FlowerError as error:
        stopped = str(error)
    began = time.monotonic()
    second = one_run(net, **{"num-rounds": 1})
    ended = wait_for_end(second, net, 240.0)
    seconds = time.monotonic() - began
    record = RunRecord.load(output_root("") / "runs" / second / "record.json")
    time.sleep(6.0)  # the nodes write what became of their last answers
    before, after = outcomes(net, first), outcomes(net, second)
    answered = record.rounds[0].answered if record.rounds else []
    wrong = []
    if ended != "completed" or len(answered) != SILOS:
        wrong.append(f"the run after it: {ended}, answered by {answered}")
    for party, told in [*before.items(), *after.items()]:
        if "unknown" in told:
            wrong.append(f"{party}: nothing is said of an approved answer: {told}")
    for party in answered:
        if after.get(party, [""])[0] != "sent":
            wrong.append(f"{party}: its answer counted, and its log says {after.get(party)}")
    return {
        "stopped after s": round(moment, 1),
        "stop": stopped,
        "approved before": before,
        "approved after": after,
        "the run after it": ended,
        "took s": round(seconds, 1),
        "wrong": wrong,
    }


def main() -> None:
    """Run the pairs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stops", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--longest", type=float, default=45.0, help="the latest moment of a stop, in seconds after the server began"
    )
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "stopped-runs.json")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the federation is ended, too
    rng, ended, found = random.Random(given.seed), threading.Event(), []
    with devnet(SILOS, node_settings=NODE, name="stopped-runs", show=print) as net:
        steward = threading.Thread(target=approve_all, args=(net, ended, random.Random(given.seed + 1)))
        steward.start()
        try:
            for number in range(given.stops):
                found.append(pair(net, rng, given.longest))
                print(number + 1, json.dumps(found[-1]), flush=True)
        finally:
            ended.set()
            steward.join()
            command = f"python benchmarks/stopped_runs.py --stops {given.stops} --seed {given.seed}"
            told = Counter(
                one.partition(":")[0]
                for each in found
                for when in ("approved before", "approved after")
                for outcomes_ in each[when].values()
                for one in outcomes_
            )
            summary = {"command": command, "stops": len(found), "approved answers": dict(told)}
            summary["out of step, or silent"] = sum(bool(one["wrong"]) for one in found)
            given.out.write_text(json.dumps({**summary, "each": found}, indent=1) + "\n", encoding="utf-8")
            print(json.dumps(summary))


if __name__ == "__main__":
    main()

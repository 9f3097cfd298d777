"""Kill real runs at random instants, continue them, and compare what comes out with runs that nobody killed.

    python benchmarks/resume.py --kills 4 --seed 1 --out benchmarks/results/resume.json
    python benchmarks/resume.py --silos --only dp-fedct --seed 1 --out benchmarks/results/resume.json

Without ``--silos`` each run is a ``fedkd simulate`` of three parties: its server and all processes of its parties are
ended together by SIGKILL, as with the power, and the run goes on with ``fedkd simulate --resume``, which is killed
again, ``--kills`` times in all. With ``--silos`` three SuperNodes with TLS and keys answer (``fedkd devnet``); the
ServerApp, then the SuperLink with all that it started, then a SuperNode are killed once each. Checked:

- the record of the run that came to its end is that of the unbroken run, but for times, bytes and ids (simulations;
  with noise only what noise cannot change)
- each party's ledger holds each round once, or oftener only where the claim counts it as often
- the claim on the disk counts at least as many answers as the ledger that holds most
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
ENV = {**os.environ, "PYTHONPATH": str(ROOT), "FLWR_TELEMETRY_ENABLED": "0"}
FEDKD = [sys.executable, "-m", "fedkd_flwr.commands"]

from fedkd_flwr.apps.find_run import way_to_continue  # noqa: E402
from fedkd_flwr.run_record import RunRecord  # noqa: E402

DATA = {"dataset": "synthetic", "synthetic-rows": 300, "synthetic-classes": 3, "num-public": 60, "num-test": 60}
COMMON = {**DATA, "partitioner": "iid", "num-parties": 3, "centralised": "false"}
NET = {"model": "mlp", "model-params": '{"hidden": [8], "epochs": 2}'}
RUNS: dict[str, dict[str, Any]] = {
    "fedct": {"algorithm": "fedct", **NET, "num-rounds": 8, "fedct.stop-when-converged": "false"},
    "fedmd": {"algorithm": "fedmd", **NET, "num-rounds": 8, "initial-epochs": 5},
    "privatekt": {"algorithm": "privatekt", **NET, "num-rounds": 8, "privatekt.round-epsilon": 4.0},
    "dp-fedct": {
        "algorithm": "fedct",
        "model": "decision-tree",
        "num-rounds": 8,
        "label-mechanism": "randomized-response",
        "label-epsilon": 0.5,
    },
    "fedkt-l2": {
        "algorithm": "fedkt",
        "model": "decision-tree",
        "final-model": "decision-tree",
        "fedkt.level": "L2",
        "noise": "gaussian",
        "epsilon": 2.0,
        "num-queries": 30,
    },
}
TARGETS = ["ServerApp", "SuperLink", "SuperNode"]
NOISY = ("privatekt", "dp-fedct", "fedkt-l2")
ALLOW = "fedct,fedkt,pate,privatekt,fedmd"


def words(settings: dict[str, Any]) -> list[str]:
    """Return settings as words of a command."""
    return [f"{key}={value}" for key, value in settings.items()]


def told(record: RunRecord, *, noisy: bool) -> dict[str, Any]:
    """Return what a record says of the result, without times and bytes; of a noisy run what noise cannot change."""
    data = record.as_dict()
    rounds = [(one["server_round"], one["asked"], one["answered"]) for one in data["rounds"]]
    found: dict[str, Any] = {"status": record.status, "rounds": rounds, "claims": data["claims"]}
    if not noisy:
        for one in data["rounds"]:
            for key in ("asked_at", "seconds", "bytes_up", "bytes_down"):
                del one[key]
        for one in data["parties"]:
            del one["model_bytes"]
        found |= {"every round": data["rounds"], "parties": data["parties"], "server": data["server"]}
    return found


def ledgers(folder: Path) -> dict[str, Counter[int]]:
    """Return how often each party's ledger was charged for each round, by party."""
    found: dict[str, Counter[int]] = {}
    for path in folder.rglob("ledger.json"):
        entries = json.loads(path.read_text(encoding="utf-8"))["entries"]
        counts = found.setdefault(path.parent.name, Counter())
        counts.update(one["server_round"] for one in entries if one["events"][0][0]["kind"] != "non-private")
    return found


def newest(folder: Path, before: set[str], process: subprocess.Popen[bytes]) -> Path | None:
    """Return the record of the run that a command has just started; None if it ended without one."""
    while True:
        for path in (folder / "runs").glob("*/record.json"):
            if path.parent.name not in before:
                return path
        if process.poll() is not None:
            return None
        time.sleep(0.05)


def end_group(pid: int) -> None:
    """Kill a process and all of its group."""
    with suppress(ProcessLookupError):
        os.killpg(os.getpgid(pid), signal.SIGKILL)


def simulated(name: str, folder: Path, kills: int, rng: random.Random) -> dict[str, Any]:
    """Run once unbroken, then once more with kills, and compare."""
    settings = {**COMMON, **RUNS[name]}
    began = time.monotonic()
    log = (folder / f"{name}.log").open("wb")
    done = subprocess.run([*FEDKD, "simulate", *words(settings), f"output-dir={folder}/whole"], env=ENV, stderr=log)
    took = time.monotonic() - began
    assert done.returncode == 0, (folder / f"{name}.log").read_text()
    (path,) = (folder / "whole" / "runs").glob("*/record.json")
    whole, killed, place = RunRecord.load(path), [], folder / "lost"
    span = whole.seconds + 1.0
    arguments, known = [*words(settings), f"output-dir={place}"], set[str]()
    while True:
        process = subprocess.Popen([*FEDKD, "simulate", *arguments], env=ENV, stdout=subprocess.DEVNULL, stderr=log)
        path = newest(place, known, process)
        assert path is not None, (folder / f"{name}.log").read_text()[-2000:]
        known.add(path.parent.name)
        if len(killed) < kills:
            with suppress(subprocess.TimeoutExpired):
                process.wait(rng.uniform(0.0, span))
            if process.poll() is None:
                record = RunRecord.load(path)
                end_group(record.process.pid)  # type: ignore[union-attr]
                killed.append({"doing": str(record.doing), "rounds asked": len(record.rounds)})
        process.wait()
        record = RunRecord.load(path)
        if record.status == "completed":
            break
        command = way_to_continue(record, path)
        if command:
            arguments = command.split()[2:]
        else:  # before the first message: what was to be continued is still there
            killed[-1]["nothing had been asked"] = True
    return {
        "engine": "fedkd simulate",
        "seconds of one unbroken command": round(took, 1),
        "killed": killed,
        **judged(whole, record, ledgers(place), noisy=name in NOISY),
        "ledger of the unbroken run": plain(ledgers(folder / "whole")),
    }


def judged(
    whole: RunRecord | None, record: RunRecord, charged: dict[str, Counter[int]], *, noisy: bool
) -> dict[str, Any]:
    """Compare; ``wrong`` lists what is not as it must be."""
    wrong = []
    one, other = told(whole, noisy=noisy) if whole else {}, told(record, noisy=noisy)
    wrong += [f"{key} is not that of the unbroken run" for key in one if one[key] != other[key]]
    answered = Counter(name for one in record.rounds for name in one.answered)
    for party, rounds in charged.items():
        if noisy and sum(rounds.values()) < answered.get(party, 0):
            wrong.append(f"{party} answered {answered[party]} rounds and was charged for {sum(rounds.values())}")
        if double := [number for number, count in rounds.items() if count > 1]:
            wrong.append(f"{party} was charged more than once for rounds {double}")
    return {
        "status": record.status,
        "equal to the unbroken run": [key for key in one if one[key] == other[key]],
        "ledgers": plain(charged),
        "claimed epsilon": [claim.get("epsilon") for claim in record.claims],
        "notes": [note for note in record.notes if "continues run" in note],
        "wrong": wrong,
    }


def plain(charged: dict[str, Counter[int]]) -> dict[str, dict[str, int]]:
    """Return counts as JSON."""
    return {party: {str(k): v for k, v in sorted(rounds.items())} for party, rounds in sorted(charged.items())}


def at_silos(name: str, folder: Path, targets: list[str], rng: random.Random, say: Any) -> list[dict[str, Any]]:
    """Kill ServerApp, SuperLink and SuperNode of three runs at three silos."""
    from fedkd_flwr.apps.devnet import _start, _wait_for_port, devnet
    from fedkd_flwr.apps.submit import submit

    own = {key: value for key, value in RUNS[name].items() if key != "num-rounds"}
    values = {key: value == "true" if value in ("true", "false") else value for key, value in own.items()}
    if name != "fedkt-l2":
        values["num-rounds"] = 2
    found = []
    with devnet(3, node_settings={"allow": ALLOW}, name=f"resume-{os.getpid()}", show=say) as net:
        out = folder / "results"
        values |= {"public-path": str(net.public), "num-parties": 3, "output-dir": str(out), "round-timeout-s": 600.0}
        for target in targets:
            say(f"{name}: a run whose {target} is killed")
            made = submit(values, superlink=net.name)
            path = wait_for(out / "runs" / made.run_id / "record.json", rounds=1)
            time.sleep(rng.uniform(0.0, 10.0))
            record = RunRecord.load(path)
            doing = {"target": target, "doing": str(record.doing), "rounds asked": len(record.rounds)}
            name_of = "silo-1" if target == "SuperNode" else "server"
            if target == "ServerApp":
                with suppress(ProcessLookupError):
                    os.kill(record.process.pid, signal.SIGKILL)  # type: ignore[union-attr]
            else:
                process = net.processes[name_of]
                end_group(process.pid)
                process.wait()
                while True:  # as a supervisor would
                    net.processes[name_of] = again = _start(net.folder, name_of, list(process.args))  # type: ignore[index,arg-type]
                    if target == "SuperLink":
                        port = int(process.args[process.args.index("--port") + 1])  # type: ignore[union-attr,index]
                        _wait_for_port(port, again, net.folder / "server" / "log.txt")
                        break
                    try:
                        again.wait(15.0)
                    except subprocess.TimeoutExpired:
                        break
            last = finished(path, 400.0)
            resumed: list[str] = []
            while last.status != "completed" and len(resumed) < 3:
                from fedkd_flwr.apps.run_settings import resumed_settings

                resumed.append(submit(resumed_settings(last.run_id, out), superlink=net.name).run_id)
                last = finished(wait_for(out / "runs" / resumed[-1] / "record.json", rounds=0), 700.0)
            charged = of_runs(net.folder, {made.run_id, *resumed})
            result = judged(None, last, charged, noisy=name in NOISY)
            found.append(
                {"engine": "three SuperNodes, TLS and keys", "killed": [doing], "resumed": len(resumed), **result}
            )
            found[-1]["answered"] = [one.answered for one in last.rounds]
            found[-1]["left out"] = [[x.party + ": " + x.code for x in one.rejected] for one in last.rounds]
            found[-1]["reason"] = last.reason
            say(json.dumps(found[-1]))
    return found


def of_runs(folder: Path, runs: set[str]) -> dict[str, Counter[int]]:
    """Return how often each silo's ledger was charged for each round of these runs."""
    found: dict[str, Counter[int]] = {}
    for path in folder.glob("silo-*/state/ledgers/*/ledger.json"):
        entries = json.loads(path.read_text(encoding="utf-8"))["entries"]
        mine = [one for one in entries if one["run_id"] in runs and one["events"][0][0]["kind"] != "non-private"]
        found[path.parent.name] = Counter(one["server_round"] for one in mine)
    return found


def wait_for(path: Path, *, rounds: int, seconds: float = 180.0) -> Path:
    """Wait for a record with so many rounds asked."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with suppress(Exception):
            if len(RunRecord.load(path).rounds) >= rounds:
                return path
        time.sleep(0.2)
    raise TimeoutError(path)


def finished(path: Path, seconds: float) -> RunRecord:
    """Wait until a run has written its end, or its process is gone."""
    from fedkd_flwr.report.standing import standing

    until = time.monotonic() + seconds
    while standing(record := RunRecord.load(path)).word == "running" and time.monotonic() < until:
        time.sleep(0.5)
    return record


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=sorted(RUNS), action="append")
    parser.add_argument("--silos", action="store_true")
    parser.add_argument("--target", choices=TARGETS, action="append")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    wrong = 0
    for name in options.only or RUNS:
        rng = random.Random(f"{options.seed} {name}")
        with tempfile.TemporaryDirectory(prefix="fedkd-resume-") as scratch:
            if options.silos:
                results = at_silos(
                    name, Path(scratch), options.target or TARGETS, rng, lambda text: print(text, flush=True)
                )
            else:
                results = [simulated(name, Path(scratch), options.kills, rng)]
                print(name, json.dumps(results[0]), flush=True)
        wrong += sum(bool(one["wrong"]) for one in results)
        if options.out:
            options.out.parent.mkdir(parents=True, exist_ok=True)
            known = json.loads(options.out.read_text()) if options.out.is_file() else {}
            what = " ".join(
                ["--silos", *(f"--target {one}" for one in options.target or ())]
                if options.silos
                else ["--kills", str(options.kills)]
            )
            command = f"python benchmarks/resume.py {what} --only {name} --seed {options.seed}"
            known[f"{name}, {results[0]['engine']}"] = {"command": command, "runs": results}
            options.out.write_text(json.dumps(known, indent=1) + "\n")
    print(f"{wrong} with something wrong")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()

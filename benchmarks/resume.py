"""Kill real runs at random instants, continue them, and compare what comes out with runs that nobody killed.

    python benchmarks/resume.py --kills 4 --seed 1 --out benchmarks/results/resume.json
    python benchmarks/resume.py --silos --kills 1 --seed 2 --out benchmarks/results/resume.json

Without ``--silos`` each run is a ``fedkd simulate`` of three parties: its server and all processes of its parties are
ended together by SIGKILL, as with the power, and the run goes on with ``fedkd simulate --resume``, which is killed
again, ``--kills`` times in all. With ``--silos`` three SuperNodes with TLS and keys answer (``fedkd dev net``), under a
supervisor that starts again what has ended. Of each algorithm ``--kills`` runs lose their ServerApp, as many their
SuperLink, and as many a silo's node (the SuperNode, the process that started it, or both). A run that has no result
then is continued, or started again if nothing had been asked. Checked, and named under ``wrong``:

- status, rounds and claims of the run that came to its end are those of an unbroken run (of noisy algorithms at silos
  only where one was run); without noise also what the whole record says but for times, bytes and ids, and at silos
  the consensus and what each silo's final model predicts; not where a silo was left out of a round: that is another run
- no party's ledger holds a round twice
- each ledger holds as many charges as the run counted answers of that party, or more
- no silo's egress log holds more different noisy answers to a round than its ledger holds charges for it (at silos)
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
ENV = {**os.environ, "PYTHONPATH": str(ROOT), "FLWR_TELEMETRY_ENABLED": "0"}
FEDKD = [sys.executable, "-m", "fedkd_flwr.cli"]

from fedkd_flwr.app.find_run import way_to_continue  # noqa: E402
from fedkd_flwr.errors import FedkdError  # noqa: E402
from fedkd_flwr.record.run_record import RunRecord  # noqa: E402
from fedkd_flwr.settings.run_settings import resumed_settings  # noqa: E402
from fedkd_flwr.stores.book import ledger_in  # noqa: E402

DATA = {"dataset": "synthetic(rows=300, classes=3)", "num-public": 60, "num-test": 60}
COMMON = {**DATA, "partitioner": "iid", "num-parties": 3, "centralised": "false"}
NET = {"model": "mlp(hidden=[8], epochs=2)"}
RUNS: dict[str, dict[str, Any]] = {
    "fedct": {"algorithm": "fedct", **NET, "num-rounds": 8, "paper.stop-when-converged": "false"},
    "fedmd": {"algorithm": "fedmd", **NET, "num-rounds": 8, "paper.initial-epochs": 5},
    "privatekt": {"algorithm": "privatekt", **NET, "num-rounds": 8, "privatekt.round-epsilon": 4.0},
    "dp-fedct": {
        "algorithm": "fedct",
        "model": "decision-tree",
        "num-rounds": 8,
        "label-mechanism": "randomized-response",
        "paper.noise-strength": 0.5,
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
SILOS = "three SuperNodes, TLS and keys"
LOGS: Path | None = None
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
    for path in folder.rglob("ledger.sqlite3"):
        entries = ledger_in(path.parent)[0].entries
        counts = found.setdefault(path.parent.name, Counter())
        counts.update(one.server_round for one in entries if one.events[0][0]["kind"] != "non-private")
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
        "notes": [str(note) for note in record.notes if note.code == "continues"],
        "wrong": wrong,
    }


def plain(charged: dict[str, Counter[int]]) -> dict[str, dict[str, int]]:
    """Return counts as JSON."""
    return {party: {str(k): v for k, v in sorted(rounds.items())} for party, rounds in sorted(charged.items())}


class Silos:
    """Three silos, their server, and a supervisor that starts again what has ended, as systemd would."""

    def __init__(self, net: Any, folder: Path) -> None:
        self.net, self.out, self.restarts = net, folder / "results", Counter[str]()
        self.over = threading.Event()
        self.supervisor = threading.Thread(target=self._supervise, daemon=True)
        self.supervisor.start()

    def _supervise(self) -> None:
        from fedkd_flwr.silo.devnet import _start

        while not self.over.wait(2.0):
            for name, process in list(self.net.processes.items()):
                if process.poll() is not None and not self.over.is_set():
                    self.restarts[name] += 1
                    self.net.processes[name] = _start(self.net.folder, name, list(process.args))

    def submit(self, values: dict[str, Any]) -> Path:
        """Submit a run and return the path of its record; a SuperLink that is just starting is asked again."""
        from fedkd_flwr.app.submit import FlowerError, submit

        until = time.monotonic() + 120.0
        while True:
            try:
                run = submit(values, superlink=self.net.name).run_id
                break
            except FlowerError:
                if time.monotonic() > until:
                    raise
                time.sleep(2.0)
        return wait_for(self.out / "runs" / run / "record.json", rounds=0, seconds=300.0)

    def kill(self, target: str, record: RunRecord, rng: random.Random) -> dict[str, Any]:
        """Kill one thing and say what."""
        if target == "ServerApp":
            pid, how = record.process.pid, "its process"  # type: ignore[union-attr]
        elif target == "SuperLink":
            pid, how = self.net.processes["server"].pid, "its process; it is started again on the same database"
        else:
            silo = rng.choice(["silo-1", "silo-2", "silo-3"])
            os.kill(self.net.processes[silo].pid, signal.SIGKILL)
            return {"silo": silo, "process": "fedkd node run"}
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return {"process": how}

    def result(self, lineage: list[str]) -> dict[str, str]:
        """Return digests of a run's result: the server's consensus, and what each silo's final model predicts."""
        from fedkd_flwr.data.tables import read_table
        from fedkd_flwr.stores.saved_model import load
        from fedkd_flwr.strategies.resuming import load_checkpoint

        found, rows = {}, read_table(self.net.public)
        with suppress(FedkdError):
            arrays, _ = load_checkpoint(self.out / "runs" / lineage[-1] / "checkpoint")
            kept = {k: v for k, v in sorted(arrays.items()) if k.startswith("result.")}
            found["consensus"] = sha256(b"".join(k.encode() + v.tobytes() for k, v in kept.items())).hexdigest()
        for path in sorted(self.net.folder.glob(f"silo-*/state/runs/{lineage[0]}/parties/silo-?.model")):
            found[path.stem] = sha256(load(path).predict_proba(rows).tobytes()).hexdigest()
        return found

    def sent(self, runs: list[str]) -> dict[str, Counter[int]]:
        """Return how many different noisy replies left each silo for each round, as its egress log says."""
        seen: dict[str, set[tuple[int, str]]] = {}
        for path in self.net.folder.glob("silo-*/state/egress/*/log.jsonl"):
            for text in path.read_text(encoding="utf-8").splitlines():
                line = json.loads(text)
                if line.get("run") in runs and line["left"] and line["claim"] and line["output"]["arrays"]:
                    digests = "".join(one["sha256"] for one in line["output"]["arrays"])
                    seen.setdefault(path.parent.name, set()).add((line["round"], digests))
        return {silo: Counter(number for number, _ in pairs) for silo, pairs in seen.items()}


def at_silos(
    names: list[str],
    folder: Path,
    targets: list[str],
    kills: int,
    rng: random.Random,
    keep: Any,
    say: Any,
    *,
    span: float,
    leaving: bool,
) -> None:
    """Run each algorithm once for each kill, one without noise once unbroken before; ``keep`` gets each outcome."""
    from fedkd_flwr.silo.devnet import devnet

    with devnet(3, node_settings={"allow-algorithms": ALLOW}, name=f"resume-{os.getpid()}", show=say) as net:
        silos = Silos(net, folder)
        try:
            whole: dict[str, Whole] = {}
            lives: dict[str, float] = {}  # how long each algorithm's last whole run lived: the load changes it
            for i in range(kills * len(names) * len(targets)):
                name = names[i % len(names)]
                target = targets[(i % len(names) + i // len(names)) % len(targets)]
                if name not in whole and not (name in NOISY and (whole or span)):
                    say(f"{name}: a run that nobody interrupts")
                    whole[name] = unbroken(name, silos)
                    lives[name] = whole[name].span
                say(f"{name}: a run whose {target} is killed")
                seconds = span or lives.get(name) or next(iter(lives.values()))
                found = one_kill(name, silos, whole.get(name), seconds, target, rng, leaving=leaving)
                if found["had its result"]:
                    lives[name] = found["lived s"]
                keep(name, found)
        finally:
            silos.over.set()
            silos.supervisor.join()
            if LOGS is not None:
                for path in net.folder.glob("*/log.txt"):
                    shutil.copy(path, LOGS / f"{path.parent.name}.log")


def settings_at(name: str, silos: Silos) -> dict[str, Any]:
    """Return a run's settings: two rounds of three silos, which may take their time."""
    own = {key: value for key, value in RUNS[name].items() if key != "num-rounds"}
    values = {key: value == "true" if value in ("true", "false") else value for key, value in own.items()}
    if name != "fedkt-l2":
        values["num-rounds"] = 2
    place = {"public-path": str(silos.net.public), "output-dir": str(silos.out)}
    return {**values, **place, "num-parties": 3, "round-timeout-s": 900.0, "node-deadline-s": 600.0}


class Whole(NamedTuple):
    """A run that nobody interrupted."""

    record: RunRecord
    span: float  # seconds for which its ServerApp lived
    result: dict[str, str]


def unbroken(name: str, silos: Silos) -> Whole:
    """Run without a kill; return the record, how long the ServerApp lived, and what came out."""
    path = silos.submit(settings_at(name, silos))
    began = time.monotonic()
    record = finished(path, 1800.0)
    assert record.status == "completed", record.reason
    return Whole(record, time.monotonic() - began, {} if name in NOISY else silos.result([record.run_id]))


def one_kill(
    name: str, silos: Silos, whole: Whole | None, span: float, target: str, rng: random.Random, *, leaving: bool
) -> dict[str, Any]:
    """Kill once at a random instant of the ServerApp's life, continue until the run has its result, and compare."""
    values, noisy = settings_at(name, silos), name in NOISY
    before, began = silos.restarts.copy(), time.monotonic()
    path = silos.submit(values)
    leaving = leaving and target == "ServerApp"
    if leaving:
        wait_for(path, rounds=1, seconds=600.0)  # it is written just before the messages leave
        at = time.monotonic() - began
    else:
        at = rng.uniform(0.0, span)
        time.sleep(at)
    seen = RunRecord.load(path)
    found: dict[str, Any] = {
        "target": target,
        "after s": round(at, 1),
        "of s": "while round 1's messages left" if leaving else round(span, 1),
    }
    found |= {"doing": str(seen.doing), "rounds asked": len(seen.rounds)}
    found |= {"rounds ended": sum(one.ended for one in seen.rounds), "load": round(os.getloadavg()[0], 1)}
    found["had its result"] = seen.status == "completed"
    if found["had its result"]:
        found["lived s"] = round(seen.seconds, 1)
    if target != "ServerApp" or not found["had its result"]:
        found |= silos.kill(target, seen, rng)
    last, lineage, way = finished(path, 1800.0), [path.parent.name], list[str]()
    while last.status != "completed" and len(way) < 4:
        path = silos.out / "runs" / lineage[-1] / "record.json"
        if way_to_continue(last, path):
            way.append("continued")
            path = silos.submit(resumed_settings(lineage[-1], silos.out))
            lineage.append(path.parent.name)
        else:
            way.append("started again")
            path = silos.submit(values)
            lineage = [path.parent.name]
        last = finished(path, 1800.0)
        if last.status != "completed":
            way[-1] += f": {last.status or 'did not end'}: {last.reason}"
    found |= {"way": way, "seconds": round(time.monotonic() - began)}
    found["restarts"] = dict(silos.restarts - before)
    charged, sent = of_runs(silos.net.folder, set(lineage)), silos.sent(lineage)
    judged_ = judged(whole.record if whole else None, last, charged, noisy=noisy)
    found["answered"] = [one.answered for one in last.rounds]
    found["left out"] = [[f"{one.party}: {one.code}" for one in each.rejected] for each in last.rounds]
    wrong = judged_.pop("wrong")
    if whole is not None and not noisy:
        now = silos.result(lineage)
        found["same result"] = [key for key, digest in whole.result.items() if now.get(key) == digest]
        if found["answered"] != [one.answered for one in whole.record.rounds]:  # somebody was away: it is another run
            wrong = [one for one in wrong if "unbroken" not in one]
        elif len(found["same result"]) < len(whole.result):
            wrong.append("another result than that of the unbroken run")
    for silo, rounds in sent.items():
        if under := [number for number, count in rounds.items() if count > charged.get(silo, Counter())[number]]:
            wrong.append(f"{silo} sent more different replies than it was charged for in rounds {under}")
    return {**found, **judged_, "wrong": wrong}


def of_runs(folder: Path, runs: set[str]) -> dict[str, Counter[int]]:
    """Return how often each silo's ledger was charged for each round of these runs."""
    found: dict[str, Counter[int]] = {}
    for path in folder.glob("silo-*/state/ledgers/*/ledger.sqlite3"):
        mine = [
            one
            for one in ledger_in(path.parent)[0].entries
            # behind the id a digest stands where the run itself had not come
            if one.run_id.partition("-")[0] in runs and one.events[0][0]["kind"] != "non-private"
        ]
        found[path.parent.name] = Counter(one.server_round for one in mine)
    return found


def wait_for(path: Path, *, rounds: int, seconds: float = 180.0) -> Path:
    """Wait for a record with so many rounds asked."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with suppress(Exception):
            if len(RunRecord.load(path).rounds) >= rounds:
                return path
        time.sleep(0.05)
    raise TimeoutError(path)


def finished(path: Path, seconds: float) -> RunRecord:
    """Wait until a run has written its end, or its process is gone."""
    from fedkd_flwr.report.status import run_status

    until = time.monotonic() + seconds
    while run_status(record := RunRecord.load(path)).word == "running" and time.monotonic() < until:
        time.sleep(0.5)
    return record


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # whoever breaks it off leaves no silos behind
    parser.add_argument("--kills", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=sorted(RUNS), action="append")
    parser.add_argument("--silos", action="store_true")
    parser.add_argument("--target", choices=TARGETS, action="append")
    parser.add_argument("--span", type=float, default=0.0, help="seconds in which to kill; 0: as an unbroken run takes")
    parser.add_argument("--leaving", action="store_true", help="kill ServerApps while the messages of round 1 leave")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--logs", type=Path, help="a folder for the logs of the server and of each silo")
    options = parser.parse_args()
    wrong = 0
    global LOGS
    LOGS = options.logs
    if LOGS is not None:
        LOGS.mkdir(parents=True, exist_ok=True)
    names = options.only or list(RUNS)
    told = [one for i, one in enumerate(sys.argv[1:]) if not {"--out", "--logs"} & {one, sys.argv[i]}]

    def keep(name: str, found: dict[str, Any]) -> None:
        nonlocal wrong
        wrong += bool(found["wrong"])
        print(name, json.dumps(found), flush=True)
        if options.out is None:
            return
        options.out.parent.mkdir(parents=True, exist_ok=True)
        known = json.loads(options.out.read_text()) if options.out.is_file() else {}
        command = " ".join(["python benchmarks/resume.py", *told])
        place = f"{name}, {'fedkd simulate' if not options.silos else SILOS}"
        if options.silos:
            known.setdefault(place, []).append({**found, "command": command})
        else:
            known[place] = {"command": command, "runs": [found]}
        options.out.write_text(json.dumps(known, indent=1) + "\n")

    with tempfile.TemporaryDirectory(prefix="fedkd-resume-") as scratch:
        if options.silos:
            rng = random.Random(f"{options.seed} {names}")
            chosen = options.target or TARGETS
            say, how = lambda text: print(text, flush=True), {"span": options.span, "leaving": options.leaving}
            at_silos(names, Path(scratch), chosen, options.kills, rng, keep, say, **how)
        else:
            for name in names:
                rng, place = random.Random(f"{options.seed} {name}"), Path(scratch) / name
                place.mkdir()
                keep(name, simulated(name, place, options.kills, rng))
    print(f"{wrong} with something wrong")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()

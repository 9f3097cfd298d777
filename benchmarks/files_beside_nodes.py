"""Run FedKT with three silos over real SuperNodes and by file, and say what is equal and what it took.

    python benchmarks/files_beside_nodes.py --out benchmarks/results/files-beside-nodes.json

Needs ``ssh-keygen`` and ``strace``. The same silos of `fedkd dev net 3` (scikit-learn's digits) answer twice, each time
with a new state. Level L0 has no noise: the labels that silos send and the models that come of them must be equal. At
L2 noise is drawn anew: ledgers and claims must be equal.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pandas as pd

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT)]

from fedkd_flwr.app.submit import (  # noqa: E402
    status,
    submit,
    toml,
)
from fedkd_flwr.record.run_record import RunRecord  # noqa: E402
from fedkd_flwr.silo.devnet import Devnet, devnet  # noqa: E402
from fedkd_flwr.silo.ledger import ledgers_in, read_ledger  # noqa: E402
from fedkd_flwr.stores.saved_model import load  # noqa: E402

SILOS = ("silo-1", "silo-2", "silo-3")
L0 = {"algorithm": "fedkt", "model": "decision-tree", "seed": 3, "num-parties": 3}
LEVELS = {"L0": L0, "L2": {**L0, "fedkt.level": "L2", "noise": "laplace", "paper.noise-strength": 0.1}}


def by_nodes(net: Devnet, settings: dict[str, Any]) -> RunRecord:
    """Run over the SuperNodes."""
    run_id = submit(settings, superlink=net.name).run_id
    while not status(run_id, net.name)[0].startswith("finished"):
        time.sleep(2.0)
    return RunRecord.load(Path(settings["output-dir"]) / "runs" / run_id / "record.json")


def fedkd(folder: Path, *words: object, traced: bool = False) -> int:
    """Call the command in a process of its own; return how many calls about sockets it made, where it is traced."""
    trace = folder / "trace"
    before = ["strace", "-f", "-qq", "-e", "trace=%network", "-o", trace] if traced else []
    command = [*map(str, before), sys.executable, "-m", "fedkd_flwr.cli", "file", *map(str, words)]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    lines = trace.read_text().splitlines() if traced else []
    return sum(" +++ " not in line and " --- " not in line for line in lines)


def write(path: Path, settings: dict[str, Any]) -> None:
    """Write a file of settings."""
    path.write_text("".join(f"{name} = {toml(one)}\n" for name, one in settings.items()), encoding="utf-8")


def by_file(net: Devnet, settings: dict[str, Any], folder: Path) -> tuple[RunRecord, dict[str, Any]]:
    """Run the same by file; return its record, and what it took: bytes of files and calls about sockets, at most."""
    for name in ("server", *SILOS):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    parties = ", ".join(f"{silo}.pub" for silo in SILOS)
    write(folder / "run.toml", settings | {"file.key": "server", "file.parties": parties})
    for silo in SILOS:
        at, state = net.folder / silo, str(folder / f"state-{silo}")
        own = {"data-path": str(at / "private.csv"), "public-path": str(at / "public.csv"), "state-dir": state}
        write(folder / f"{silo}.toml", own | {"party": silo, "file.key": silo, "file.server": "server.pub"})
    fedkd(folder, "ask", "run.toml", "-o", "question.fedkd")
    sockets = [fedkd(folder, "answer", "question.fedkd", f"{s}.toml", "-o", f"{s}.fedkd", traced=True) for s in SILOS]
    fedkd(folder, "count", *(f"{s}.fedkd" for s in SILOS), "--output-dir", settings["output-dir"])
    sockets += [fedkd(folder, "answer", "next.fedkd", f"{silo}.toml", traced=True) for silo in SILOS]
    size = {name: (folder / f"{name}.fedkd").stat().st_size for name in ("question", *SILOS, "next")}
    each = size["question"] + max(size[silo] for silo in SILOS) + size["next"]
    (record,) = (Path(settings["output-dir"]) / "runs").glob("*/record.json")
    took = {"commands of a silo": 2, "bytes of all three files of a silo": each, "calls about sockets": max(sockets)}
    return RunRecord.load(record), {**took, "sizes": size}


def charges(folder: Path, state: str) -> list[Any]:
    """Return what the silos' ledgers were charged, without run ids and times."""
    roots = [root for silo in SILOS if (root := folder / state.format(silo)).joinpath("ledgers").exists()]
    books = [read_ledger(one).ledger.entries for root in roots for one in ledgers_in(root)]
    return [[(e.server_round, e.algorithm, e.mechanism, e.unit, repr(e.events)) for e in book] for book in books]


def sent(folder: Path, state: str, run_id: str) -> list[str]:
    """Return digests of what the silos sent in a run, as their egress logs have them."""
    logs = [next((folder / state.format(silo) / "egress").rglob("log.jsonl")) for silo in SILOS]
    lines = [json.loads(line) for log in logs for line in log.read_text().splitlines()]
    return [line["output"]["sha256"] for line in lines if line.get("run") == run_id and line["round"] == 1]


def main() -> None:
    """Run, compare and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path)
    out, found = parser.parse_args().out, dict[str, Any](command="python benchmarks/files_beside_nodes.py")
    for level, settings in LEVELS.items():  # a federation for each: no ledger knows the other level
        with devnet(3, name="files", show=print) as net, tempfile.TemporaryDirectory() as place:
            folder, given = Path(place), {**settings, "public-path": str(net.public)}
            nodes = by_nodes(net, {**given, "output-dir": f"{place}/by-nodes"})
            files, took = by_file(net, {**given, "output-dir": f"{place}/by-file"}, folder)
            rows = pd.concat([pd.read_csv(net.folder / silo / "private.csv") for silo in SILOS])
            one, two = (load(run.server_model).predict(rows) for run in (nodes, files))
            labels = [sent(folder, "state-{}", files.run_id), sent(net.folder, "{}/state", nodes.run_id)]
            charged = [charges(folder, "state-{}"), charges(net.folder, "{}/state")]
            found[level] = {
                "claims": len(files.claims),
                "equal claims": files.claims == nodes.claims,
                "equal charges": charged[0] == charged[1],
                "charges": sum(map(len, charged[1])),
                "equal labels sent": labels[0] == labels[1] and len(labels[0]) == 3,
                "equal predictions of the server's model": float((one == two).mean()),
                **took,
            }
        print(json.dumps({level: found[level]}, indent=1), flush=True)
    if out:
        out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

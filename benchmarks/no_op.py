"""A simulation's time against its models' own, and against a Flower app that does nothing.

    python benchmarks/no_op.py --parties 100 --rounds 5 --out benchmarks/results/no-op.json

FedCT with a majority vote, mixed models (tree, forest, logistic regression, XGBoost), 100 rows a party and 2,000 public
rows. Four measurements, one after the other, of whole processes from `flwr run` (or the command) until the result:

- *models*: seconds in which one process fits models and asks them for labels, the same run without Flower
- *no-op*: a Flower app whose parties hand their message back: as many parties, rounds and bytes, two at a time, on Ray
- *flwr run*: our app on Ray, two parties at a time
- *fedkd simulate*: our command, two parties at a time, which needs no Ray

``times`` is what a run took over models / cores + no-op. Run it on an idle machine.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "benchmarks")]

from flower_runtime import FlowerHome  # noqa: E402
from parties import fedkd  # noqa: E402
from simulate import run_here  # noqa: E402

CORES = 2
NO_OP = """
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
import json, numpy as np, pathlib, time

client = ClientApp()
server = ServerApp()

@client.train()
def train(message, context):
    return Message(message.content, reply_to=message)

@server.main()
def main(grid, context):
    config = context.run_config
    while len(list(grid.get_node_ids())) < config["parties"]:
        time.sleep(0.1)
    began, arrays = time.perf_counter(), [np.zeros(config["bytes"], dtype=np.uint8)]
    for _ in range(config["rounds"]):
        content = RecordDict({"arrays": ArrayRecord(arrays), "config": ConfigRecord({"round": 1})})
        asked = [Message(content, dst_node_id=node, message_type="train") for node in grid.get_node_ids()]
        replies = list(grid.send_and_receive(asked))
        assert len(replies) == config["parties"] and not any(reply.has_error() for reply in replies)
    pathlib.Path(config["done"]).write_text(json.dumps({"exchange": time.perf_counter() - began}))
"""
PROJECT = """
[project]
name = "noop"
version = "1.0.0"
description = "Parties hand back what they get."
license = "Apache-2.0"

[tool.flwr.app]
publisher = "nobody"

[tool.flwr.app.components]
serverapp = "noop:server"
clientapp = "noop:client"

[tool.flwr.app.config]
parties = 2
rounds = 1
bytes = 1
done = ""
"""


def settings(parties: int, rounds: int, folder: Path) -> dict[str, Any]:
    """Return the run's settings."""
    return {
        "algorithm": "fedct",
        "dataset": f"synthetic(rows={100 * parties + 3000})",
        "num-parties": parties,
        "num-rounds": rounds,
        "num-public": 2000,
        "num-test": 1000,
        "partitioner": "iid",
        "model": "mixed:decision-tree,random-forest,logistic-regression,xgboost",
        "centralised": False,
        "consensus": "majority",
        "paper.stop-when-converged": False,
        "output-dir": str(folder),
    }


def models(values: dict[str, Any], folder: Path) -> float:
    """Run without Flower; return the seconds that models took."""
    from fedkd_flwr.models.classifier import Classifier

    spent, inside = 0.0, False

    def timed(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def call(*args: Any, **keywords: Any) -> Any:
            nonlocal spent, inside
            if inside:
                return method(*args, **keywords)
            inside, began = True, time.perf_counter()
            try:
                return method(*args, **keywords)
            finally:
                inside, spent = False, spent + time.perf_counter() - began

        return call

    for name in ("fit", "fit_soft", "update", "predict", "predict_proba"):
        setattr(Classifier, name, timed(getattr(Classifier, name)))
    run_here(values, folder)
    return spent


def on_ray(folder: Path, parties: int, written: dict[str, Any], app: Path | None, done: str) -> tuple[float, Path]:
    """Submit an app to Flower's simulation; return the seconds until its file is there, and the file."""
    home = FlowerHome(folder / "home")
    home.app = app or home.app
    size = f"num-supernodes={parties} client-resources-num-cpus=1 init-args-num-cpus={CORES}"
    try:
        began = time.perf_counter()
        run_id = home.submit(federation_config=size, **{key.replace("-", "_"): value for key, value in written.items()})
        output = folder / done.format(run=run_id)
        status = home.wait(run_id, output=output, seconds=3600)
        seconds = time.perf_counter() - began
        if status != "finished:completed":
            sys.exit(f"run {run_id}: {status}\n{home.log(run_id)[-3000:]}")
    finally:
        home.stop()
    return seconds, output


def exchange(path: Path) -> tuple[float, int]:
    """Return the seconds of a record's rounds and final visit, and the bytes that a party sent in a round."""
    record = json.loads(path.read_text(encoding="utf-8"))
    rounds = record["rounds"]
    sent = sum(one["bytes_up"] for one in rounds) / len(rounds) / len(record["parties"])
    return record["seconds"], round(sent)


def main() -> None:
    """Measure all four and write them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parties", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind in ("models", "no-op", "app", "ours", "fedkd"):
            (folder / kind).mkdir()
        values = settings(options.parties, options.rounds, folder / "ours")
        began = time.perf_counter()
        path, watch, _ = fedkd({**values, "output-dir": str(folder / "fedkd")}, folder / "fedkd", "")
        seconds, sent = exchange(path)
        found["fedkd simulate"] = {"seconds": watch.wall, "exchange": seconds}
        wall, path = on_ray(folder / "ours", options.parties, values, None, "runs/{run}/record.json")
        found["flwr run"] = {"seconds": wall, "exchange": exchange(path)[0]}
        (folder / "app" / "noop.py").write_text(NO_OP)
        (folder / "app" / "pyproject.toml").write_text(PROJECT)
        # each round, whether parties are ready before the first, and the final visit
        asked = {"parties": options.parties, "rounds": options.rounds + 2, "bytes": sent}
        asked["done"] = str(folder / "no-op" / "done.json")
        wall, path = on_ray(folder / "no-op", options.parties, asked, folder / "app", "done.json")
        found["no-op"] = {"seconds": wall, **json.loads(path.read_text())}
        found["models"] = {"seconds": models({**values, "output-dir": str(folder / "models")}, folder / "models")}
        print(f"all in {time.perf_counter() - began:.0f} s", flush=True)
    for kind in ("seconds", "exchange"):
        bound = found["models"]["seconds"] / CORES + found["no-op"][kind]
        for run in ("flwr run", "fedkd simulate"):
            found[run][f"times ({kind})"] = found[run][kind] / bound
    found = {run: {key: round(value, 2) for key, value in figures.items()} for run, figures in found.items()}
    print(json.dumps(found, indent=1))
    if options.out:
        command = shlex.join(["python", "benchmarks/no_op.py", *sys.argv[1:]])
        made = {"command": command, "cores": os.cpu_count(), "load at the end": os.getloadavg()[0], **found}
        options.out.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

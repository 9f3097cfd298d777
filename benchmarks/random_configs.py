"""Random valid run configs through ``fedkd simulate`` on a tiny table: each must end, or be refused in a sentence.

    python benchmarks/random_configs.py 0 20          # the configs of seeds 0 to 19
    python benchmarks/random_configs.py 17 18 --keep  # one of them, with its folder
    python benchmarks/random_configs.py --quick       # in one process, which has imported all

A config changes two to six settings of the run and of its algorithm, each drawn within the bounds that the setting
itself declares. Those that `parse_run_config` refuses are drawn again: they are not valid. A run is at fault if it
prints a traceback, exits with 70 or by a signal, is refused or fails without a reason, or takes longer than ``--limit``
seconds. Exit code 1 if any is.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import numpy as np
import pandas as pd

from fedkd_flwr.algorithms import cards
from fedkd_flwr.algorithms.card import Config
from fedkd_flwr.errors import FedkdError
from fedkd_flwr.settings.config import RunConfig, parse_run_config

ROWS = 240
MODELS = ("knn", "logistic-regression", "decision-tree", "random-forest", "hist-gradient-boosting", "mlp")
FIXED = {
    *("name", "num_parties", "tracking", "output_dir", "data_root", "resume_from", "public_path", "schema_path"),
    *("partition_path", "partitioner", "round_timeout_s", "nodes_stable_s", "node_deadline_s"),
    *("dataset", "table", "label", "seed", "own_column_share"),
}
MOST = {"num_rounds": 3, "local_epochs": 2, "solo_epochs": 2, "teachers_per_student": 4, "students_per_party": 3}
COMMAND = "from fedkd_flwr.cli.start import main; main()"


def write_table(path: Path) -> None:
    """Write a table of numbers, words, empty cells and three classes."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, ROWS)
    table = pd.DataFrame({"age": 20 + 9 * y + rng.integers(0, 30, ROWS), "score": (y + rng.normal(size=ROWS)).round(3)})
    table["town"] = np.array(["north", "south", "west"])[(y + rng.integers(0, 2, ROWS)) % 3]
    table.loc[rng.choice(ROWS, 9, replace=False), "score"] = None
    table.assign(outcome=np.array(["well", "ill", "away"])[y]).to_csv(path, index=False)


def drawn(config: type[Config], name: str, rng: np.random.Generator) -> Any:
    """Return a value of a setting within what it declares; None where it is free text."""
    field = config.model_fields[name]
    kind, default = field.annotation, config.default(name)
    if get_origin(kind) is Literal:
        return get_args(kind)[rng.integers(len(get_args(kind)))]
    if kind is bool:
        return bool(rng.integers(2))
    low, high = 0.0, math.inf
    for bound in field.metadata:
        low = max(low, getattr(bound, "ge", low), getattr(bound, "gt", low))
        high = min(high, getattr(bound, "le", high), getattr(bound, "lt", high))
    if kind is int:
        some = {int(low), int(low) + 1, int(low) + 3, int(default or 0), 40}
        found = sorted(one for one in some if low <= one <= min(high, MOST.get(name, high)))
        return found[rng.integers(len(found))] if found else None
    if kind is float:
        some = {low, low + 0.05, low + 0.5, low + 2.0, float(default or 0.0)}
        found = sorted(one for one in some if low <= one <= high and math.isfinite(one))
        return found[rng.integers(len(found))] if found else None
    return None


def settings(seed: int, folder: Path) -> dict[str, Any]:
    """Return the run config of one seed."""
    rng = np.random.default_rng(seed)
    card = sorted(cards().items())[seed % len(cards())][1]
    net = card.sends == "weights" or card.name in ("privatekt", "fedkt-prox")
    while True:
        made: dict[str, Any] = {"algorithm": card.name, "table": str(folder / "table.csv"), "label": "outcome"}
        made |= {"num-parties": int(rng.integers(2, 5)), "num-rounds": 1 if card.one_shot else int(rng.integers(1, 4))}
        made |= {"model": "mlp" if net else MODELS[rng.integers(len(MODELS))], "seed": seed}
        made |= {"dataset": "table", "output-dir": str(folder / "out")}
        free = [(RunConfig, n, k) for n, k in RunConfig.keys().items()]
        free += [(card.config, n, k) for n, k in card.config.keys().items()] * 2
        wanted = len(made) + rng.integers(2, 7)
        for i in rng.permutation(len(free)):
            config, name, key = free[i]
            value = None if name in FIXED or key in made else drawn(config, name, rng)
            if value is not None and value != config.default(name):
                made[key] = value
            if len(made) == wanted:
                break
        try:
            parse_run_config(made)
        except FedkdError:
            continue
        return made


def run(seed: int, folder: Path, limit: float) -> tuple[str, str, float]:
    """Return how the run of a seed ended, its last words, and its seconds."""
    write_table(folder / "table.csv")
    made = settings(seed, folder)
    words = [f"{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in made.items()]
    began = time.monotonic()
    program = [sys.executable, "-c", COMMAND, "simulate", *words, "--processes", "1"]
    try:
        done = subprocess.run(
            program, cwd=folder, env={**os.environ, "HOME": str(folder)}, capture_output=True, text=True, timeout=limit
        )
    except subprocess.TimeoutExpired:
        return "TOO LONG", "", time.monotonic() - began
    seconds = time.monotonic() - began
    said = done.stdout + done.stderr + "".join(path.read_text() for path in folder.glob("out/runs/*/log.txt"))
    last = next((line for line in done.stderr.splitlines() if line.startswith("error")), "")
    own = "Traceback" in said and "fedkd_flwr.errors." not in said  # a run that fails by its rules logs where
    if done.returncode not in (0, 1, 2) or own:
        return "FAULT", last or said.strip()[-300:], seconds
    if done.returncode and len(last) < 20:
        return "NO REASON", said.strip()[-300:], seconds
    return {0: "ended", 1: "failed", 2: "refused"}[done.returncode], last, seconds


def quick(seed: int, folder: Path, starter: Any) -> tuple[str, str, float]:
    """Do in this process what that of the command does, with its party processes; what it logs goes to a file."""
    from fedkd_flwr.errors import FedkdError
    from fedkd_flwr.simulation.run import checked, in_processes

    write_table(folder / "table.csv")
    began = time.monotonic()
    try:
        config = checked(settings(seed, folder))
        record, place = in_processes(config, starter, lambda text: None, processes=1)
        word, text = "ended" if record.status == "completed" else "failed", record.reason
    except (FedkdError, OSError) as error:
        word, text = "refused", str(error)
    except BaseException as error:
        return "FAULT", f"{type(error).__name__}: {error}", time.monotonic() - began
    seconds = time.monotonic() - began
    if word == "ended":
        log = (place / "log.txt").read_text()
        word = "FAULT" if "Traceback" in log else word
        text = log[log.index("Traceback") :][-400:] if word == "FAULT" else ""
    elif len(text) < 20:
        word = "NO REASON"
    return word, text, seconds


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the configs of some seeds; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", type=int, nargs="?", default=0)
    parser.add_argument("end", type=int, nargs="?", default=100)
    parser.add_argument("--limit", type=float, default=240.0, help="seconds of a run at most")
    parser.add_argument("--quick", action="store_true", help="run them in this process")
    parser.add_argument("--keep", action="store_true", help="keep the folders, and say where they are")
    asked = parser.parse_args(arguments)
    good = True
    if asked.quick:
        from fedkd_flwr.simulation.starter import party_starter

        starter = party_starter()
    for seed in range(asked.first, asked.end):
        with contextlib.ExitStack() as stack:
            name = tempfile.mkdtemp(prefix=f"random-{seed}-")
            if asked.keep:
                print(name)
            else:
                stack.callback(shutil.rmtree, name, ignore_errors=True)
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            how, last, seconds = quick(seed, Path(name), starter) if asked.quick else run(seed, Path(name), asked.limit)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            computed = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            made = settings(seed, Path(name))
            told = {k: v for k, v in made.items() if k not in ("table", "label", "dataset", "output-dir", "seed")}
            words = " ".join(f"{key}={value}" for key, value in told.items())
            print(f"{seed:4d} {how:<9} {seconds:5.1f} s ({computed:.1f} of CPU)  {words}", flush=True)
            if last:
                print(f"     {last[:400]}", flush=True)
            good &= how in ("ended", "failed", "refused")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

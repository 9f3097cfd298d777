"""FedKT's published code and ours on the same parties of Adult, one after the other: wall-clock time and accuracy.

    git clone https://github.com/QinbinLi/FedKT
    python benchmarks/published_fedkt.py --code FedKT --data-root /data --partitions fedkt-a9a-partitions.npz

Fifty parties, two partitions of five trees each, forests of 100 trees as students (Li, He, Song, IJCAI 2021, Table 1).
The published code draws its parties from a seed; the partitions file holds what it draws from the seeds 0 to 4, so
both have the same rows. Its script runs as it is, as a process of its own in this environment; what it imports and
does not use for trees (torchvision, pydicom) is replaced by empty modules. Ours is the command ``fedkd simulate`` on
``simulations/fedkt-adult.toml``, once more with the rule that `auto` finds, once with single trees where the paper has
forests, and once with the model `fast-forest` there. All sides also train each party's model alone. Times are of whole
processes, start-up and all, in turns; run it on an idle machine. Both may keep compiled files
(``PYTHONDONTWRITEBYTECODE`` is unset), as on an ordinary installation. *models alone* is the processor time of the
outermost calls of scikit-learn's trees and forests in our run as published: no number of cores does it in less than
that time divided by them. Nothing of the published code is part of this project.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import os
import platform
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).parents[1]
EMPTY_MODULES = """
import importlib.abc, importlib.machinery, runpy, sys, types

class Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torchvision", "pydicom"):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        module.__getattr__ = lambda name: type(name, (), {})
        return module

    def exec_module(self, module):
        pass

sys.meta_path.insert(0, Absent())
sys.path.insert(0, ".")
runpy.run_path("experiments.py", run_name="__main__")
"""
PUBLISHED = [
    *("--model=tree", "--dataset=a9a", "--alg=fedkt", "--n_parties=50", "--n_teacher_each_partition=5"),
    *("--n_partition=2", "--beta=0.5", "--device=cpu", "--datadir=./", "--logdir=./logs", "--log_file_name=run"),
]
# without compiled files every process compiles all that it imports, which takes longer than the imports
ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
OURS = {
    "as published": ("fedkt-adult",),
    "the rule is found": ("fedkt-adult-auto",),
    "single trees": ("fedkt-adult", "model=decision-tree(max_depth=6)"),
    "fast forests": ("fedkt-adult", "model=fast-forest(max_depth=6)"),
}


def published(code: Path, table: Path, seed: int) -> dict[str, float]:
    """Run the published script on one seed; return its seconds and the final model's accuracy."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file in code.glob("*.py"):
            shutil.copy(file, folder)
        with gzip.open(table) as packed:
            (folder / "a9a").write_bytes(packed.read())
        command = [sys.executable, "-c", EMPTY_MODULES, *PUBLISHED, f"--init_seed={seed}"]
        began = time.perf_counter()
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=ENVIRONMENT)
        seconds = time.perf_counter() - began
        if done.returncode:
            sys.exit(f"The published code failed:\n{done.stderr[-2000:]}")
        said = re.findall(r"global test acc ([0-9.]+)", (folder / "logs" / "run.log").read_text())
    return {"seconds": seconds, "accuracy": float(said[-1])}


def ours(config: str, *changes: str, data_root: Path, partitions: Path, index: int) -> dict[str, float]:
    """Run our command on one partition; return its seconds, those of the exchange, and the final model's accuracy."""
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "data-root": data_root.resolve(),
            "paper.partition-path": partitions.resolve(),
            "partitioner": f"file(index={index})",
            "output-dir": folder,
        }
        command = [str(Path(sys.executable).with_name("fedkd")), "simulate", str(ROOT / f"simulations/{config}.toml")]
        command += [*(f"{key}={value}" for key, value in settings.items()), *changes, "--parties", "50"]
        began = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, env={**ENVIRONMENT, "NO_COLOR": "1"})
        seconds = time.perf_counter() - began
        if done.returncode:
            sys.exit(f"{shlex.join(command)} failed:\n{(done.stdout + done.stderr)[-2000:]}")
        record: dict[str, Any] = json.loads(next(Path(folder).rglob("record.json")).read_text())
    exchange = sum(round_["seconds"] for round_ in record["rounds"])
    return {"seconds": seconds, "exchange": exchange, "accuracy": record["server"]["common"]["accuracy"]}


def models_alone(data_root: Path, partitions: Path, index: int) -> float:
    """Return the seconds of one core that scikit-learn's fits and answers take in our run, party after party."""
    from flwr.common.config import flatten_dict
    from simulate import run_here
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.tree import DecisionTreeClassifier

    spent, inside = 0.0, False

    def timed(method: Any) -> Any:
        def call(*args: Any, **words: Any) -> Any:
            nonlocal spent, inside
            if inside:
                return method(*args, **words)
            began, inside = time.process_time(), True
            try:
                return method(*args, **words)
            finally:
                spent, inside = spent + time.process_time() - began, False

        return call

    settings = flatten_dict(tomllib.loads((ROOT / f"simulations/{OURS['as published'][0]}.toml").read_text()))
    settings |= {"data-root": str(data_root.resolve()), "paper.partition-path": str(partitions.resolve())}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        for kind in (RandomForestClassifier, DecisionTreeClassifier):
            for name in ("fit", "predict", "predict_proba"):
                stack.enter_context(mock.patch.object(kind, name, timed(getattr(kind, name))))
        run_here({**settings, "partitioner": f"file(index={index})"}, Path(folder))
    return spent


def main() -> None:
    """Run both in turns and write what they took and reached."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--code", type=Path, required=True, help="a clone of the published repository")
    parser.add_argument("--data-root", type=Path, required=True)
    parser.add_argument("--partitions", type=Path, required=True)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4], choices=range(5))
    parser.add_argument("--ours", nargs="+", default=list(OURS), choices=OURS)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    runs = []
    for seed in options.seeds:
        theirs = published(options.code, options.data_root / "adult" / "a9a.gz", seed)
        run: dict[str, Any] = {"seed": seed, "published": theirs}
        for name in options.ours:
            run[name] = ours(*OURS[name], data_root=options.data_root, partitions=options.partitions, index=seed)
            run[name]["times as fast"] = theirs["seconds"] / run[name]["seconds"]
        if "as published" in run:
            run["as published"]["models alone"] = models_alone(options.data_root, options.partitions, seed)
        runs.append(run)
        print(json.dumps(run), flush=True)
    means = {
        name: {key: statistics.fmean(run[name][key] for run in runs) for key in runs[0][name]}
        for name in ("published", *options.ours)
    }
    print(json.dumps({"means": means}, indent=1))
    if options.out:
        machine = f"{os.cpu_count()} cores, Python {platform.python_version()}"
        made = {"command": shlex.join(["python", *sys.argv]), "machine": machine, "means of": means, "runs": runs}
        options.out.write_text(json.dumps(made, indent=1) + "\n")


if __name__ == "__main__":
    main()

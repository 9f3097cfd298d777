"""How long a simulation takes until its first round begins: ``fedkd simulate`` against ``flwr run .``, in one run.

    python benchmarks/start_up.py --repeat 3 --out benchmarks/results/start-up.json

Both run the default: digits, ten parties, two at a time. ``flwr run`` gets a home of its own; its first run also starts
Flower's SuperLink ("cold"), the later ones find it running ("warm"). Its dependency installation is off, which is in
its favour. The commands take turns, so that other work on the machine slows both; the ratio is what counts.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from flower_runtime import FlowerHome  # noqa: E402

SIZE = "num-supernodes=10 client-resources-num-cpus=1 init-args-num-cpus=2"


def until(line: str, command: list[str], *, cwd: Path, env: dict[str, str]) -> tuple[float, float]:
    """Run a command; return the seconds until it has said ``line``, and until its end."""
    began, said = time.monotonic(), 0.0
    with subprocess.Popen(
        command, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as run:
        for text in run.stdout or ():
            if line in text and not said:
                said = time.monotonic() - began
    if not said or run.returncode:
        sys.exit(f"{command[:3]} ended with {run.returncode} and never said {line!r}")
    return round(said, 2), round(time.monotonic() - began, 2)


def main() -> None:
    """Measure, print, and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found: dict[str, list[tuple[float, float]]] = {"flwr run, cold": [], "flwr run, warm": [], "fedkd simulate": []}
    with tempfile.TemporaryDirectory() as folder:
        home = FlowerHome(Path(folder) / "home")
        env = home.env | {"PYTHONPATH": str(ROOT)}
        flwr = [sys.executable, "-P", "-c", "from flwr.cli.app import app; app()", "run", ".", "--stream"]
        flwr += ["--federation-config", SIZE, "--run-config", f'output-dir="{folder}"']
        fedkd = [sys.executable, "-m", "fedkd_flwr.cli", "simulate", f"output-dir={folder}", "--processes", "2"]
        try:
            for i in range(options.repeat + 1):
                name = "flwr run, warm" if i else "flwr run, cold"
                found[name].append(until("[ROUND 1", flwr, cwd=home.app, env=env))
                print(name, *found[name][-1], flush=True)
                if i:
                    found["fedkd simulate"].append(until("round 1 of", fedkd, cwd=home.app, env=env))
                    print("fedkd simulate", *found["fedkd simulate"][-1], flush=True)
        finally:
            home.stop()
    starts = {name: statistics.median(start for start, _ in runs) for name, runs in found.items()}
    figures = {
        "command": shlex.join(["python", "benchmarks/start_up.py", *sys.argv[1:]]),
        "cores": os.cpu_count(),
        "seconds until round 1, and in all": found,
        "ratio of medians to warm": round(starts["fedkd simulate"] / starts["flwr run, warm"], 3),
        "ratio of medians to cold": round(starts["fedkd simulate"] / starts["flwr run, cold"], 3),
    }
    print({key: value for key, value in figures.items() if key.startswith("ratio")})
    if options.out:
        options.out.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

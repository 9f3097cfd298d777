"""Mutate one module and let its own test file find the changes.

    pip install "mutmut>=3.8"
    python benchmarks/mutants.py fedkd_flwr/privacy/noise/plan.py            # tests/privacy/noise/test_plan.py
    python benchmarks/mutants.py fedkd_flwr/privacy/cost/pate_bounds.py tests/privacy/cost/test_pate_laplace.py

Further test files are run beside the module's own. It works in a copy of the checkout, with one process, and prints how
many mutants were killed and the difference that each survivor makes. ``--only N`` takes every N-th mutant.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]


def _mutmut(folder: Path, *arguments: str) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": ""}
    done = subprocess.run(["mutmut", *arguments], cwd=folder, env=environment, capture_output=True, text=True)
    return done.stdout


def _results(folder: Path) -> list[tuple[str, str]]:
    lines = (line.strip().rsplit(": ", 1) for line in _mutmut(folder, "results", "--all", "true").splitlines())
    return [(line[0], line[1]) for line in lines if len(line) == 2]


def main() -> None:
    """Copy the checkout, run mutmut there and print what it found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("module", type=Path)
    parser.add_argument("tests", nargs="*", help="beside the module's own test file")
    parser.add_argument("--only", type=int, default=1, metavar="N", help="every N-th mutant (default 1: all)")
    options = parser.parse_args()
    own = Path("tests", *options.module.parts[1:-1], f"test_{options.module.name}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in ("fedkd_flwr", "tests", "benchmarks", "docs"):
            shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        for part in ("README.md", "CHANGELOG.md"):
            shutil.copy(ROOT / part, folder / part)
        settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
        settings = re.sub(r"(?m)^only_mutate = .*", f'only_mutate = ["{options.module}"]', settings)
        tests = f"pytest_add_cli_args_test_selection = {[str(own), *options.tests]}"
        settings = re.sub(r"(?m)^pytest_add_cli_args_test_selection = .*", tests, settings)
        (folder / "pyproject.toml").write_text(settings, encoding="utf-8")
        chosen: list[str] = []
        if options.only > 1:
            _mutmut(folder, "run", "--max-children", "1", "none.of.these")  # makes the mutants
            chosen = [mutant for mutant, _ in _results(folder)][:: options.only]
        _mutmut(folder, "run", "--max-children", "1", *chosen)
        results = [(mutant, state) for mutant, state in _results(folder) if not chosen or mutant in chosen]
        print(options.module, dict(Counter(state for _, state in results)))
        for mutant, state in results:
            if state not in ("killed", "timeout"):
                lines = _mutmut(folder, "show", mutant).splitlines()
                changed = [line for line in lines if line[:1] in ("+", "-") and line[:3] not in ("+++", "---")]
                print(f"## {mutant} {state}", *changed, sep="\n")


if __name__ == "__main__":
    main()

"""Mutate one module and let its own test file find the changes.

    pip install "mutmut>=3.8"
    python benchmarks/mutants.py fedkd_flwr/privacy/noise/plan.py            # tests/privacy/noise/test_plan.py
    python benchmarks/mutants.py fedkd_flwr/privacy/cost/pate.py tests/privacy/cost/test_pate.py

Further test files are run beside the module's own. It works in a copy of the checkout and prints how many mutants were
killed and the difference that each survivor makes. ``--only N`` takes every N-th mutant, and ``--quick S`` leaves out
tests of more than S seconds of processor time: what lives then may be killed by those.

mutmut makes the mutants. Tests are collected once; each mutant is tried in a fork of this process, by the tests that
reach the changed function, the quickest first. A test that takes far more processor time than without a mutant
kills it ("timeout"). Hypothesis does not shrink what it finds and has no deadline, because the machine may be busy, and
pytest explains no failed comparison, which takes longer than most tests.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

ROOT = Path(__file__).parents[1]
SLOW = ("dp_accounting.pld", "scipy.fft", "scipy.optimize", "scipy.special", "scipy.stats")
"""What functions import when they are called: once for all forks."""


def _mutate(module: Path, folder: Path) -> list[str]:
    """Copy the checkout, write the module's mutants into ``folder/mutants``, go there, and return their names."""
    for part in ("fedkd_flwr", "tests", "benchmarks", "docs"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    for part in ("README.md", "CHANGELOG.md"):
        shutil.copy(ROOT / part, folder / part)
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    settings = re.sub(r"(?m)^only_mutate = .*", f'only_mutate = ["{module}"]', settings)
    (folder / "pyproject.toml").write_text(settings, encoding="utf-8")
    os.chdir(folder)  # before mutmut reads its settings
    from mutmut import __main__ as mutmut
    from mutmut.mutation import trampoline

    trampoline.set_mutant_under_test("mutant_generation")
    Path("mutants").mkdir()
    with open(os.devnull, "w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
        mutmut.copy_src_dir()
        mutmut.copy_also_copy_files()
        mutmut.setup_source_paths()
        mutmut.create_mutants(1)
    os.chdir("mutants")
    sys.path.insert(0, str(Path.cwd()))
    trampoline.set_mutant_under_test("")
    return list(json.loads(Path(f"{module}.meta").read_text(encoding="utf-8"))["exit_code_by_key"])


def _in_a_fork(work: Callable[[], Any]) -> Any:
    """Return what ``work`` returns, as JSON carries it, in a fork of this process; None where it was ended."""
    with tempfile.NamedTemporaryFile() as answer:
        process = os.fork()
        if not process:
            try:
                with open(os.devnull, "w", encoding="utf-8") as nowhere:
                    os.dup2(nowhere.fileno(), 1)
                    os.dup2(nowhere.fileno(), 2)
                Path(answer.name).write_text(json.dumps(work()), encoding="utf-8")
            finally:
                os._exit(0)
        os.waitpid(process, 0)
        found = Path(answer.name).read_text(encoding="utf-8")
    return json.loads(found) if found else None


def _passes(item: pytest.Item) -> bool:
    return not any(report.failed for report in runtestprotocol(item, log=False, nextitem=None))


class Loop:
    """Takes the place of pytest's loop over its tests: one over mutants, and over tests for each of them."""

    def __init__(self, mutants: Iterable[str], quick: float) -> None:
        self.mutants, self.quick, self.results = mutants, quick, dict[str, str]()

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self) -> None:
        """Have Hypothesis neither shrink nor watch the clock."""
        from hypothesis import HealthCheck, Phase, settings

        phases, ignored = [Phase.explicit, Phase.generate], list(HealthCheck)
        settings.register_profile("mutants", phases=phases, deadline=None, database=None, suppress_health_check=ignored)
        settings.load_profile("mutants")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Try every mutant."""
        from mutmut.mutation import trampoline
        from mutmut.utils.format_utils import mangled_name_from_mutant_name

        for name in SLOW:
            __import__(name)

        def alone() -> list[tuple[float, list[str], bool]]:
            reached: set[str] = set()
            trampoline.record_trampoline_hit = lambda name, caller=None: reached.add(name)
            trampoline.set_mutant_under_test("stats")
            found = []
            for item in session.items:
                start = time.process_time()
                reached.clear()
                passed = _passes(item)
                found.append((time.process_time() - start, sorted(reached), passed))
            return found

        def tried(mutant: str, tests: list[tuple[float, int]]) -> str:
            trampoline.set_mutant_under_test(mutant)
            signal.signal(signal.SIGPROF, lambda *_: os._exit(1))
            for cost, number in tests:
                signal.setitimer(signal.ITIMER_PROF, 1.5 + 5 * cost)
                if not _passes(session.items[number]):
                    return "killed"
            return "survived"

        costs = _in_a_fork(alone)
        if failing := [item.nodeid for item, (_, _, passed) in zip(session.items, costs, strict=True) if not passed]:
            raise pytest.UsageError(f"these fail without any mutant: {', '.join(failing)}")
        for mutant in self.mutants:
            function = mangled_name_from_mutant_name(mutant)
            able = ((cost, number) for number, (cost, reached, _) in enumerate(costs) if function in reached)
            tests = sorted((cost, number) for cost, number in able if cost <= self.quick)
            state = _in_a_fork(lambda mutant=mutant, tests=tests: tried(mutant, tests)) if tests else "no tests"
            self.results[mutant] = state or "timeout"
        return True


def _difference(source: str, mutant: str) -> list[str]:
    """Return the lines that a mutant takes away and puts in their place."""

    def lines(name: str) -> list[str]:
        function = rf"(?ms)^( *)(?:async )?def {re.escape(name)}\(.*?(?=^\1(?! |\))\S|\Z)"
        return found[0].splitlines() if (found := re.search(function, source)) else []

    name = mutant.rpartition(".")[2]
    both = difflib.ndiff(lines(re.sub(r"mutmut_\d+$", "mutmut_orig", name)), lines(name))
    return [line for line in both if line[:1] in "+-" and "__mutmut" not in line]


def main() -> None:
    """Copy the checkout, mutate the module there and print what its tests found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("module", type=Path)
    parser.add_argument("tests", nargs="*", help="beside the module's own test file")
    parser.add_argument("--only", type=int, default=1, metavar="N", help="every N-th mutant (default 1: all)")
    parser.add_argument("--quick", type=float, default=float("inf"), metavar="S", help="the slowest test to run")
    options = parser.parse_args()
    own = Path("tests", *options.module.parts[1:-1], f"test_{options.module.name}")
    with tempfile.TemporaryDirectory() as name:
        mutants = _mutate(options.module, Path(name))
        loop = Loop(mutants[:: options.only], options.quick)
        quiet = ["-p", "no:cacheprovider", "--hypothesis-seed=0", "-n0", "-q", "--no-header", "--assert=plain"]
        pytest.main([str(own), *options.tests, *quiet], plugins=[loop])
        print(options.module, len(mutants), "mutants, tried:", dict(Counter(loop.results.values())))
        source = options.module.read_text(encoding="utf-8")
        for mutant, state in loop.results.items():
            if state not in ("killed", "timeout"):
                print(f"## {mutant} {state}", *_difference(source, mutant), sep="\n")
        os.chdir(ROOT)


if __name__ == "__main__":
    main()

"""What works on which Flower: this package's tests of Flower's surface, and real runs, on other releases of flwr.

    python benchmarks/flower_versions.py                  # the oldest declared and the newest, but the one installed
    python benchmarks/flower_versions.py --real 1.42.0    # Ray and two SuperNodes besides, some minutes

Each release is installed into a folder of its own, without its dependencies, and laid over this environment: all other
packages stay what they are here. So a release that needs other versions of them than are here is tested beside those.
Exit code 1 if anything fails.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[1]
NEWEST = "1.42.0"  # on the package index when this was last run
API = [
    "tests/wire/test_records.py",
    "tests/strategies/test_roster.py",
    "tests/strategies/test_waiting.py",
    "tests/app/test_flower_mods.py",
    "tests/silo/test_node_client.py",
    "tests/test_examples.py",
]
REAL = ["tests/flower/test_ray.py", "tests/flower/test_supernodes.py"]
IMPORT_ALL = """
import importlib, pkgutil, sys, flwr, fedkd_flwr
assert flwr.__file__.startswith(sys.argv[1]), flwr.__file__
for room in ("wire", "strategies", "clients", "app", "simulation", "settings", "silo"):  # those that may import Flower
    for module in pkgutil.iter_modules(importlib.import_module(f"fedkd_flwr.{room}").__path__, f"fedkd_flwr.{room}."):
        importlib.import_module(module.name)
"""


def oldest() -> str:
    """Return the oldest release of flwr that pyproject.toml declares."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    low = next(m[1] for one in declared if (m := re.match(r"flwr>=([\d.]+)", one)))
    return low if low.count(".") == 2 else f"{low}.0"


def others() -> list[str]:
    """Return the oldest release declared and the newest, but for the one that is installed: all tests run on that."""
    return sorted({oldest(), NEWEST} - {metadata.version("flwr")})


def install(version: str, folder: Path) -> None:
    """Install one release of flwr, and nothing else, into a folder."""
    what = f"flwr-nightly=={version}" if "dev" in version else f"flwr=={version}"
    tools = [shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")]
    command = [tools[0], "pip", "install", "-q", "--python", sys.executable] if tools[0] else None
    command = command or [sys.executable, "-m", "pip", "install", "-q"]
    environment = os.environ | {"UV_FIND_LINKS": os.environ.get("PIP_FIND_LINKS", "")}
    subprocess.run([*command, "--no-deps", "--target", str(folder), what], check=True, env=environment)


def run(what: str, command: Sequence[str], folder: Path) -> bool:
    """Run a command with that release before all other packages; print how it went."""
    path = os.pathsep.join([str(folder), str(ROOT), os.environ.get("PYTHONPATH", "")])
    began = time.monotonic()
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    lines = (done.stdout + done.stderr).strip().splitlines()
    found = re.findall(r"\d+ (?:passed|failed|error)\w*", lines[-1]) if lines else []
    word = "ok" if done.returncode == 0 else "FAILED"
    print(f"  {what:<8} {word:<7} {time.monotonic() - began:5.0f} s  {', '.join(found)}", flush=True)
    if done.returncode:
        print("\n".join(f"      {line}" for line in lines[-25:]))
    return done.returncode == 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Test each release; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="*", default=others(), help="releases of flwr, such as 1.42.0")
    parser.add_argument("--real", action="store_true", help="start Ray and two SuperNodes, too")
    asked = parser.parse_args(arguments)
    good = True
    pytest = [sys.executable, "-m", "pytest", "-n0", "-p", "no:cacheprovider"]
    for version in asked.versions:
        with tempfile.TemporaryDirectory(prefix=f"flwr-{version}-") as name:
            print(f"flwr {version}", flush=True)
            folder = Path(name)
            install(version, folder)
            good &= run("imports", [sys.executable, "-c", IMPORT_ALL, name], folder)
            good &= run("API", [*pytest, "-o", "addopts=--import-mode=importlib", *API], folder)
            if asked.real:
                good &= run("real", [*pytest, "-o", "addopts=--import-mode=importlib", *REAL], folder)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

"""Build the wheel and the source distribution, install them in a clean environment, and use what was installed.

    python benchmarks/release.py                # what CI runs
    python benchmarks/release.py --out dist     # and keep the two files, and what they bring (CycloneDX)

The clean environment has the libraries of this one, which are not installed again, but not this checkout. Checked are:
what the two files hold; that the wheel built from the source distribution holds the same; that ``fedkd --help`` and a
small simulation work in an empty folder; and what ``flwr app publish`` checks of the unpacked source distribution
before it uploads. Nothing is uploaded.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
ABSENT = ("tests", "simulations", "benchmarks", "examples")
NEEDED = ("LICENSE", "README.md", "CHANGELOG.md", "CITATION.cff", "SECURITY.md", "pyproject.toml")


def run(*words: str | Path, cwd: Path, code: int = 0) -> str:
    """Run a command with nothing of this checkout in sight; return what it says."""
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "FEDKD_DATA")}
    done = subprocess.run([*map(str, words)], cwd=cwd, env=env, capture_output=True, text=True)
    if done.returncode != code:
        raise SystemExit(f"{' '.join(map(str, words))}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout or done.stderr


def build(source: Path, target: Path, *kinds: str) -> list[Path]:
    """Build the named kinds of distribution from a folder, and return their files."""
    run(sys.executable, "-m", "hatchling", "build", "-d", target, *(f"-t{kind}" for kind in kinds), cwd=source)
    return sorted(target.iterdir())


def names(path: Path) -> set[str]:
    """Return the files of a distribution, below its own folder."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as file:
            return {name for name in file.namelist() if not name.endswith("/")}
    with tarfile.open(path) as file:
        return {one.name.partition("/")[2] for one in file.getmembers() if one.isfile()}


def check_contents(sdist: Path, wheel: Path, scratch: Path) -> None:
    """Look at what is in both, and build the wheel again from the source distribution."""
    for path in (sdist, wheel):
        if wrong := sorted(name for name in names(path) if name.split("/")[0] in ABSENT or name.endswith(".pyc")):
            raise SystemExit(f"{path.name} holds {', '.join(wrong[:5])}")
    if missing := [name for name in NEEDED if name not in names(sdist)]:
        raise SystemExit(f"{sdist.name} lacks {', '.join(missing)}")
    with tarfile.open(sdist) as file:
        file.extractall(scratch / "unpacked", filter="data")
    (unpacked,) = (scratch / "unpacked").iterdir()
    (again,) = build(unpacked, scratch / "again", "wheel")
    if names(again) != names(wheel):
        raise SystemExit(f"the wheel of {sdist.name} differs: {sorted(names(again) ^ names(wheel))[:5]}")


def check_installed(wheel: Path, scratch: Path) -> None:
    """Install the wheel in a clean environment, and use it in an empty folder."""
    env, here = scratch / "env", scratch / "empty"
    here.mkdir()
    run(sys.executable, "-m", "venv", "--without-pip", env, cwd=here)
    python, fedkd = env / "bin" / "python", env / "bin" / "fedkd"
    # a path alone: the editable install that may lie beside the libraries is not followed
    (site,) = (env / "lib").glob("python*/site-packages")
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "-q", "--disable-pip-version-check")
    run(*pip, "--no-deps", "--no-index", "--force-reinstall", wheel, cwd=here)
    told = "import fedkd_flwr; print(fedkd_flwr.__file__, fedkd_flwr.__version__)"
    place, version = run(python, "-c", told, cwd=here).split()
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    if env not in Path(place).parents or version != declared:
        raise SystemExit(f"imported {place} {version} instead of release {declared} in {env}")
    if "simulate" not in run(fedkd, "--help", cwd=here):
        raise SystemExit("fedkd --help does not name fedkd simulate")
    # a simulation in one process: `fedkd simulate` starts several, each of which imports anew
    few = ("dataset=digits", "model=decision-tree", "num-rounds=1", "num-public=100")
    candidate = ("--candidate", "fedct:majority", "--seeds", "1", "--parties", "2")
    chosen = json.loads(run(fedkd, "choose", "--json", *candidate, *few, cwd=here))
    if "fedct:majority" not in [one["candidate"] for one in chosen["candidates"]]:
        raise SystemExit(f"fedkd choose: {chosen}")


def check_publishable(root: Path) -> str:
    """Check a folder as ``flwr app publish`` does before it uploads; return what it says."""
    code = """
import sys, pathlib, flwr.cli.app_cmd.publish
from flwr.cli.config_utils import load_and_validate
checks = sys.modules["flwr.cli.app_cmd.publish"]
root = pathlib.Path(sys.argv[1])
config, _ = load_and_validate(root / "pyproject.toml", check_module=False)
assert len(config["project"]["description"]) <= 200
checks._validate_description(config["project"]["description"])
checks._validate_files(checks._collect_file_paths(root))
"""
    return run(sys.executable, "-c", code, root, cwd=root).strip().splitlines()[-1]


def write_bill(wheel: Path, out: Path, scratch: Path) -> Path:
    """Write which packages an installation of the wheel brings, as a software bill of materials."""
    bins = []
    for name, what in (("installed", wheel), ("lister", "cyclonedx-bom")):
        run(sys.executable, "-m", "venv", scratch / name, cwd=scratch)
        bins.append(scratch / name / "bin")
        run(bins[-1] / "pip", "install", "-q", "--disable-pip-version-check", what, cwd=scratch)
    bill = out / f"{wheel.name.partition('-py3')[0]}.cdx.json"
    run(bins[1] / "cyclonedx-py", "environment", bins[0] / "python", "--of", "JSON", "-o", bill, cwd=scratch)
    return bill


def main() -> None:
    """Run all checks and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="a folder to keep them in, with a software bill of materials")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        out = options.out.absolute() if options.out else scratch / "dist"
        sdist, wheel = sorted(build(ROOT, out, "sdist", "wheel"), key=lambda path: path.suffix == ".whl")[-2:]
        check_contents(sdist, wheel, scratch)
        print(f"{sdist.name}, {wheel.name}: complete, and nothing else")
        check_installed(wheel, scratch)
        print("installed in a clean environment: fedkd --help, a simulation")
        (unpacked,) = (scratch / "unpacked").iterdir()
        if options.out:
            bill = write_bill(wheel, out, scratch)
            print(f"{bill.name}: {len(json.loads(bill.read_text(encoding='utf-8'))['components'])} packages")
        print(f"flwr app publish would take it: {check_publishable(unpacked)}")


if __name__ == "__main__":
    main()

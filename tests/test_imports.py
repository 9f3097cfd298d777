"""Imports point one way: pure rooms know no Flower, nothing heavy is imported before it is used."""

import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from syntax import imported, statements

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "fedkd_flwr"
PURE = ("labels", "privacy", "algorithms", "models", "data", "report", "stores", "onnx_graphs")
PURE += ("record", "metrics", "checks", "errors", "files", "processes", "registry", "seeds")
HEAVY = {"torch", "transformers", "xgboost", "imodels", "flwr_datasets", "datasets", "matplotlib", "ray"}
HEAVY |= {"dp_accounting", "onnx", "onnxruntime", "skl2onnx"}
# public modules that are themselves imported only on use, with the extra they belong to
ON_USE = {"fedkd_flwr.models.networks", "fedkd_flwr.text.net", "fedkd_flwr.text.transformers"}


def _files(room):
    folder = PACKAGE / room
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]


def _modules(room):
    """Name a room and each public module in it."""
    names = [".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for file in _files(room)]
    return [name for name in names if not name.rpartition(".")[2].startswith("_") and name not in ON_USE]


# what a process imports one after another, the package that it then has, and those that it has not yet
STEPS = {
    "the package itself": (["fedkd_flwr"], "fedkd_flwr", {"flwr", "numpy", "sklearn", "pandas", "pydantic"}),
    "what starts the parties of a simulation, before anything that takes time": (
        ["fedkd_flwr.simulation.starter", "fedkd_flwr.cli.simulate", "fedkd_flwr.settings.run_settings"],
        "pydantic",
        {"flwr", "sklearn", "scipy", "pandas"},
    ),
    "the data room": (["fedkd_flwr.data.datasets", "fedkd_flwr.data.partitioning"], "pandas", {"flwr", "sklearn"}),
    "pure rooms": (
        [module for room in PURE for module in _modules(room)],
        "numpy",
        {"flwr", "jinja2", "skops", "safetensors"},
    ),
    "Flower's rooms and the apps": (
        [module for room in ("wire", "strategies", "clients") for module in _modules(room)]
        + [f"fedkd_flwr.app.{app}" for app in ("server_app", "client_app", "assembly")],
        "flwr",
        set(),
    ),
}


@cache
def _loaded():
    """Import the steps in a fresh process; return the top-level packages that it holds after each."""
    code = (
        "import importlib, sys\n"
        f"for modules in {[modules for modules, _, _ in STEPS.values()]!r}:\n"
        "    for name in modules: importlib.import_module(name)\n"
        "    print(*{name.partition('.')[0] for name in sys.modules})\n"
        "from fedkd_flwr.models import payloads\n"
        "payloads.import_skops()\n"
        "assert 'torch' not in sys.modules, 'what writes a forest imports torch'"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(zip(STEPS, map(str.split, done.stdout.splitlines()), strict=True))


@pytest.mark.parametrize("step", STEPS)
def test_nothing_heavy_is_imported_before_it_is_used_and_no_flower_in_pure_rooms(step):
    _, has, has_not = STEPS[step]
    assert has in _loaded()[step]
    assert not set(_loaded()[step]) & (HEAVY | has_not)


# ------------------------------------------------------------------------------------------------- one way only

BELOW = {"checks", "errors", "files", "processes", "seeds", "metrics", "labels", "models"}
BELOW |= {"data", "privacy", "algorithms", "stores", "record"}
MAY_IMPORT = {
    "errors": set(),
    "files": set(),
    "processes": {"errors"},
    "seeds": set(),
    "metrics": {"checks", "errors"},
    "checks": {"errors"},
    "registry": set(),
    "labels": {"checks", "errors", "metrics"},
    "models": {"checks", "errors", "files", "labels", "metrics", "registry", "seeds"},
    "data": {"checks", "errors", "labels", "seeds"},
    "privacy": {"checks", "errors", "files", "labels"},
    "algorithms": {"checks", "errors", "registry", "seeds", "labels", "privacy"},
    "stores": {"checks", "data", "errors", "files", "labels", "models", "privacy", "processes", "record"},
    "record": {"checks", "errors", "files", "metrics", "processes"},
    "onnx_graphs": {"errors", "data", "models", "stores"},
    "wire": {"checks", "errors", "labels"},
    "strategies": {*BELOW, "registry", "wire"},
    "clients": {*BELOW, "registry", "wire"},
    "report": {"errors", "files", "metrics", "privacy", "processes", "record"},
}


def _imported(file):
    """Name what a file imports of this package."""
    return {name for name in imported(file) if name.startswith("fedkd_flwr.")}


def _rooms_imported(file):
    return {name.split(".")[1] for name in _imported(file)}


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_a_room_imports_only_rooms_below_it(room):
    files = _files(room)
    assert files
    for file in files:
        reached = _rooms_imported(file) - {room} - BESIDE  # see below
        assert reached <= MAY_IMPORT[room], file


def test_every_room_is_under_this_rule():
    rooms = {path.stem for path in PACKAGE.iterdir() if path.is_dir() or path.suffix == ".py"}
    edge = {"settings", "simulation", "app", "api", "cli"}
    assert rooms - {"__pycache__", "__init__", "py"} == set(MAY_IMPORT) | edge | BESIDE


BESIDE = {"silo", "baselines", "audit", "text"}


def test_the_core_imports_nothing_that_stands_beside_it():
    short = {name: name.removeprefix("fedkd_flwr.") for name in _package()}
    pairs = {
        (short[name], short[other])
        for name, found in _package().items()
        for other in found
        if short[other].split(".")[0] in BESIDE and short[name].split(".")[0] not in BESIDE
    }
    assert not pairs


def test_strategies_and_clients_never_meet_and_this_test_would_notice(tmp_path):
    assert "clients" not in MAY_IMPORT["strategies"]
    assert "strategies" not in MAY_IMPORT["clients"]
    inside = "def f():\n    try: pass\n    finally:\n        from fedkd_flwr.clients.base import Party\n"
    for name, text in {"inside.py": inside, "at_the_top.py": "from fedkd_flwr import clients"}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        assert _rooms_imported(tmp_path / name) == {"clients"}


def test_what_the_rooms_may_import_goes_one_way():
    above = {room: set(below) for room, below in MAY_IMPORT.items()}
    assert _circles(above) == []


def _graph(package):
    """Return which files of a package each of its files imports, by module name."""
    modules = {}
    for file in sorted(package.rglob("*.py")):
        name = ".".join(file.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__")
        modules[name] = _imported(file)
    # "from a.b import c" reaches the file a/b/c.py where there is one, and the file a/b.py where c is a name in it
    reached = {
        name: {one if one in modules else one.rpartition(".")[0] for one in found} for name, found in modules.items()
    }
    return {name: (found & set(modules)) - {name} for name, found in reached.items()}


@cache
def _package():
    """Return the graph of this package, which is read once."""
    return _graph(PACKAGE)


def _circles(graph):
    """Name each node of a graph that leads back to itself, with the shortest way there."""
    found = set()
    for start in sorted(graph):
        ways, seen = [(start,)], set()
        while ways:
            way = ways.pop(0)
            for after in sorted(graph[way[-1]]):
                if after == start:
                    turn = way.index(min(way))
                    found.add(" -> ".join((*way[turn:], *way[:turn], min(way))))
                    ways = []
                    break
                if after not in seen:
                    seen.add(after)
                    ways.append((*way, after))
    return sorted(found)


def test_no_file_imports_itself_by_way_of_others():
    graph = _package()
    assert len(graph) > 80  # so that an empty graph could not pass
    circles = _circles(graph)
    assert not circles, "\n" + "\n".join(circles)


def test_this_test_would_notice_a_circle_also_of_imports_inside_functions(tmp_path):
    files = {
        "a/__init__.py": "",
        "a/one.py": "from fedkd_flwr.a.two import x\n",
        "a/two.py": "def f():\n    from fedkd_flwr.b import three\n",
        "b/__init__.py": "",
        "b/three.py": "import fedkd_flwr.a.one\nfrom fedkd_flwr.b.four import y\n",
        "b/four.py": "from json import loads\n",
    }
    for name, text in files.items():
        file = tmp_path / "fedkd_flwr" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    circle = "fedkd_flwr.a.one -> fedkd_flwr.a.two -> fedkd_flwr.b.three -> fedkd_flwr.a.one"
    assert _circles(_graph(tmp_path / "fedkd_flwr")) == [circle]
    (tmp_path / "fedkd_flwr" / "a" / "two.py").write_text("", encoding="utf-8")
    statements.cache_clear()
    assert _circles(_graph(tmp_path / "fedkd_flwr")) == []


# --------------------------------------------------------------------------------------------- the linter's rule


def test_the_linter_refuses_flower_in_a_pure_room_and_lets_flower_s_rooms_import_it(tmp_path):
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    pure = [*("labels", "models", "data", "report", "stores", "algorithms", "wire"), "privacy/noise", "."]
    for room in (*pure, "strategies", "clients", "app"):
        folder = tmp_path / "fedkd_flwr" / room
        folder.mkdir(parents=True, exist_ok=True)
        lines = ["import flwr", "from flwr.app import Message", *(["import ray"] if room in pure else [])]
        (folder / "new.py").write_text('"""A room."""\n\n' + "\n".join(lines) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--select", "TID251", "--output-format", "concise"]
    said = subprocess.run([*command, "."], cwd=tmp_path, capture_output=True, text=True, check=False).stdout
    found = re.findall(r"^(?:\./)?fedkd_flwr/(.*?)/?new\.py:(\d+):.*TID251", said, re.MULTILINE)
    assert sorted(found) == sorted((room.strip("."), str(line)) for room in pure for line in (3, 4, 5))

"""How many lines each room, module and function may have, and that each module has tests. Limits are only lowered."""

import ast
from pathlib import Path

import pytest
from syntax import statements

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "fedkd_flwr"
LIMITS = {
    "__init__": 30,
    "algorithms": 2_079,
    "api": 979,
    "app": 2_905,
    "audit": 790,
    "baselines": 1_815,
    "checks": 172,
    "cli": 1_266,
    "clients": 2_921,
    "data": 4_902,
    "errors": 253,
    "files": 240,
    "labels": 2_265,
    "metrics": 290,
    "models": 3_315,
    "onnx_graphs": 541,
    "privacy": 3_665,
    "processes": 410,
    "record": 825,
    "registry": 67,
    "report": 3_468,
    "seeds": 30,
    "settings": 695,
    "silo": 3_284,
    "simulation": 812,
    "stores": 1_976,
    "strategies": 3_376,
    "text": 409,
    "wire": 969,
}

KINDS = (".py", ".md")  # of code: templates of pages are code too


def _lines(room: str) -> int:
    path = PACKAGE / room
    files = path.rglob("*.*") if path.is_dir() else [path.with_suffix(".py")]
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files if file.suffix in KINDS)


@pytest.mark.parametrize("room", LIMITS)
def test_a_room_is_no_larger_than_its_limit(room):
    assert _lines(room) <= LIMITS[room]


def test_every_room_has_a_limit():
    rooms = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()} - {"__pycache__", "py"}
    assert rooms == set(LIMITS)


# ----------------------------------------------------------------------------------- functions, modules and classes

FUNCTION, MODULE, CLASS = 60, 400, 25  # lines without the docstring; lines; methods


def _too_large(package: Path) -> tuple[set[str], set[str], set[str]]:
    """Name the functions, modules and classes of a package that are above the limits."""
    functions, modules, classes = set[str](), set[str](), set[str]()
    for file in package.rglob("*.py"):
        name, text = ".".join(file.relative_to(package).with_suffix("").parts), file.read_text(encoding="utf-8")
        if len(text.splitlines()) > MODULE:
            modules.add(name)
        for node in statements(file):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                first = node.body[0]
                docstring = first.end_lineno - first.lineno + 1 if ast.get_docstring(node) is not None else 0
                if node.end_lineno - node.lineno + 1 - docstring > FUNCTION:
                    functions.add(f"{name}:{node.name}")
            if isinstance(node, ast.ClassDef):
                methods = [one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
                if len(methods) > CLASS:
                    classes.add(f"{name}:{node.name}")
    return functions, modules, classes


def test_no_function_no_module_and_no_class_is_too_large_to_read():
    assert _too_large(PACKAGE) == (set(), set(), set())


def test_this_test_would_notice_one_line_and_one_method_too_many(tmp_path):
    lines = "\n".join(f"    x = {i}" for i in range(FUNCTION - 1))
    methods = "\n".join(f"    def m{i}(self): ..." for i in range(CLASS))
    (tmp_path / "fits.py").write_text(f'def f():\n    """A\n\n    docstring."""\n{lines}\nclass C:\n{methods}\n')
    assert _too_large(tmp_path) == (set(), set(), set())
    more = f"async def f():\n{lines}\n    y = 0\nclass C:\n{methods}\n    def one(self): ...\n"
    (tmp_path / "large.py").write_text(more + "\n" * MODULE)
    assert _too_large(tmp_path) == ({"large:f"}, {"large"}, {"large:C"})


# ------------------------------------------------------------------------------------------ tests mirror the package


def test_every_module_has_a_test_file_of_its_name():
    modules = [file.relative_to(PACKAGE) for file in PACKAGE.rglob("*.py") if not file.name.startswith("__")]
    assert len(modules) > 200
    mirrored = {one: ROOT / "tests" / one.parent / f"test_{one.name.removeprefix('_')}" for one in modules}
    assert [str(one) for one, test in mirrored.items() if not test.is_file()] == []

"""What the package imports is what pyproject.toml declares."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).parents[1]


def _imported(path):
    """Return the top-level modules that a file's import statements name."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add(node.module.partition(".")[0])
    return found - sys.stdlib_module_names - {"fedkd_flwr"}


def _undeclared(modules, project, brought):
    """Return those of the imported modules whose distribution neither the project nor an extra of it names."""
    lines = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    declared = {re.match(r"[\w.-]+", line)[0].lower().replace("_", "-") for line in lines}
    names = {one: {name.lower().replace("_", "-") for name in brought.get(one, [one])} for one in modules}
    return {one for one, known in names.items() if not known & declared}


def test_what_the_package_imports_is_what_it_declares():
    """Flower and scikit-learn bring httpx, click, cryptography and joblib today; another version of them may not."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    imported = set().union(*map(_imported, (ROOT / "fedkd_flwr").rglob("*.py")))
    assert len(imported) > 15
    brought = packages_distributions()
    assert _undeclared(imported, project, brought) == set()
    project["dependencies"] = [one for one in project["dependencies"] if not one.startswith(("httpx", "joblib"))]
    assert _undeclared(imported, project, brought) == {"httpx", "joblib"}

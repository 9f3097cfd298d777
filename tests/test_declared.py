"""What the package imports is what pyproject.toml declares."""

import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

from syntax import imported

ROOT = Path(__file__).parents[1]


def _undeclared(modules, project, brought):
    """Return those of the imported modules whose distribution neither the project nor an extra of it names."""
    lines = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    declared = {re.match(r"[\w.-]+", line)[0].lower().replace("_", "-") for line in lines}
    names = {one: {name.lower().replace("_", "-") for name in brought.get(one, [one])} for one in modules}
    return {one for one, known in names.items() if not known & declared}


def test_what_the_package_imports_is_what_it_declares():
    """Flower and scikit-learn bring httpx, click, cryptography and joblib today; another version of them may not."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = set().union(*map(imported, (ROOT / "fedkd_flwr").rglob("*.py")))
    modules = {name.partition(".")[0] for name in names} - sys.stdlib_module_names - {"fedkd_flwr"}
    assert len(modules) > 15
    brought = packages_distributions()
    assert _undeclared(modules, project, brought) == set()
    project["dependencies"] = [one for one in project["dependencies"] if not one.startswith(("httpx", "joblib"))]
    assert _undeclared(modules, project, brought) == {"httpx", "joblib"}

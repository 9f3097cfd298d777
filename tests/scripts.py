"""Scripts of this repository that are no part of a package, for tests of what they compute."""

import importlib.util
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def script(path):
    """Return a script as a module, which dataclasses look up by its name."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

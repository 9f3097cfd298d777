"""The statements of Python files, read once a process."""

import ast
from functools import cache
from pathlib import Path

__all__ = ["imported", "statements"]


@cache
def statements(path: Path) -> list[ast.AST]:
    """Return all statements of a file, also those within others: what is imported or defined is one."""
    found, left = [], [ast.parse(path.read_text(encoding="utf-8"))]
    while left:
        found.append(node := left.pop())
        for name in ("body", "orelse", "handlers", "finalbody", "cases"):
            left += getattr(node, name, ())
    return found


def imported(path: Path) -> set[str]:
    """Name what a file imports, anywhere in it, also inside functions."""
    names = set()
    for node in statements(path):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide which room they reach"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names

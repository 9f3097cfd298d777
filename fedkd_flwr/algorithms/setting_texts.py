"""What a setting's declaration says in words: the docstring below it, and its limits."""

from __future__ import annotations

import ast
import inspect
import textwrap
from functools import cache
from itertools import pairwise

__all__ = ["docstrings", "shown"]


def shown(limit: float) -> str:
    """Return a limit as users read it."""
    return f"{limit:g}" if limit < 2**31 else f"2^{int(limit).bit_length() - 1}"


@cache
def docstrings(cls: type) -> dict[str, str]:
    """Return the docstring below each setting that this very class declares."""
    body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0].body  # type: ignore[attr-defined]
    return {
        line.target.id: " ".join(str(below.value.value).split())
        for line, below in pairwise(body)
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
    }

"""The fields of a run record as Markdown, from the dataclasses that define them and the comments beside them."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import io
import re
import tokenize
from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

from fedkd_flwr.record.audit import AuditRecord
from fedkd_flwr.record.run_record import RunRecord

__all__ = ["record_fields"]


def record_fields() -> str:
    """Return the fields of each dataclass of a record, the record itself first."""
    classes = _reached(RunRecord, [])
    names = {one.__name__ for one in classes}
    return "\n\n".join(_section(cls, names) for cls in classes if cls.__module__ != AuditRecord.__module__)


def _reached(cls: type, found: list[type]) -> list[type]:
    """Return a dataclass and those that its fields lead to, each once."""
    found.append(cls)
    for hint in get_type_hints(cls).values():
        for one in _types(hint):
            if dataclasses.is_dataclass(one) and one not in found:
                _reached(one, found)
    return found


def _types(hint: Any) -> Iterator[Any]:
    yield hint
    for argument in get_args(hint):
        yield from _types(argument)


def _section(cls: type, names: set[str]) -> str:
    source = inspect.getsource(cls)
    tree = ast.parse(source).body[0]
    comments = {
        token.start[0]: (token.string.lstrip("# "), token.line.strip().startswith("#"))
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    described = _parameters(inspect.getdoc(cls) or "")
    what = (inspect.getdoc(cls) or "").split("\n\n")[0].replace("\n", " ").replace("``", "`")
    lines = [f"### {cls.__name__}", "", what]
    for node in tree.body:  # type: ignore[attr-defined]
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        beside = [comments[n][0] for n in range(node.lineno, (node.end_lineno or node.lineno) + 1) if n in comments]
        above, n = [], node.lineno - 1
        while n in comments and comments[n][1]:
            above.insert(0, comments[n][0])
            n -= 1
        meaning = (" ".join([*above, *beside]) or described.get(node.target.id, "")).replace("``", "`")
        before, _, last = lines[-1].partition(": ")
        parts = {*re.findall(r"\w+", ast.unparse(node.annotation))} & names
        said = ": ".join(filter(None, [f"`{node.target.id}`{''.join(f' ({one})' for one in parts)}", meaning]))
        if meaning and last == meaning:  # two figures that are explained together
            lines[-1] = f"{before}, `{node.target.id}`: {meaning}"
        else:
            lines += ["", said]
    return "\n".join(lines)


def _parameters(doc: str) -> dict[str, str]:
    """Return what a NumPy docstring says of each parameter or attribute."""
    found: dict[str, str] = {}
    for names, text in re.findall(r"^(\w[\w, ]*) : [^\n]*\n((?:    [^\n]*\n?)+)", doc, flags=re.MULTILINE):
        found |= {name.strip(): " ".join(text.split()) for name in names.split(",")}
    return found

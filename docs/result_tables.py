"""The tables of ``docs/results.md``: what `fedkd bench` can run, and the runs that ``benchmarks/results/`` keeps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fedkd_flwr.apps.bench import load_tables, needs

__all__ = ["bench_tables", "kept_runs"]

_FIGURES = ("solo", "federated", "server", "central")


def bench_tables(root: Path) -> str:
    """Return a row for each table of ``benchmarks/tables/``."""
    lines = ["| table | what it is | rows x seeds | minutes a seed, about | needs |", "|---|---|---|---|---|"]
    for table in load_tables([], root):
        wanted = sorted({need for row in table.row for need in needs(row, root)})
        minutes = sum(row.minutes for row in table.row)
        cells = [f"`{table.name}`", table.title, f"{len(table.row)} x {table.seeds}", f"{minutes:g}"]
        lines.append("| " + " | ".join([*cells, ", ".join(wanted) or "-"]) + " |")
    return "\n".join(lines)


def kept_runs(root: Path) -> str:
    """Return a row for each file of results that holds runs of one configuration."""
    lines = ["| runs | n | alone | federated | server's model | centralised |", "|---|---|---|---|---|---|"]
    for path in sorted((root / "benchmarks" / "results").glob("*.json")):
        found = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(found, dict) and {"runs", "means"} <= found.keys():
            cells = [_cell(found, figure) for figure in _FIGURES]
            link = f"[`{path.stem}`](../benchmarks/results/{path.name})"
            lines.append("| " + " | ".join([link, _count(found), *cells]) + " |")
    return "\n".join(lines)


def _count(found: dict[str, Any]) -> str:
    first = next(iter(found["runs"][0]))
    values = [run[first] for run in found["runs"]]
    return f"{len(values)} ({first} {', '.join(str(value).strip(chr(34)) for value in values)})"


def _cell(found: dict[str, Any], figure: str) -> str:
    if figure not in found["means"]:
        return "-"
    spread = found.get("deviations", {}).get(figure)
    return f"{found['means'][figure]:.3f}" + (f" ({spread:.3f})" if spread is not None else "")

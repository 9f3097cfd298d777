"""The tables of ``docs/evidence/results.md``: what the harness can run, and the runs that are kept."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

from benchmarks.harness.tables import load_tables

__all__ = ["bench_tables", "kept_runs"]

_FIGURES = ("solo", "federated", "server", "central")


def bench_tables(root: Path) -> str:
    """Return a row for each table of ``benchmarks/tables/``, with a link to its last results that are kept."""
    head = ["table", "what it is", "rows × seeds asked for"]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for table in load_tables([], root):
        kept = f"benchmarks/results/bench/{table.name}.md"
        name = f"[`{table.name}`](../../{kept})" if (root / kept).is_file() else f"`{table.name}`"
        asked = {row.name: row.seeds or table.seeds for row in table.row}
        done = _runs(root, table.name)
        found, wanted_runs = sum(min(done.get(row, 0), n) for row, n in asked.items()), sum(asked.values())
        title = table.title if found == wanted_runs else f"{table.title} ({found} of {wanted_runs} runs on record)"
        cells = [name, title, f"{len(table.row)}×{table.seeds_asked.replace(' to ', '–')}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _runs(root: Path, name: str) -> dict[str, int]:
    """Return how many runs of each row a published table rests on."""
    path = root / "benchmarks" / "results" / "bench" / f"{name}.json"
    return {row: len(s) for row, s in json.loads(path.read_text())["runs"].items()} if path.is_file() else {}


def kept_runs(root: Path) -> str:
    """Return a row for each file of results that holds runs of one configuration."""
    lines = ["| runs | n | alone | federated | server's model | centralised |", "|---|---|---|---|---|---|"]
    for path in sorted((root / "benchmarks" / "results").glob("*.json")):
        found = json.loads(path.read_text(encoding="utf-8"))
        if not (isinstance(found, dict) and {"runs", "means"} <= found.keys()):
            continue
        link = f"[`{path.stem}`](../../benchmarks/results/{path.name})"
        varied = next(iter(found["runs"][0]))
        if varied == "seed":
            seeds = [run[varied] for run in found["runs"]]
            whole = seeds == list(range(seeds[0], seeds[-1] + 1))
            values = f"{seeds[0]} to {seeds[-1]}" if whole else ", ".join(map(str, seeds))
            parts = {f"{len(seeds)} ({varied} {values})": found["runs"]}
        else:  # other settings: each run is of its own kind, and a mean over them would say nothing
            parts = {f"1 ({varied} {run[varied].strip(chr(34))})": [run] for run in found["runs"]}
        for words, runs in parts.items():
            cells = [_cell(runs, figure, spread="deviations" in found) for figure in _FIGURES]
            lines.append("| " + " | ".join([link, words, *cells]) + " |")
    return "\n".join(lines)


def _cell(runs: list[dict[str, Any]], figure: str, *, spread: bool) -> str:
    """Return the mean of runs, and their deviation; not the file's own, which are rounded already."""
    values = [run[figure] for run in runs if run.get(figure) is not None]
    if len(values) < len(runs):
        return "-"
    deviation = f"±{statistics.stdev(values):.3f}" if spread and len(values) > 1 else ""
    return f"{statistics.fmean(values):.3f}{deviation}"

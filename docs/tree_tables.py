"""The tables of ``docs/evidence/trees.md``: labels, trees and histograms, and four real hospitals."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

__all__ = ["advice_table", "cost_table", "hospital_table", "left_out_table", "tree_figures", "tree_tables"]

Run = dict[str, Any]
_TABLES = {"adult": "Adult", "cod-rna": "cod-rna", "mushroom": "Mushroom", "wine": "wine"}
_DEALS = {"iid": "iid", "1": "Dirichlet 1", "0.5": "0.5", "0.1": "0.1"}
_FIGURES = {
    "accuracy": "Accuracy",
    "balanced_accuracy": "Balanced accuracy",
    "roc_auc": "ROC AUC",
    "log_loss": "Log loss (lower is better)",
}
_POOLED = "pooled (= federated histograms)"
_FEWEST = 3  # seeds that a cell rests on
#: Column -> the method whose runs it is of, and where its figures stand.
_COLUMNS: dict[str, tuple[str, Callable[[Run, str], float | None]]] = {
    "alone": ("FedCT", lambda run, key: run["alone common"].get(key)),
    "FedKT": ("FedKT", lambda run, key: run["server"].get(key)),
    "FedCT": ("FedCT", lambda run, key: run["with common"].get(key)),
    "bagging": ("bagging, mean", lambda run, key: run["server"].get(key)),
    "bagging, best round": ("bagging, mean", lambda run, key: run["best round"].get(key)),
    "pooled forest": ("pooled forest", lambda run, key: run["server"].get(key)),
    _POOLED: ("FedKT", lambda run, key: run["pooled"].get(key)),
}


def _found(root: Path, name: str) -> dict[str, dict[str, Run]]:
    found: dict[str, dict[str, Run]] = json.loads((root / "benchmarks" / "results" / f"{name}.json").read_text())[
        "found"
    ]
    return found


def _cell(values: list[float], digits: int = 3) -> str:
    """Return a mean ± the standard deviation over seeds."""
    if len(values) < _FEWEST:
        return "not measured"
    text = f"{statistics.fmean(values):.{digits}f}±{statistics.stdev(values):.{digits}f}"
    return text.replace("±0.", "±.").removeprefix("0")


def tree_figures(root: Path, key: str) -> Iterator[tuple[str, str, dict[str, list[float]]]]:
    """Yield the table, the deal, and by column the values of the seeds that all its methods have."""
    found = _found(root, "trees")
    for table in _TABLES:
        for deal in _DEALS:
            methods = {method: found.get(f"{table}, {deal}, {method}", {}) for method, _ in _COLUMNS.values()}
            seeds = sorted(set.intersection(*(set(runs) for runs in methods.values())))
            values = {
                name: [of(methods[method][seed], key) for seed in seeds] for name, (method, of) in _COLUMNS.items()
            }
            yield table, deal, {name: [one for one in some if one is not None] for name, some in values.items()}


def tree_tables(root: Path, *keys: str) -> str:
    """Return a table of each of these figures: rows are data and deals, columns methods."""
    found = list(_found(root, "trees").values())
    seeds = sorted({seed for runs in found for seed in runs})
    told = f"Means of {len(seeds)} seeds, {seeds[0]} to {seeds[-1]}, which chose nothing, ± the standard "
    parts = [
        f"{told}deviation. Five parties share 3,000 rows; 1,500 are public. Boosted models have 30 steps. "
        "Distributed XGBoost adds up the histograms that *pooled* is made of, so it equals it."
        + (" AUC and log loss of *alone* are of parties that hold two classes." if len(keys) > 1 else "")
    ]
    for key in keys:
        lines = [
            f"**{_FIGURES[key]}**",
            "",
            f"| data, deal | {' | '.join(_COLUMNS)} |",
            "|---" * (1 + len(_COLUMNS)) + "|",
        ]
        for table, deal, values in tree_figures(root, key):
            name = f"{_TABLES[table]}, {_DEALS[deal]}"
            cells = [_cell(some) for some in values.values()]
            lines.append(f"| {name} | {' | '.join(cells)} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def cost_table(root: Path) -> str:
    """Return what a party sends and gets over the whole run, and in how many rounds, by method; iid parties."""
    found, methods = _found(root, "trees"), ("FedKT", "FedCT", "bagging, mean", "pooled forest")
    lines = ["| Adult, iid: method | rounds | KB sent by a party | KB it gets |", "|---|---|---|---|"]
    for method in methods:
        runs = list(found[f"adult, iid, {method}"].values())
        up, down = (statistics.fmean(run[f"bytes {way}"] for run in runs) / 1000 for way in ("up", "down"))
        lines.append(f"| {method.removesuffix(', mean')} | {runs[0]['rounds']} | {up:,.1f} | {down:,.1f} |")
    lines += ["", "| Adult, bagging with leaves added up | last round: accuracy | AUC | best round: accuracy | AUC |"]
    lines.append("|---" * 5 + "|")
    for deal, name in _DEALS.items():
        runs = list(found[f"adult, {deal}, bagging, sum"].values())
        cells = [_cell([run["server"][key] for run in runs]) for key in ("accuracy", "roc_auc")]
        cells += [_cell([run["best round"][key] for run in runs]) for key in ("accuracy", "roc_auc")]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def advice_table(root: Path) -> str:
    """Return how far federated histograms and shared trees are ahead of FedCT, means over tables, by deal."""
    lines = ["| parties | histograms: accuracy | AUC | trees (bagging): accuracy | AUC |", "|---" * 5 + "|"]
    rows: dict[str, dict[str, list[float]]] = {}
    for key in ("accuracy", "roc_auc"):
        for _, deal, values in tree_figures(root, key):
            if min(map(len, values.values())) >= _FEWEST:
                means = {name: statistics.fmean(some) for name, some in values.items()}
                for name in (_POOLED, "bagging"):
                    rows.setdefault(deal, {}).setdefault(f"{name} {key}", []).append(means[name] - means["FedCT"])
    for deal, gaps in rows.items():
        cells = [
            statistics.fmean(gaps[f"{name} {key}"]) for name in (_POOLED, "bagging") for key in ("accuracy", "roc_auc")
        ]
        lines.append(f"| {_DEALS[deal]} | " + " | ".join(f"{cell:+.3f}".replace("0.", ".") for cell in cells) + " |")
    return "\n".join(lines)


# ---------------------------------------------------------------- hospitals


def hospital_table(root: Path) -> str:
    """Return how each method does on common rows, and at home: the mean hospital, the worst, and each."""
    found = {name: list(runs.values()) for name, runs in _found(root, "hospitals").items() if name.startswith("drawn")}
    names = list(next(iter(found.values()))[0]["home"])
    told = (
        "At home FedKT, FedCT and noisy sums answer for the own class shares, the others as they were taught. *Clearly "
        "below*: by more than two standard errors of the difference, over seeds."
    )
    head = [
        "method",
        "seeds",
        "common rows: alone",
        "with",
        "AUC with",
        "home: alone",
        "with",
        "worst home: alone",
        "with",
        "clearly below alone",
    ]
    lines = [told, "", f"| {' | '.join([*head, *names])} |", "|---" * (len(head) + len(names)) + "|"]
    for name, runs in found.items():
        answer = [run.get("server") or run["with common"] for run in runs]
        homes = [[statistics.fmean(run["home"][who][i] for run in runs) for who in names] for i in (0, 1)]
        cells = [
            _cell([run["alone common"]["accuracy"] for run in runs]),
            _cell([one["accuracy"] for one in answer]),
            _cell([one["roc_auc"] for one in answer if "roc_auc" in one]),
            *(_cell([statistics.fmean(pair[i] for pair in run["home"].values()) for run in runs]) for i in (0, 1)),
            *(f"{min(means):.3f}"[1:] for means in homes),
            ", ".join(who for who in names if _below([run["home"][who] for run in runs])) or "none",
            *(f"{alone:.3f}→{after:.3f}".replace("0.", ".") for alone, after in zip(*homes, strict=True)),
        ]
        lines.append(f"| {name.removeprefix('drawn rows, ')} | {len(runs)} | {' | '.join(cells)} |")
    pooled = [run["pooled"] for run in found["drawn rows, FedKT, forests"]]
    values = [_cell([one[key] for one in pooled]) for key in ("accuracy", "roc_auc")]
    lines += ["", f"A forest of all rows pooled: {values[0]} on common rows, AUC {values[1]}."]
    return "\n".join(lines)


def _below(pairs: list[list[float]]) -> bool:
    """Tell whether the second of each pair is less by more than two standard errors of the difference."""
    gains = [after - before for before, after in pairs]
    return statistics.fmean(gains) < -2 * statistics.stdev(gains) / len(gains) ** 0.5


def left_out_table(root: Path) -> str:
    """Return how models of three hospitals do on the rows of the fourth."""
    found = {
        name: list(runs.values()) for name, runs in _found(root, "hospitals").items() if name.startswith("without")
    }
    lines = ["| rows of | method | seeds | alone | with | AUC with |", "|---" * 6 + "|"]
    for name, runs in found.items():
        who, _, method = name.removeprefix("without ").partition(", ")
        answer = [run.get("server") or run["with common"] for run in runs]
        cells = [
            _cell([run["alone common"]["accuracy"] for run in runs]),
            _cell([one["accuracy"] for one in answer]),
            _cell([one["roc_auc"] for one in answer if "roc_auc" in one]),
        ]
        lines.append(f"| {who} | {method} | {len(runs)} | {' | '.join(cells)} |")
    return "\n".join(lines)

"""The tables of ``docs/evidence/trees.md``: labels, trees and histograms, and four real hospitals."""

from __future__ import annotations

import itertools
import json
import statistics
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

__all__ = ["added_up_table", "advice_table", "cost_table", "hospital_table", "left_out_table", "member_table"]
__all__ += ["rare_tables", "tree_figures", "tree_tables", "value_table"]

Run = dict[str, Any]
_TABLES = {"adult": "Adult", "cod-rna": "cod-rna", "mushroom": "Mushroom", "wine": "wine"}
_DEALS = {"iid": "iid", "1": "Dirichlet 1", "0.5": "0.5", "0.1": "0.1"}
_FIGURES = {
    "accuracy": "Accuracy",
    "balanced_accuracy": "Balanced accuracy",
    "roc_auc": "ROC AUC",
    "average_precision": "Average precision",
    "log_loss": "Log loss (lower is better)",
}
_POOLED = "pooled (= federated histograms)"
_RANKED = ("accuracy", "roc_auc")
_FEWEST = 3  # seeds that a cell rests on
#: Column -> the method whose runs it is of, and where its figures stand.
_COLUMNS: dict[str, tuple[str, Callable[[Run, str], float | None]]] = {
    "alone": ("FedCT", lambda run, key: run["alone common"].get(key)),
    "FedKT": ("FedKT", lambda run, key: run["server"].get(key)),
    "FedCT": ("FedCT", lambda run, key: run["with common"].get(key)),
    "bagging": ("bagging, mean", lambda run, key: run["server"].get(key)),
    "bagging, best round": ("bagging, mean", lambda run, key: run["best round"].get(key)),
    "pooled forest": ("pooled forest", lambda run, key: run["server"].get(key)),
    "stacked": ("stacked", lambda run, key: run["server"].get(key)),
    "FedKT, known rows": ("FedKT, known rows", lambda run, key: run["server"].get(key)),
    _POOLED: ("FedKT", lambda run, key: run["pooled"].get(key)),
}
#: Data sets and columns that the page leaves to the file of all figures.
_LEFT_OUT = {"mushroom", "bagging, best round", "pooled forest", "FedKT, known rows"}


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


def tree_figures(root: Path, key: str, name: str = "trees") -> Iterator[tuple[str, str, dict[str, list[float]]]]:
    """Yield the table, the deal, and by column the values of the seeds that all methods of the record have."""
    found = _found(root, name)
    for table, deal in itertools.product(_TABLES, _DEALS):
        methods = {method: found.get(f"{table}, {deal}, {method}", {}) for method, _ in _COLUMNS.values()}
        done = [set(runs) for runs in methods.values() if len(runs) >= _FEWEST]
        seeds = sorted(set.intersection(*done)) if done else []
        values = {
            column: [of(methods[method][seed], key) for seed in seeds]
            for column, (method, of) in _COLUMNS.items()
            if len(methods[method]) >= _FEWEST
        }
        if values:
            yield table, deal, {column: [one for one in some if one is not None] for column, some in values.items()}


def tree_tables(root: Path, *keys: str, whole: bool = False) -> str:
    """Return a table of each of these figures: rows are data and deals, columns methods; ``whole`` of all of both."""
    found = list(_found(root, "trees").values())
    seeds = sorted({seed for runs in found for seed in runs})
    told = f"Means of {len(seeds)} seeds, {seeds[0]} to {seeds[-1]}, which chose nothing, ± the standard "
    parts = [
        f"{told}deviation. Five parties share 3,000 rows; 1,500 are public. Boosted models have 30 steps. "
        "Distributed XGBoost adds up the histograms that *pooled* is made of, so it equals it. *stacked* has the "
        "labels of 200 public rows."
        + (" AUC and log loss of *alone* are of parties that hold two classes." if len(keys) > 1 else "")
    ]
    left_out = set() if whole else _LEFT_OUT
    return "\n\n".join([*parts, *(_table(_FIGURES[key], tree_figures(root, key), left_out) for key in keys)])


def _table(
    title: str, figures: Iterable[tuple[str, str, dict[str, list[float]]]], left_out: Collection[str] = ()
) -> str:
    """Return one figure of all data and deals."""
    rows = [row for row in figures if row[0] not in left_out]
    columns = [column for column in rows[0][2] if column not in left_out]
    lines = [f"**{title}**", "", f"| data, deal | {' | '.join(columns)} |", "|---" * (1 + len(columns)) + "|"]
    for table, deal, values in rows:
        cells = " | ".join(_cell(values[column]) for column in columns)
        lines.append(f"| {_TABLES[table]}, {_DEALS[deal]} | {cells} |")
    return "\n".join(lines)


def rare_tables(root: Path, *keys: str, whole: bool = False) -> str:
    """Return the same where one row in a hundred is of the second class: in a table, or ``whole`` in one each."""
    found = [run for runs in _found(root, "trees-rare").values() for run in runs]
    told = (
        f"One row in a hundred is of the second class; seeds {min(found)} to {max(found)}. Five parties share 8,000 "
        "rows, with 80 of that class; 4,000 are public, 8,000 for tests."
    )
    by_key = {key: list(tree_figures(root, key, "trees-rare")) for key in keys}
    if whole:
        return "\n\n".join([told, *(_table(_FIGURES[key], rows) for key, rows in by_key.items())])
    columns = [column for column in by_key[keys[0]][0][2] if column not in _LEFT_OUT]
    names = "/".join(_FIGURES[key] for key in keys)
    lines = [f"| {names} | {' | '.join(columns)} |", "|---" * (1 + len(columns)) + "|"]
    for rows in zip(*by_key.values(), strict=True):
        cells = ["/".join(f"{statistics.fmean(values[column]):.3f}"[1:] for *_, values in rows) for column in columns]
        lines.append(f"| {_TABLES[rows[0][0]]}, {_DEALS[rows[0][1]]} | {' | '.join(cells)} |")
    return "\n".join([told, "", *lines])


# ---------------------------------------------------------------- what it tells


_LARGE = (", 1,200 rows", ", 4,800 rows")  # of a party, in place of 300


def member_table(root: Path) -> str:
    """Return how well the audit's attack tells members, by what leaves and data."""
    found = json.loads((root / "benchmarks" / "results" / "tree-leaks.json").read_text())["members"]
    tables = [table for table in _TABLES if any(key.startswith(f"{table}, ") for key in found)]
    seeds = [len(runs) for runs in found.values()]
    told = (
        "Members: AUC of [the audit's attack](attacks.md#who-was-a-member) with eight shadow runs, pooled over "
        f"{min(seeds)} seeds, with a 95 % interval. Two parties train on 300 rows of 600; 1,500 rows "
        "are public. *one model of all rows* is what histograms make, which themselves say more."
    )
    columns = [*(_TABLES[one] for one in tables), *(f"Adult{large}" for large in _LARGE)]
    others = ("drawn rows", "Dirichlet 0.5", *_LARGE)  # which sentences tell of
    lines = [told, "", f"| what leaves | {' | '.join(columns)} |", "|---" * (1 + len(columns)) + "|"]
    for method in dict.fromkeys(key.partition(", ")[2] for key in found if not key.endswith(others)):
        keys = [*(f"{table}, {method}" for table in tables), *(f"adult, {method}{large}" for large in _LARGE)]
        lines.append(f"| {method} | {' | '.join(_attack(found.get(key, {})) for key in keys)} |")
    return "\n".join(lines)


def _attack(runs: Mapping[str, Run]) -> str:
    """Return the mean AUC over runs with its 95 % interval, from those of the runs."""
    if len(runs) < _FEWEST:
        return ""
    mean = statistics.fmean(run["auc"][0] for run in runs.values())
    wide = sum(((run["auc"][2] - run["auc"][1]) / 2) ** 2 for run in runs.values()) ** 0.5 / len(runs)
    return f"{mean:.3f} ({mean - wide:.3f}–{mean + wide:.3f})".replace("0.", ".")


def value_table(root: Path) -> str:
    """Return what is read off trees about private cells, in per cent, means over seeds."""
    found = json.loads((root / "benchmarks" / "results" / "tree-leaks.json").read_text())["values"]
    tables = [table for table in _TABLES if table in found]
    counted = [run["bagging: trees"]["counted"] for table in tables for run in found[table].values()]
    told = (
        "Cells of a party's 300 rows that thresholds and paths tell, at least. *Spelt out*: of values no public row "
        "has, those that are a threshold. *Pinned*: some leaf's path holds the cell within a twentieth of the column's "
        "range. *Wrong*: such intervals without a private row: labels hold no cell. Flower's bagging also sends "
        f"hessian sums: they count the classes of {100 * min(counted):.0f} % of the rows in a first tree's leaves."
    )
    columns = {"not public": "spelt out", "pinned": "pinned", "empty": "wrong"}
    head = [f"{_TABLES[table]}: {word}" for table in tables for word in columns.values()]
    lines = [told, "", f"| per cent, read off | {' | '.join(head)} |", "|---" * (1 + len(head)) + "|"]
    for method in next(iter(found[tables[0]].values())):
        runs = [[run[method] for run in found[table].values()] for table in tables]
        cells = [f"{100 * statistics.fmean(run[key] for run in some):.1f}" for some in runs for key in columns]
        lines.append(f"| {method} | {' | '.join(cells)} |")
    return "\n".join(lines)


def cost_table(root: Path) -> str:
    """Return what a party sends and gets over the whole run, and in how many rounds, by method; iid parties."""
    found, methods = _found(root, "trees"), ("FedKT", "FedCT", "bagging, mean", "pooled forest")
    lines = ["| Adult, iid: method | rounds | KB sent by a party | KB it gets |", "|---|---|---|---|"]
    for method in methods:
        runs = list(found[f"adult, iid, {method}"].values())
        up, down = (statistics.fmean(run[f"bytes {way}"] for run in runs) / 1000 for way in ("up", "down"))
        lines.append(f"| {method.removesuffix(', mean')} | {runs[0]['rounds']} | {up:,.1f} | {down:,.1f} |")
    return "\n".join(lines)


def added_up_table(root: Path) -> str:
    """Return what bagging reaches whose leaves are added up as they are."""
    found = _found(root, "trees")
    lines = ["| Adult, bagging with leaves added up | last round: accuracy | AUC | best round: accuracy | AUC |"]
    lines.append("|---" * 5 + "|")
    for deal, name in _DEALS.items():
        runs = list(found[f"adult, {deal}, bagging, sum"].values())
        cells = [_cell([run[of][key] for run in runs]) for of in ("server", "best round") for key in _RANKED]
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


def hospital_table(root: Path, *, whole: bool = False) -> str:
    """Return how each method does on common rows, and at home: the mean hospital, or ``whole`` each too."""
    found = {name: list(runs.values()) for name, runs in _found(root, "hospitals").items() if name.startswith("drawn")}
    found = {name: runs for name, runs in found.items() if whole or not name.endswith("density ratios")}
    names = list(next(iter(found.values()))[0]["home"])
    told = (
        "At home FedKT, FedCT and noisy sums answer for the own class shares, the others as they were taught. *Clearly "
        "below*: by more than two standard errors."
    )
    head = ["method", "common rows: alone", "with", "AUC with", "home: alone", "with", "clearly below alone"]
    head += names if whole else []
    lines = [told, "", f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for name, runs in found.items():
        answer = [run.get("server") or run["with common"] for run in runs]
        homes = [[statistics.fmean(run["home"][who][i] for run in runs) for who in names] for i in (0, 1)]
        cells = [
            _cell([run["alone common"]["accuracy"] for run in runs]),
            _cell([one["accuracy"] for one in answer]),
            _cell([one["roc_auc"] for one in answer if "roc_auc" in one]),
            *(_cell([statistics.fmean(pair[i] for pair in run["home"].values()) for run in runs]) for i in (0, 1)),
            ", ".join(who for who in names if _below([run["home"][who] for run in runs])) or "none",
        ]
        if whole:
            cells += [f"{alone:.3f}→{after:.3f}".replace("0.", ".") for alone, after in zip(*homes, strict=True)]
        lines.append(f"| {name.removeprefix('drawn rows, ')} | {' | '.join(cells)} |")
    pooled = [run["pooled"] for run in found["drawn rows, FedKT, forests"]]
    values = [_cell([one[key] for one in pooled]) for key in ("accuracy", "roc_auc")]
    homes = [run["home"].values() for run in _found(root, "hospitals")["pooled rows, forests"].values()]
    alone, at_home = (_cell([statistics.fmean(pair[i] for pair in home) for home in homes]) for i in (0, 1))
    told = f"A forest of all rows pooled: {values[0]} on common rows, AUC {values[1]}; at home, for own class shares,"
    lines += ["", f"{told} {at_home} (alone {alone})."]
    return "\n".join(lines)


def _below(pairs: list[list[float]]) -> bool:
    """Tell whether the second of each pair is less by more than two standard errors of the difference."""
    gains = [after - before for before, after in pairs]
    return statistics.fmean(gains) < -2 * statistics.stdev(gains) / len(gains) ** 0.5


def left_out_table(root: Path) -> str:
    """Return how models of three hospitals do on the rows of the fourth."""
    found = _found(root, "hospitals")
    lines = ["| rows of | FedCT, mixed models: alone | with | AUC | pooled forest: with | AUC |", "|---" * 6 + "|"]
    for who in next(iter(found.values()))["201"]["home"]:
        mixed, forest = (
            found[f"without {who}, {method}"].values() for method in ("FedCT, mixed models", "pooled forest")
        )
        cells = [_cell([run["alone common"]["accuracy"] for run in mixed])]
        cells += [_cell([run["with common"][key] for run in mixed]) for key in _RANKED]
        cells += [_cell([run["server"][key] for run in forest]) for key in _RANKED]
        lines.append(f"| {who} | {' | '.join(cells)} |")
    return "\n".join(lines)

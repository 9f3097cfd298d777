"""One line for each run: the list that `fedkd runs list` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.report import results
from fedkd_flwr.report.formatting import columns, plain, share
from fedkd_flwr.report.status import run_status

__all__ = ["data_name", "main_figure", "run_line", "runs_text"]

_WHOSE = {"federated": "parties", "server": "server's model", "alone": "parties alone"}
_NAME = 18  # the longest name shown


def main_figure(record: RunRecord) -> dict[str, Any] | None:
    """Return the figure by which to list a run; None if nobody was tested yet.

    Its ``value`` is of parties their mean, ``figure`` is `fedkd_flwr.report.results.figure_used`, ``whose`` is
    ``federated``, else ``server``, else ``alone``, ``rows`` is a key of `fedkd_flwr.report.results.ROWS`, ``n`` is the
    number of test rows.
    """
    known = {(one.who, one.rows): one for one in results.figures(record)}
    for rows in results.ROWS:
        figure = results.figure_used(record, rows)
        for whose in _WHOSE:
            if (one := known.get((whose, rows))) and figure in one.means:
                return {"value": one.means[figure], "figure": figure, "whose": whose, "rows": rows, "n": one.n}
    return None


def data_name(config: Mapping[str, Any]) -> str:
    """Return the name of a run's data set: a file without its folder, or the data set's name; "" if not known.

    >>> data_name({"dataset": "table", "table": "/home/ann/clinic.csv"}), data_name({"dataset": "digits"})
    ('clinic.csv', 'digits')
    """
    if config.get("public-path"):
        return PurePath(str(config["public-path"])).name
    return PurePath(str(config.get("table", ""))).name or str(config.get("dataset", ""))


def run_line(record: RunRecord) -> dict[str, Any]:
    """Return the facts that the list shows of one run, as plain JSON types."""
    stands = run_status(record)
    return {
        "run_id": record.run_id,
        "name": str(record.config.get("name", "")),
        "started": record.started,
        "algorithm": record.algorithm,
        "data": data_name(record.config),
        "simulation": record.simulation,
        "parties": len(record.parties),
        "rounds": sum(one.ended for one in record.rounds),
        "status": stands.word,
        "sentence": stands.sentence,
        "seed": record.seed,
        "figure": main_figure(record),
    }


def runs_text(lines: Sequence[Mapping[str, Any]], width: int = 0) -> str:
    """Return the list of runs as plain text; of a record that cannot be read only its ``status`` is known.

    ``width``: a terminal's; columns are left out until the list fits. 0: all columns are shown.
    """
    table = [("id", "name", "started (UTC)", "algorithm", "data", "parties", "rounds", "status", "result")]
    for line in lines:
        table.append(
            (
                plain(line["run_id"]),
                plain(line.get("name", ""), _NAME),
                plain(line.get("started", "")).replace("T", " ")[:16],
                plain(line.get("algorithm", ""), _NAME),
                plain(line.get("data", ""), _NAME),
                str(line.get("parties", "")),
                str(line.get("rounds", "")),
                plain(line["status"]),
                _result(line),
            )
        )
    kept = [i for i, title in enumerate(table[0]) if title != "name" or any(row[i] for row in table[1:])]
    shown = columns([[row[i] for i in kept] for row in table])
    for i in (6, 5, 4, 3, 2):
        if not width or max(map(len, shown)) <= width:
            break
        kept.remove(i)
        shown = columns([[row[i] if i < 8 else row[i].partition(" (")[0] for i in kept] for row in table])
    return "\n".join(shown)


def _result(line: Mapping[str, Any]) -> str:
    if (found := line.get("figure")) is None:
        return plain(line.get("problem", "–"), 60)
    rows = "" if found["rows"] == "common" else " own"
    name = found["figure"].replace("_", " ")
    return f"{name} {share(found['value'])} ({_WHOSE[found['whose']]}, n = {found['n']:,}{rows})"

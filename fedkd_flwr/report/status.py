"""The state of a run: ended, running or killed, and how far it came; and one line for each run, as listed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Literal

from fedkd_flwr.processes.alive import still_runs
from fedkd_flwr.record.run_record import Doing, RunRecord
from fedkd_flwr.report import results
from fedkd_flwr.report.formatting import columns, count, plain, share

__all__ = ["Status", "Word", "data_name", "main_figure", "moment", "progress", "run_line", "run_status", "runs_text"]

Word = Literal["completed", "failed", "stopped", "waiting", "running", "killed", "not known"]
_ENDS: dict[str, Word] = {"completed": "completed", "failed": "failed", "stopped": "stopped", "waiting": "waiting"}


@dataclass(frozen=True, kw_only=True)
class Status:
    """The state of a run, in a word and in sentences."""

    # how it ended, as the run wrote it; else ``running`` or ``killed``, where this machine can see its process
    word: Word
    headline: str  # the same in a few words
    sentence: str  # the same in full: which rounds ended, and what was asked in a round that did not


def run_status(record: RunRecord, *, alive: bool | None = None, rounds_told: bool = True) -> Status:
    """Return the state of a run.

    ``record``: its record. Texts in it are made plain. ``alive``: whether the run's process still runs. By default this
    machine is asked, which may not know. ``rounds_told``: whether its rounds may be told (`RunRecord.length_told`).
    """
    where, far = (f" {_where(record)}", f": {progress(record)}") if rounds_told else ("", "")
    if record.status in _ENDS:
        word = _ENDS[record.status]
        verb = {"stopped": "was stopped", "waiting": "waits for answers by file"}.get(word, word)
        headline = f"This run {verb}{where if word != 'completed' else ''}"
        return Status(word=word, headline=headline, sentence=f"{headline}{far}.")
    runs = still_runs(record.process) if alive is None else alive
    at = f"at {moment(record.last_word)}" if record.last_word else "when this was written"
    if runs:
        headline = f"This run is going on{where}"
        return Status(word="running", headline=headline, sentence=f"{headline}{far}.")
    if runs is None:
        headline = f"It is not known how this run ended{where and f': it was last heard of{where}'}"
        text = f"This run had not ended {at}{where}{far}. Whether it still goes on cannot be seen from here."
        return Status(word="not known", headline=headline, sentence=text)
    headline = f"This run was killed{where}"
    text = f"{headline}: its process ended without a word after it wrote its record {at}{far}."
    return Status(word="killed", headline=headline, sentence=text)


def progress(record: RunRecord) -> str:
    """Return how many rounds ended, and what was asked in others, without a full stop."""
    if not record.rounds:
        if record.continues:
            return f"it asked no party for anything itself; it was to continue {plain(record.continues, 40)}"
        return "no party was asked for anything"
    ended = sum(one.ended for one in record.rounds)
    planned = f" of {record.num_rounds}" if record.num_rounds > ended else ""
    text = f"{ended}{planned} rounds ended" if planned or ended != 1 else "1 round ended"
    if (last := record.open_round) is not None:
        at = f" at {moment(last.asked_at)[11:]}" if last.asked_at else ""
        text += f"; round {last.server_round} began with {count(last.asked, 'party', 'parties')}{at}, "
        counted = last.answered or last.rejected  # it failed for what was answered, or for who did not
        text += f"{len(last.answered)} of which answered validly" if counted else "and their answers may have left them"
    if record.final_asked:
        text += f"; the final result was on its way to {count(record.final_asked, 'party', 'parties')}"
    return text


def moment(text: str) -> str:
    """Return an ISO 8601 time of UTC without its fraction of a second.

    >>> moment("2026-11-22T10:12:05.123+00:00")
    '2026-11-22 10:12:05 UTC'
    """
    return f"{plain(text)[:19].replace('T', ' ')} UTC"


def _where(record: RunRecord) -> str:
    """Return at which step of the run its record was last written."""
    if (last := record.open_round) is not None:
        return f"in round {last.server_round}"
    if record.doing == Doing.ROUNDS and record.rounds:
        return f"after round {record.rounds[-1].server_round}"
    if record.doing == Doing.FINAL:
        return "while the final result went to the parties"
    if record.doing == Doing.AFTER:
        return "after the exchange, while its models were measured and kept"
    return "before the first round" if not record.rounds else f"after {count(len(record.rounds), 'round')}"


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

    >>> data_name({"tables": "/home/ann/north.csv,/home/ann/south.csv"}), data_name({"dataset": "digits"})
    ('north.csv, ...', 'digits')
    """
    if config.get("public-path"):
        return PurePath(str(config["public-path"])).name
    one, *others = [str(config["table"])] if config.get("table") else str(config.get("tables") or "").split(",")
    return PurePath(one).name + (", ..." if others else "") or str(config.get("dataset", ""))


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
        name, algorithm, data = (plain(line.get(key, ""), _NAME) for key in ("name", "algorithm", "data"))
        started = plain(line.get("started", "")).replace("T", " ")[:16]
        counts = str(line.get("parties", "")), str(line.get("rounds", ""))
        status, result = plain(line["status"]), _result(line)
        table.append((plain(line["run_id"]), name, started, algorithm, data, *counts, status, result))
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

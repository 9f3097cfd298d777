"""The state of a run: ended, running or killed, how far it came, and what may have left the parties."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fedkd_flwr.processes.alive import still_runs
from fedkd_flwr.record.run_record import Doing, RunRecord
from fedkd_flwr.report.formatting import count, plain

__all__ = ["Status", "Word", "moment", "progress", "run_status"]

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

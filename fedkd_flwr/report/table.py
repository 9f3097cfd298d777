"""The plain-text table at the end of a run's log: at most 100 columns wide, without colours.

Only what a reader may copy is wider: a word such as a path, and a command, which stands on a line of its own.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.report import claims, results, tables
from fedkd_flwr.report.formatting import columns, plain, rounds_text, share
from fedkd_flwr.report.model_warnings import kinds_of_warnings
from fedkd_flwr.report.recommendation import losers_warning
from fedkd_flwr.report.results import SIMULATION_ONLY
from fedkd_flwr.report.sentences import note_sentence
from fedkd_flwr.report.status import run_status
from fedkd_flwr.report.summary import left_out, summary

__all__ = ["footer", "notes", "summary_table", "warnings"]

WIDTH = 100
_MANY_PARTIES = 12  # of more parties than this only the best, the median and the worst are listed
_MANY_NOTES = 12  # further notes are counted, not printed


def summary_table(record: RunRecord) -> str:
    """Return a run's result as lines of at most 100 characters (but for commands), without a line break at the end.

    A number that the record does not hold is written as a dash.

    >>> print(summary_table(RunRecord(run_id="7", algorithm="fedct", status="completed")).splitlines()[1])
    fedct, run 7: completed
    """
    stands = run_status(record)
    lines = ["═" * WIDTH, *_wrapped("", f"{_title(record)}: {stands.word}")]
    if stands.word != "completed":
        lines += _wrapped("", stands.sentence)
    if record.reason:
        lines += _wrapped("reason: ", record.reason)
    for _, warning in _of_models(record):
        lines += _wrapped("WARNING: ", warning)
    lines.append("─" * WIDTH)
    for label, value in _figures(record):
        lines += _wrapped(f"{label:<26}", value)
    if record.parties:
        lines += ["─" * WIDTH, *_parties(record)]
    if metrics := _metrics(record):
        lines += ["─" * WIDTH, *metrics]
    lines += ["─" * WIDTH, *footer(record), "═" * WIDTH]
    return "\n".join(lines)


def _title(record: RunRecord) -> str:
    """Return algorithm and run; a strategy started by itself knows of no run."""
    return plain(record.algorithm) + (f", run {plain(record.run_id)}" if record.run_id else "")


def warnings(record: RunRecord) -> list[tuple[str, str]]:
    """Return all warnings of the table: who loses on own rows, useless models, and claims that are not proven.

    Beside each text stands what the same warning of another run has too, whatever its numbers are.
    """
    unproven = claims.unproven(claims.ordered(record.claims))
    return [*_of_models(record), *((text, text) for text in unproven)]


def notes(record: RunRecord) -> list[tuple[str, str]]:
    """Return the notes about the run, and those about single parties with their names; each as `warnings` does."""
    found = [(note.kind, note_sentence(note)) for note in record.notes]
    for party in record.parties:
        name = plain(party.name, 40)
        found += [(f"{name} {note.kind}", f"{name}: {note_sentence(note)}") for note in party.notes]
    return found


def _of_models(record: RunRecord) -> list[tuple[str, str]]:
    lost = losers_warning(record)
    return [*([("losers", lost)] if lost else []), *kinds_of_warnings(record)]


def _figures(record: RunRecord) -> Iterator[tuple[str, str]]:
    """Yield (label, value) for each line of the table's upper part."""
    group = ""
    for line in summary(record):
        if line.group and line.group != group:
            rows = line.group.rpartition(", ")[2].removesuffix(" rows")
            name = line.group if line.group.startswith("accuracy") else line.group.rpartition(", ")[0]
            yield name, f"on {results.ROWS[rows]}: mean (lowest to highest party)"
        group = line.group
        indent = "  " if group or line.label.startswith("final ") else ""
        value = f"{line.first}, last {line.value}" if line.first else line.value
        yield f"{indent}{line.label}", f"{value} {line.note}".strip()


def _metrics(record: RunRecord) -> list[str]:
    """Return one line for each kind of model and of test rows, with all figures; none where only accuracy is known."""
    found = results.figures(record)
    if not any(one.means.keys() - {"accuracy"} for one in found):
        return []
    table = tables.metrics(record, {one.who: one.who for one in found})
    return columns([table.header, *table.rows], left=1)


def _parties(record: RunRecord) -> list[str]:
    """Return one line per party, or, of many parties, those of the best, the median and the worst."""
    rows = results.rows_used(record)
    figure = results.figure_used(record, rows)
    chosen = [("", p) for p in record.parties]
    if len(chosen) > _MANY_PARTIES:
        known = [(results.known(p.federated or p.solo, rows, figure), p) for p in record.parties]
        ranked = [p for _, p in sorted(known, key=lambda one: -1.0 if one[0] is None else one[0])]
        chosen = [("best: ", ranked[-1]), ("median: ", ranked[len(ranked) // 2]), ("worst: ", ranked[0])]
    more = [(rows, name, results.FIGURES[name]) for name in results.OF_NUMBERS[1:] if figure == "r2"]
    if rows == "common" and figure != "r2" and any("own" in {**p.federated, **p.solo} for p in record.parties):
        more = [("own", figure, "own")]
    name = "party" if figure == "accuracy" else f"party ({figure.replace('_', ' ')})"
    body = [[name, "model", "rows", "alone", "with fed.", "gain"]]
    body[0] += [f"{short} {kind}" for *_, short in more for kind in ("alone", "with")]
    for prefix, party in chosen:
        both = (party.solo, party.federated)
        alone, after = (results.known(one, rows, figure) for one in both)
        gain = "–" if alone is None or after is None else f"{after - alone:+.3f}"
        body.append([plain(prefix + party.name, 26), plain(party.model, 22), f"{sum(party.class_counts):,}"])
        body[-1] += [share(alone), share(after), gain]
        body[-1] += [results.written(results.known(one, on, which), which) for on, which, _ in more for one in both]
    lines = columns(body, left=2)
    counted = all(party.class_counts for party in record.parties)  # in a simulation alone
    return (
        lines if counted and max(map(len, lines)) <= WIDTH else columns([[*row[:2], *row[3:]] for row in body], left=2)
    )


def footer(record: RunRecord) -> Iterator[str]:
    """Yield privacy statements, parties that were left out, and notes."""
    if not record.claims and record.rounds:
        yield f"privacy: none: {claims.no_claim(record)}"
    elif not record.claims:
        yield from _wrapped("privacy: ", claims.unprotected(record)[0])
    found = claims.ordered(record.claims)
    for warning in claims.unproven(found):
        yield from _wrapped("WARNING: ", warning)
    for claim in found:
        cells = claims.claim_cells(claim)
        whose = "privacy: " if claims.public(claim) else "privacy (OPERATOR ONLY): "
        yield from _wrapped(whose, "; ".join(f"{key}: {value}" for key, value in cells.items()))
    for sentence in claims.trust(found):
        yield from _wrapped("privacy: ", sentence)
    if results.simulation_only(record) and any(p.solo or p.federated for p in record.parties):
        yield from _wrapped("note: ", f"the parties' accuracies are {SIMULATION_ONLY}.")
    gone = left_out(record)
    for entry in gone[:_MANY_NOTES]:
        cause = f": {entry.failure}" if entry.failure else ""
        yield from _wrapped("left out: ", f"{entry.who} in {rounds_text(entry.rounds)}: {entry.code}{cause}")
    if len(gone) > _MANY_NOTES:
        yield f"left out: {len(gone) - _MANY_NOTES} more are in the record"
    said = notes(record)
    for _, note in said[:_MANY_NOTES]:
        yield from _wrapped("note: ", note)
    if len(said) > _MANY_NOTES:
        yield f"note: {len(said) - _MANY_NOTES} more are in the record"


def _wrapped(label: str, text: str) -> list[str]:
    """Return ``label`` and ``text`` as lines, later ones indented; words are whole, and a last command has its own."""
    indent = " " * len(label)
    text = plain(" ".join(text.split()))
    before, colon, command = text.partition(": fedkd ")
    alone = bool(colon) and ". " not in command  # else sentences follow
    found = textwrap.wrap(
        f"{before}:" if alone else text,
        WIDTH,
        initial_indent=label,
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=False,
    )
    return (found or [label.rstrip()]) + ([f"{indent}fedkd {command}"] if alone else [])

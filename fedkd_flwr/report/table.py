"""The plain-text table a run's log ends with: at most 100 columns wide, for a terminal without colours."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from fedkd_flwr.report import claims, facts, words
from fedkd_flwr.report.facts import ROWS, SIMULATION_ONLY, plain, share, size
from fedkd_flwr.run_record import PartyRecord, RunRecord

__all__ = ["NO_PRIVACY", "summary_table"]

WIDTH = 100
NO_PRIVACY = "privacy: none: labels are shared as they are (no noise)"
_MANY_PARTIES = 12  # more than these, and only best, median and worst are listed
_MANY_NOTES = 12


def summary_table(record: RunRecord) -> str:
    """Return a run's result as text: no line is wider than 100 characters, none ends in a line break.

    Parameters
    ----------
    record : RunRecord
        A finished or failed run. Numbers it does not hold are written as a dash.

    Examples
    --------
    >>> print(summary_table(RunRecord(run_id="7", algorithm="fedct", status="completed")).splitlines()[1])
    fedct, run 7: completed
    """
    lines = [
        "═" * WIDTH,
        *_wrapped("", f"{plain(record.algorithm)}, run {plain(record.run_id)}: {plain(record.status)}"),
    ]
    if record.reason:
        lines += _wrapped("reason: ", record.reason)
    lines.append("─" * WIDTH)
    for label, value in _figures(record):
        lines += _wrapped(f"{label:<26}", value)
    if record.parties:
        lines += ["─" * WIDTH, *_parties(record)]
    lines += ["─" * WIDTH, *_footer(record), "═" * WIDTH]
    return "\n".join(lines)


def _figures(record: RunRecord) -> Iterator[tuple[str, str]]:
    """Yield (label, value) for each line of the upper part."""
    yield "parties", facts.answered(record)
    yield "rounds", str(len(record.rounds))
    for label, values in (
        ("agreement", [r.agreement for r in record.rounds]),
        ("labelled share", [r.labelled_share for r in record.rounds]),
        ("consensus accuracy", [r.consensus_accuracy for r in record.rounds]),
        ("replaced by noise", [None if r.kept_share is None else 1 - r.kept_share for r in record.rounds]),
        ("server's model, rounds", facts.server_accuracies(record) if len(record.rounds) > 1 else []),
    ):
        if any(facts.is_number(v) for v in values):
            later = f"first round {share(values[0])}, last {share(values[-1])}"
            yield label, later if len(values) > 1 else share(values[0])
    for rows, where in ROWS.items():
        both = facts.pairs(record, rows)
        alone = facts.spread(a for _, a, _ in both) or facts.spread(p.solo.get(rows) for p in record.parties)
        after = facts.spread(b for _, _, b in both) or facts.spread(p.federated.get(rows) for p in record.parties)
        if alone or after:
            yield f"accuracy, {rows} rows", f"on {where}: mean (lowest to highest party)"
        if alone:
            yield "  alone (SOLO)", alone.text()
        if after:
            gain = sum(b > a for _, a, b in both)
            tail = f"; better than alone: {gain} of {facts.count(len(both), 'party', 'parties')}" if both else ""
            yield "  with the federation", after.text() + tail
    if record.server_accuracy is not None or record.server_model:
        name = f" ({plain(record.server_model)})" if record.server_model else ""
        yield "server's model", share(record.server_accuracy) + name
    if record.centralised is not None:
        name = f"{plain(record.centralised_model)} on " if record.centralised_model else "on "
        yield "centralised", f"{share(record.centralised)} ({name}all private rows pooled: simulation only)"
    yield from _bytes(record)
    started = f" (start-up apart: {facts.time_span(record.startup_seconds)})"
    yield "time", facts.time_span(record.seconds) + (started if record.startup_seconds > 0 else "")


def _bytes(record: RunRecord) -> Iterator[tuple[str, str]]:
    sent = facts.traffic(record)
    if sent.up is not None or sent.down is not None:
        later = ""
        if sent.up_later is not None:
            later = f" (up: {size(sent.up_first)} in the first round, {size(sent.up_later)} later)"
        yield "bytes a party and round", f"{size(sent.up)} up, {size(sent.down)} down{later}"
    if record.final_bytes_down and record.parties:
        yield "  final labels", f"{size(record.final_bytes_down / len(record.parties))} down a party, once"
    model, averageable = facts.model_sharing(record)
    if model is not None:
        rival = "FedAvg of the same model" if averageable else "the model itself; FedAvg cannot average it"
        yield "  sharing models instead", f"{size(model)} up, {size(model)} down ({rival})"


def _parties(record: RunRecord) -> list[str]:
    """Return the rows of the parties, or of the best, median and worst of many."""
    rows = facts.rows_used(record)
    chosen: list[tuple[str, PartyRecord]]
    if len(record.parties) <= _MANY_PARTIES:
        chosen = [("", p) for p in record.parties]
    else:
        ranked = sorted(record.parties, key=lambda p: _known(p.federated.get(rows, p.solo.get(rows))))
        chosen = [
            ("best: ", ranked[-1]),
            ("median: ", ranked[len(ranked) // 2]),
            ("worst: ", ranked[0]),
        ]
    own = rows == "common" and any("own" in p.federated or "own" in p.solo for p in record.parties)
    header = ["party", "model", "alone", "with fed.", "gain"] + (["own alone", "own with"] if own else [])
    body = [header]
    for prefix, party in chosen:
        alone, after = party.solo.get(rows), party.federated.get(rows)
        cells = [plain(prefix + party.name, 26), plain(party.model, 22), share(alone), share(after)]
        both = facts.is_number(alone) and facts.is_number(after)
        cells.append(f"{after - alone:+.3f}" if both else "–")  # type: ignore[operator]
        if own:
            cells += [share(party.solo.get("own")), share(party.federated.get("own"))]
        body.append(cells)
    return _aligned(body)


def _known(value: float | None) -> float:
    return value if value is not None and facts.is_number(value) else -1.0


def _aligned(body: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as lines: the first two columns to the left, numbers to the right."""
    widths = [max(len(row[i]) for row in body) for i in range(len(body[0]))]
    return [
        "  ".join(
            f"{cell:<{width}}" if i < 2 else f"{cell:>{width}}"
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in body
    ]


def _footer(record: RunRecord) -> Iterator[str]:
    """Yield privacy, left-out parties and notes: what a reader of the numbers must not miss."""
    if not record.claims and record.rounds:
        yield NO_PRIVACY
    elif not record.claims:
        yield from _wrapped("privacy: ", words.unprotected(record)[0])
    found = claims.ordered(record.claims)
    for warning in claims.unproven(found):
        yield from _wrapped("WARNING: ", warning)
    for claim in found:
        cells = claims.claim_cells(claim)
        whose = "privacy: " if claims.public(claim) else "privacy (OPERATOR ONLY): "
        yield from _wrapped(whose, "; ".join(f"{key}: {value}" for key, value in cells.items()))
    for sentence in (*claims.trust(found), *claims.noise_effect(record)):
        yield from _wrapped("privacy: ", sentence)
    if facts.simulation_only(record) and any(p.solo or p.federated for p in record.parties):
        yield from _wrapped("note: ", f"the parties' accuracies are {SIMULATION_ONLY}.")
    gone = facts.left_out(record)
    for entry in gone[:_MANY_NOTES]:
        yield from _wrapped("left out: ", f"{entry.who} in {facts.rounds_text(entry.rounds)}: {entry.code}")
    if len(gone) > _MANY_NOTES:
        yield f"left out: {len(gone) - _MANY_NOTES} more are in the record"
    notes = list(dict.fromkeys(record.notes))
    for party in record.parties:
        notes += [f"{plain(party.name, 40)}: {note}" for note in party.notes]
    for note in notes[:_MANY_NOTES]:
        yield from _wrapped("note: ", note)
    if len(notes) > _MANY_NOTES:
        yield f"note: {len(notes) - _MANY_NOTES} more are in the record"


def _wrapped(label: str, text: str) -> list[str]:
    """Return ``label`` and ``text``, continued below the text's first column."""
    indent = " " * len(label)
    found = textwrap.wrap(plain(" ".join(text.split())), WIDTH, initial_indent=label, subsequent_indent=indent)
    return found or [label.rstrip()]

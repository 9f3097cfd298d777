"""The plain-text table at the end of a run's log: at most 100 columns wide, without colours.

Only what a reader may copy is wider: a word such as a path, and a command, which stands on a line of its own.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping

from fedkd_flwr.metrics import Metrics
from fedkd_flwr.record.run_record import PartyRecord, RunRecord
from fedkd_flwr.report import claims, derived, run_privacy
from fedkd_flwr.report.derived import ROWS, SIMULATION_ONLY
from fedkd_flwr.report.formatting import count, is_number, plain, rounds_text, share, size, time_span
from fedkd_flwr.report.home import home_warning
from fedkd_flwr.report.public_set import agreement_line, consensus_line, fit_line
from fedkd_flwr.report.reasons import note_sentence
from fedkd_flwr.report.standing import progress, standing
from fedkd_flwr.report.useless import useless
from fedkd_flwr.terminal import columns

__all__ = ["notes", "summary_table", "warnings"]

WIDTH = 100
_MANY_PARTIES = 12  # of more parties than this only the best, the median and the worst are listed
_MANY_NOTES = 12  # further notes are counted, not printed


def summary_table(record: RunRecord) -> str:
    """Return a run's result as lines of at most 100 characters (but for commands), without a line break at the end.

    Parameters
    ----------
    record : RunRecord
        The record of a finished or failed run. A number it does not hold is written as a dash.

    Examples
    --------
    >>> print(summary_table(RunRecord(run_id="7", algorithm="fedct", status="completed")).splitlines()[1])
    fedct, run 7: completed
    """
    stands = standing(record)
    lines = ["═" * WIDTH, *_wrapped("", f"{plain(record.algorithm)}, run {plain(record.run_id)}: {stands.word}")]
    if stands.word != "completed":
        lines += _wrapped("", stands.sentence)
    if record.reason:
        lines += _wrapped("reason: ", record.reason)
    for warning in _of_models(record):
        lines += _wrapped("WARNING: ", warning)
    lines.append("─" * WIDTH)
    for label, value in _figures(record):
        lines += _wrapped(f"{label:<26}", value)
    if record.parties:
        lines += ["─" * WIDTH, *_parties(record)]
    if metrics := _metrics(record):
        lines += ["─" * WIDTH, *metrics]
    lines += ["─" * WIDTH, *_footer(record), "═" * WIDTH]
    return "\n".join(lines)


def warnings(record: RunRecord) -> list[str]:
    """Return all warnings of the table: who loses at home, models that are no use, and claims that are not proven."""
    return [*_of_models(record), *run_privacy.unproven(claims.ordered(record.claims))]


def notes(record: RunRecord) -> list[str]:
    """Return the notes about the run, and those about single parties with their names."""
    found = list(dict.fromkeys(record.notes))
    for party in record.parties:
        found += [f"{plain(party.name, 40)}: {note_sentence(note)}" for note in party.notes]
    return found


def _of_models(record: RunRecord) -> list[str]:
    lost = home_warning(record)
    return [*([lost] if lost else []), *useless(record)]


def _figures(record: RunRecord) -> Iterator[tuple[str, str]]:
    """Yield (label, value) for each line of the table's upper part."""
    yield "parties", derived.answered(record)
    yield "rounds", str(len(record.rounds)) if record.status == "completed" else progress(record)
    if line := consensus_line(record):
        yield "consensus", line
    if line := fit_line(record):
        yield "public set fit", line
    rounds = derived.heard(record)
    for label, values in (
        ("agreement", [r.agreement for r in rounds]),
        ("labelled share", [r.labelled_share for r in rounds]),
        ("consensus accuracy", [r.consensus_accuracy for r in rounds]),
        ("replaced by noise", [None if r.kept_share is None else 1 - r.kept_share for r in rounds]),
        ("server model's accuracy", [r.server_accuracy for r in rounds] if len(rounds) > 1 else []),
    ):
        if any(is_number(v) for v in values):
            ends = [rounds[0], rounds[-1]] if label == "consensus accuracy" else []
            of = [f" of {found[1]}" if (found := derived.consensus_rows(record, r)) else "" for r in ends] or [""] * 2
            later = f"first round {share(values[0])}{of[0]}, last {share(values[-1])}{of[1]}"
            yield label, later if len(values) > 1 else share(values[0]) + of[0]
    if line := agreement_line(record):
        yield "agreement by party", line
    for rows, where in ROWS.items():
        figure = derived.figure_used(record, rows)
        both = derived.pairs(record, rows, figure)
        alone = derived.spread(a for _, a, _ in both)
        alone = alone or derived.spread(derived.known(p.solo, rows, figure) for p in record.parties)
        after = derived.spread(b for _, _, b in both)
        after = after or derived.spread(derived.known(p.federated, rows, figure) for p in record.parties)
        if alone or after:
            label = f"accuracy, {rows} rows" if figure == "accuracy" else figure.replace("_", " ")
            yield label, f"on {where}: mean (lowest to highest party)"
        if alone:
            yield "  alone (SOLO)", alone.text()
        if after:
            gain = sum(b > a for _, a, b in both)
            worse = sum(b < a for _, a, b in both)
            tail = f"; better than alone: {gain} of {count(len(both), 'party', 'parties')}" if both else ""
            tail += f", worse: {worse}" if worse else ""
            yield "  with the federation", after.text() + tail
        gains = [more for p in record.parties if (more := derived.own_gain(p, rows, figure)) is not None]
        if gains and (wide := derived.spread(derived.known(p.extended, rows, figure) for p in record.parties)):
            helped, lost = sum(more > 0 for more in gains), sum(more < 0 for more in gains)
            tail = f"; gain {sum(gains) / len(gains):+.4f}; better: {helped} of {count(len(gains), 'party', 'parties')}"
            yield "  with own columns too", wide.text() + tail + (f", worse: {lost}" if lost else "")
    if "common" in record.server or record.server_model:
        name = f" ({plain(record.server_model)})" if record.server_model else ""
        yield "server's model", _reached(record, record.server) + name
    if "common" in record.centralised:
        name = f"{plain(record.centralised_model)} on " if record.centralised_model else "on "
        pooled = f" ({name}all private rows pooled: simulation only)"
        yield "centralised", _reached(record, record.centralised) + pooled
    if (fixed := derived.figures(record)) and "baseline" in fixed[0].means:
        answer = "accuracy of always answering the commonest class"
        on = f"{fixed[0].n:,} {fixed[0].rows} test rows{derived.rarest_rows(record, fixed[0].rows)}"
        yield "baseline", f"{share(fixed[0].means['baseline'])} ({answer}; {on}){_own_baseline(record, fixed[0].rows)}"
    yield from _bytes(record)
    started = f" (start-up apart: {time_span(record.startup_seconds)})"
    yield "time", time_span(record.seconds) + (started if record.startup_seconds > 0 else "")


def _reached(record: RunRecord, measured: Mapping[str, Metrics]) -> str:
    """Return a model's figures on the common test rows: balanced accuracy first where that leads."""
    accuracy = share(derived.known(measured, "common"))
    if (figure := derived.figure_used(record, "common")) == "accuracy":
        return accuracy
    return f"{figure.replace('_', ' ')} {share(derived.known(measured, 'common', figure))}, accuracy {accuracy}"


def _own_baseline(record: RunRecord, rows: str) -> str:
    """Return what one fixed answer reaches on own rows, by the figure that leads there; nothing where it was said."""
    balanced = derived.figure_used(record, "own") == "balanced_accuracy"
    reached = derived.fixed_answer(record, "own") if balanced else derived.baseline(record, "own")
    if reached is None or (rows == "own" and not balanced):
        return ""
    figure = "balanced accuracy of one fixed answer" if balanced else "mean over parties"
    return f"; on own rows {reached:.3f} ({figure})"


def _class(record: RunRecord, c: int) -> str:
    return plain(derived.class_name(record.classes, c), 40)


def _metrics(record: RunRecord) -> list[str]:
    """Return one line for each kind of model and of test rows, with all figures; none where only accuracy is known."""
    found = derived.figures(record)
    if not any(one.means.keys() - {"accuracy"} for one in found):
        return []
    header = ["metrics (means)", "n", *derived.FIGURES.values()]
    body = [
        [f"{one.who}, {one.rows}", f"{one.n:,}", *(share(one.means.get(f)) for f in derived.FIGURES)] for one in found
    ]
    ranked = record.num_classes == 2 and any(one.means.keys() & {"roc_auc", "average_precision"} for one in found)
    which = [f"AUC and AP are of class '{_class(record, 1)}'."] if ranked else []
    partly = derived.of_fewer(found, {one.who: one.who for one in found})
    if any(one.rows == "own" and one.who in ("server", "centralised") for one in found):
        which.append(
            "Own rows: of parties' models the mean over parties, of the server's and the centralised model all these "
            "rows together; balanced accuracies and baselines of the two kinds cannot be compared."
        )
    return columns([header, *body], left=1) + [line for text in (*partly, *which) for line in _wrapped("", text)]


def _bytes(record: RunRecord) -> Iterator[tuple[str, str]]:
    sent = derived.traffic(record)
    if sent.up is not None or sent.down is not None:
        later = ""
        if sent.up_later is not None:
            later = f" (up: {size(sent.up_first)} in the first round, {size(sent.up_later)} later)"
        yield "bytes a party and round", f"{size(sent.up)} up, {size(sent.down)} down{later}"
    if record.final_bytes_down and record.parties:
        yield (
            f"  final {derived.final_result(record)}",
            f"{size(record.final_bytes_down / len(record.parties))} down a party, once",
        )
    model, averageable = derived.model_sharing(record)
    if model is not None:
        rival = "FedAvg of the same model" if averageable else "the model itself; FedAvg cannot average it"
        yield "  sharing models instead", f"{size(model)} up, {size(model)} down ({rival})"


def _parties(record: RunRecord) -> list[str]:
    """Return one line per party, or, of many parties, those of the best, the median and the worst."""
    rows = derived.rows_used(record)
    figure = derived.figure_used(record, rows)
    chosen: list[tuple[str, PartyRecord]]
    if len(record.parties) <= _MANY_PARTIES:
        chosen = [("", p) for p in record.parties]
    else:
        ranked = sorted(record.parties, key=lambda p: _known(derived.known(p.federated or p.solo, rows, figure)))
        chosen = [("best: ", ranked[-1]), ("median: ", ranked[len(ranked) // 2]), ("worst: ", ranked[0])]
    own = rows == "common" and any("own" in p.federated or "own" in p.solo for p in record.parties)
    name = "party" if figure == "accuracy" else f"party ({figure.replace('_', ' ')})"
    wide = any(p.extended for p in record.parties)
    header = [name, "model", "alone", "with fed.", "gain"] + (["own alone", "own with"] if own else [])
    header += ["own columns", "with them", "gain"] if wide else []
    body = [header]
    for prefix, party in chosen:
        alone, after = (derived.known(one, rows, figure) for one in (party.solo, party.federated))
        cells = [plain(prefix + party.name, 26), plain(party.model, 22), share(alone), share(after)]
        both = is_number(alone) and is_number(after)
        cells.append(f"{after - alone:+.3f}" if both else "–")  # type: ignore[operator]
        if own:
            cells += [share(derived.known(one, "own", figure)) for one in (party.solo, party.federated)]
        if wide:
            added = derived.own_gain(party, rows, figure)
            after = derived.known(party.extended, rows, figure)
            cells += [plain(", ".join(party.own_columns), 40) or "–", share(after)]
            cells.append("–" if added is None else f"{added:+.3f}")
        body.append(cells)
    return columns(body, left=2)


def _known(value: float | None) -> float:
    return value if value is not None and is_number(value) else -1.0


def _footer(record: RunRecord) -> Iterator[str]:
    """Yield privacy statements, parties that were left out, and notes."""
    if not record.claims and record.rounds:
        yield f"privacy: none: {run_privacy.no_claim(record)}"
    elif not record.claims:
        yield from _wrapped("privacy: ", run_privacy.unprotected(record)[0])
    found = claims.ordered(record.claims)
    for warning in run_privacy.unproven(found):
        yield from _wrapped("WARNING: ", warning)
    for claim in found:
        cells = claims.claim_cells(claim)
        whose = "privacy: " if claims.public(claim) else "privacy (OPERATOR ONLY): "
        yield from _wrapped(whose, "; ".join(f"{key}: {value}" for key, value in cells.items()))
    for sentence in (*run_privacy.trust(found), *run_privacy.noise_effect(record)):
        yield from _wrapped("privacy: ", sentence)
    if derived.simulation_only(record) and any(p.solo or p.federated for p in record.parties):
        yield from _wrapped("note: ", f"the parties' accuracies are {SIMULATION_ONLY}.")
    gone = derived.left_out(record)
    for entry in gone[:_MANY_NOTES]:
        cause = f": {entry.failure}" if entry.failure else ""
        yield from _wrapped("left out: ", f"{entry.who} in {rounds_text(entry.rounds)}: {entry.code}{cause}")
    if len(gone) > _MANY_NOTES:
        yield f"left out: {len(gone) - _MANY_NOTES} more are in the record"
    said = notes(record)
    for note in said[:_MANY_NOTES]:
        yield from _wrapped("note: ", note)
    if len(said) > _MANY_NOTES:
        yield f"note: {len(said) - _MANY_NOTES} more are in the record"


def _wrapped(label: str, text: str) -> list[str]:
    """Return ``label`` and ``text`` as lines, the later ones indented to the text's first column.

    No word is broken, and a command that ends the text has a line of its own: both can be copied.
    """
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

"""The most important figures of a run: the upper part of its table, and the boxes at the top of its page.

Who answered, who was left out and why, and how many bytes travelled are among them.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fedkd_flwr.metrics import Metrics
from fedkd_flwr.record.run_record import RoundRecord, RunRecord
from fedkd_flwr.report import results
from fedkd_flwr.report.formatting import count, is_number, plain, share, size, time_span

__all__ = ["LeftOut", "Line", "answered", "consensus_line", "known_rounds", "left_out", "summary", "traffic"]


@dataclass(frozen=True)
class Line:
    """One figure of a run."""

    # label, value, note: What it is, the figure, and what else must be known of it
    label: str
    value: str
    note: str = ""
    first: str = ""  # the same in the first round, where the figure is of the last one
    group: str = ""  # what several lines are about, such as ``accuracy, common rows``


def summary(record: RunRecord, *, publishable: bool = False) -> Iterator[Line]:
    """Yield the most important figures; a figure that is not known is left out."""
    hidden = publishable and not record.length_told  # only the first round is in the record
    yield Line("parties", answered(record), "in the first round" if hidden and record.rounds else "")
    if not hidden:
        planned = "" if record.status == "completed" or not record.num_rounds else f" of {record.num_rounds}"
        yield Line("rounds", f"{sum(r.ended for r in record.rounds)}{planned}")
    if record.consensus_rule:
        yield Line("consensus", consensus_line(record))
    if line := _by_party([(p.name, p.public_fit) for p in record.parties]):
        yield Line("public set fit", line)
    yield from _over_rounds(record)
    if line := _by_party([(p.name, p.agreement) for p in record.parties]):
        yield Line("lowest agreement by party", line)
    for rows in results.ROWS:
        yield from _of_parties(record, rows)
    if "common" in record.server or record.server_model:
        name = f"({plain(record.server_model)})" if record.server_model else ""
        yield Line("server's model", _reached(record, record.server), name)
    if "common" in record.centralised:
        name = f"{plain(record.centralised_model)} on " if record.centralised_model else "on "
        pooled = f"({name}all private rows pooled: simulation only)"
        yield Line("centralised", _reached(record, record.centralised), pooled)
    numbers = results.figure_used(record, results.rows_used(record)) == "r2"
    if (fixed := results.figures(record)) and "baseline" in fixed[0].means and not numbers:
        note = f"(accuracy of always answering the commonest class; {fixed[0].n:,} {fixed[0].rows} test rows)"
        yield Line("baseline", share(fixed[0].means["baseline"]), note)
    yield from _bytes(record)
    started = f"(start-up apart: {time_span(record.startup_seconds)})" if record.startup_seconds > 0 else ""
    yield Line("time", time_span(record.seconds), started)


def consensus_line(record: RunRecord) -> str:
    """Return which rule made the consensus, and why; "" where none was chosen."""
    rule, reason = record.consensus_rule, record.consensus_reason
    return f"{rule}: {reason}" if rule and reason else str(rule)


def _by_party(found: Sequence[tuple[str, float | None]]) -> str:
    """Return the mean and the range of a figure of each party, and whose is the lowest; "" where none is known."""
    known = sorted((value, name) for name, value in found if value is not None and is_number(value))
    spread = results.spread(value for value, _ in known)
    return f"{spread.text()}; lowest: {plain(known[0][1], 30)}" if spread is not None else ""


def _over_rounds(record: RunRecord) -> Iterator[Line]:
    """Yield the figures that each round has: of the last round, and of the first one."""
    rounds = known_rounds(record)
    for label, values in (
        ("agreement", [r.agreement for r in rounds]),
        ("labelled share", [r.labelled_share for r in rounds]),
        ("consensus accuracy", [r.consensus_accuracy for r in rounds]),
        ("replaced by noise", [None if r.kept_share is None else 1 - r.kept_share for r in rounds]),
        ("server model's accuracy", [r.server_accuracy for r in rounds] if len(rounds) > 1 else []),
    ):
        if any(is_number(v) for v in values):
            yield Line(label, share(values[-1]), first=f"first round {share(values[0])}" if len(values) > 1 else "")


def _of_parties(record: RunRecord, rows: str) -> Iterator[Line]:
    """Yield what the parties' models reach on test rows of one kind: mean, lowest and highest party."""
    figure = results.figure_used(record, rows)
    group = f"{results.figure_name(figure)}, {rows} rows"
    both = results.pairs(record, rows, figure)
    alone = results.spread(a for _, a, _ in both)
    alone = alone or results.spread(results.known(p.solo, rows, figure) for p in record.parties)
    after = results.spread(b for _, _, b in both)
    after = after or results.spread(results.known(p.federated, rows, figure) for p in record.parties)
    if alone:
        yield Line("alone (SOLO)", share(alone.mean), f"({alone.span()})", group=group)
    if after:
        tail = _better([b - a for _, a, b in both])
        yield Line("with the federation", share(after.mean), f"({after.span()}){tail}", group=group)


def _better(gains: list[float]) -> str:
    if not gains:
        return ""
    worse = sum(gain < 0 for gain in gains)
    better = f"; better than alone: {sum(gain > 0 for gain in gains)} of {count(len(gains), 'party', 'parties')}"
    return better + (f", worse: {worse}" if worse else "")


def _reached(record: RunRecord, measured: Mapping[str, Metrics]) -> str:
    """Return a model's figures on the common test rows: balanced accuracy first where that leads."""
    accuracy = share(results.known(measured, "common"))
    if (figure := results.figure_used(record, "common")) == "accuracy":
        return accuracy
    if figure == "r2":
        of = {name: results.written(results.known(measured, "common", name), name) for name in results.OF_NUMBERS}
        return ", ".join(f"{results.FIGURES[name]} {text}" for name, text in of.items())
    return f"{figure.replace('_', ' ')} {share(results.known(measured, 'common', figure))}, accuracy {accuracy}"


def _bytes(record: RunRecord) -> Iterator[Line]:
    """Yield what travelled."""
    up, down = traffic(record)
    if up is not None:
        yield Line("bytes a party and round", f"{size(up)} up, {size(down)} down")
        if record.final_bytes_down and record.parties:
            yield Line("final result", f"{size(record.final_bytes_down / len(record.parties))} down a party, once")


def known_rounds(record: RunRecord) -> list[RoundRecord]:
    """Return the rounds in which it is known who answered: those that ended, and the one that a run failed in."""
    failed = record.status == "failed"
    return [r for r in record.rounds if r.ended or (failed and (r.answered or r.rejected))]


def traffic(record: RunRecord) -> tuple[float | None, float | None]:
    """Return bytes per party and round, as means over rounds: up of those that answered, down of those asked.

    None if the record holds no sizes: a valid reply is never empty, so without any bytes up they were left out.
    """
    rounds = known_rounds(record)
    if not any(r.bytes_up for r in rounds):
        return None, None
    ups = [r.bytes_up / len(r.answered) for r in rounds if r.answered]
    downs = [r.bytes_down / r.asked for r in rounds if r.asked]
    return statistics.fmean(ups), statistics.fmean(downs) if downs else None


@dataclass(kw_only=True)
class LeftOut:
    """A party, or a node without a name, that was left out for one reason, and the rounds in which this happened."""

    who: str
    code: str
    rounds: list[int] = field(default_factory=list)
    failure: str = ""  # the cause, where it is known: in simulation


def left_out(record: RunRecord) -> list[LeftOut]:
    """Return who was left out and why: one entry per party and reason, in the order in which they first occurred."""
    found: dict[tuple[str, str], LeftOut] = {}
    for r in record.rounds:
        for x in r.rejected:
            who = plain(x.party) if x.party else f"node {plain(x.node_id)} (its party is not known)"
            entry = found.setdefault((who, x.code), LeftOut(who=who, code=plain(x.code), failure=plain(x.failure)))
            entry.rounds.append(r.server_round)
    return list(found.values())


def answered(record: RunRecord) -> str:
    """Return as text how many parties answered of how many were asked, over all rounds."""
    got = [len(r.answered) for r in known_rounds(record)]
    asked = [r.asked for r in known_rounds(record)]
    if not got:
        return "no round was finished"
    every = ", in every round" if len(got) > 1 and min(got) == max(got) else ""
    return f"{_range(got)} answered of {_range(asked)} asked{every}"


def _range(values: list[int]) -> str:
    return f"{min(values)}" if min(values) == max(values) else f"{min(values)} to {max(values)}"

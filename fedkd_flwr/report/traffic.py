"""Who answered in a run, who was left out and why, and how many bytes travelled."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field

from fedkd_flwr.record.run_record import RoundRecord, RunRecord
from fedkd_flwr.report.formatting import plain

__all__ = ["LeftOut", "answered", "known_rounds", "left_out", "traffic"]


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

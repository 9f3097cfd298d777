"""A privacy ledger as text, for whoever answers for the rows: what was spent, when, on what.

The command is ``fedkd node ledger``. It only reads, and takes no lock.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from fedkd_flwr.privacy.ledger.entry import lost
from fedkd_flwr.privacy.ledger.filter import spent_text
from fedkd_flwr.privacy.ledger.ledger import Budget, Ledger
from fedkd_flwr.privacy.ledger.rows import Histories
from fedkd_flwr.privacy.rounding import bound_text, least_text
from fedkd_flwr.report.formatting import columns, one_line
from fedkd_flwr.stores.book import FILE, HEAD, ledger_in
from fedkd_flwr.stores.ledger import NO_NOISE

__all__ = ["Read", "event_words", "ledger_dict", "ledger_text", "ledgers_in", "read_ledger"]

Json = dict[str, Any]
_SHOWN = [
    "when",
    "run_id",
    "data",
    "reply_digest",
    "algorithm",
    "mechanism",
    "unit",
    "adversary",
    "neighbouring_relation",
]


def event_words(event: Mapping[str, Any]) -> str:
    """Return one event, as plain JSON, in words.

    >>> event_words({"kind": "self-composed", "event": {"kind": "laplace", "noise_multiplier": 12.5}, "count": 2})
    '2 x Laplace noise of 12.5 sensitivities (epsilon 0.08)'
    """
    kind = event["kind"]
    if kind == "self-composed":
        return f"{event['count']:,} x {event_words(event['event'])}"
    if kind == "composed":
        return " + ".join(event_words(part) for part in event["events"]) or "nothing"
    if kind == "laplace":
        noise = event["noise_multiplier"]
        return f"Laplace noise of {noise:.4g} sensitivities (epsilon {_of_event(1 / noise if noise else math.inf)})"
    if kind == "two-class":
        noise = event["noise_multiplier"]
        words = f"winner of two classes, Laplace noise of {noise:.4g} sensitivities on each count"
        return f"{words} (epsilon {_of_event(2 / noise if noise else math.inf)})"
    if kind == "gaussian":
        return f"Gaussian noise of {event['noise_multiplier']:.4g} sensitivities"
    if kind == "randomized-response":
        return f"randomised response, {event['noise_parameter']:.4g} at random among {event['num_buckets']}"
    if kind == "pure":
        return f"epsilon {_of_event(event['epsilon'])}"
    if kind == "approximate":
        return f"epsilon {_of_event(event['epsilon'])} with delta {bound_text(event['delta'])}"
    return {"non-private": "no noise", "no-op": "nothing"}.get(kind, str(kind))


def _of_event(epsilon: float) -> str:
    return spent_text(epsilon, 4) if epsilon < math.inf else "inf"


class Read(NamedTuple):
    """A ledger as it was read: its entries, and the pasts of all rows that it has charged."""

    ledger: Ledger
    rows: Histories


def read_ledger(path: Path) -> Read:
    """Read the ledger in a folder, or a file ``ledger.sqlite3`` with its head beside it, without changing anything."""
    if path.is_file() and path.name != FILE:
        raise lost(f"file {path}", f"be a ledger, {FILE}", "another file", "Give a party's state-dir.")
    ledger, rows = ledger_in(path if path.is_dir() else path.parent)
    return Read(ledger, rows.all_histories())


def ledger_text(ledger: Ledger, *, delta: float, budget: float = math.inf, rows: Histories | None = None) -> str:
    """Return a ledger as text: its entries, what they cost at ``delta``, and what is left of a finite ``budget``.

    ``rows``: the pasts of its rows; without them one row is taken that has paid for everything.
    """
    lines = [f"party        {one_line(ledger.party)}", ""]
    table = [("when", "run", "round", "data", "algorithm", "mechanism", "charged")]
    for entry in ledger.entries:
        charged = " + ".join(f"{count:,} x {event_words(event)}" for event, count in entry.events)
        when = datetime.fromisoformat(entry.when).strftime("%Y-%m-%d %H:%M:%S UTC")
        number = str(entry.server_round) if entry.server_round else "note"
        table.append((when, entry.run_id, number, entry.data[:8], entry.algorithm, entry.mechanism, charged))
    lines += columns([[one_line(cell) for cell in row] for row in table])
    if not ledger.entries:
        lines.append("nothing yet")
    sums = _sums(ledger, delta, budget, rows)
    answered = "1 reply" if sums.replies == 1 else f"{sums.replies} replies"
    lines += [
        "",
        f"spent        {_epsilon(sums.tight)} at delta {delta:g}, {answered}, all runs together, by the row with most",
        "             (tight composition: holds if noise and number of releases did not depend on answers)",
    ]
    limit, most = sums.limit, sums.most
    if budget < math.inf:
        # from the figure shown, so that both together are the budget
        rest = float(Decimal(repr(budget)) - Decimal(spent_text(most))) if most < math.inf else 0.0
        whole = f"{budget:g}" if float(f"{budget:g}") == budget else repr(budget)
        left = f"epsilon {least_text(rest, 6)} of {whole}" if rest > 0 else f"nothing of epsilon {whole}"
        lines += [
            f"counted      {_epsilon(most)} by this budget's filter, which decides; it holds whatever is asked",
            f"left         {left}; composed together, a request may cost less than it would alone",
        ]
    elif ledger.entries:
        covers = f"a budget of {_epsilon(limit.epsilon)} covers" if limit.epsilon < math.inf else "no budget covers"
        lines.append(f"filter       {covers} it, whatever was asked after answers")
    return "\n".join(lines + _meaning(ledger)) + "\n"


def _epsilon(value: float) -> str:
    return f"epsilon {spent_text(value)}" if value < math.inf else "no finite epsilon"


def _meaning(ledger: Ledger) -> list[str]:
    """Return what the sum says, and about whom: honest where the entries say different things."""
    paid = [entry for entry in ledger.entries if entry.mechanism != NO_NOISE]
    kinds = sorted({(entry.unit, entry.neighbouring_relation, entry.adversary) for entry in paid})
    lines = [
        f"protects     one {unit} against {one_line(adversary)}; data sets compared: {one_line(relation)}"
        for unit, relation, adversary in kinds
    ]
    if len({unit for unit, _, _ in kinds}) > 1:
        lines.append("note         units differ: the sum speaks of one record, which hiding the party hides too")
    relations = {relation for unit, relation, _ in kinds if unit == "record"} or {relation for _, relation, _ in kinds}
    if len(relations) > 1:
        lines.append("note         the entries compare different data sets: the sum serves the budget and is no claim")
    if len({adversary for _, _, adversary in kinds}) > 1:
        lines.append("note         adversaries differ: the sum holds against the one that sees least")
    if len(paid) < len(ledger.entries):
        lines.append("note         some runs got replies without noise: nothing bounds what they tell of their rows")
    return lines


def ledger_dict(ledger: Ledger, *, delta: float, budget: float = math.inf, rows: Histories | None = None) -> Json:
    """Return a ledger as plain JSON types; parameters as for `ledger_text`, None in the place of infinity."""
    sums = _sums(ledger, delta, budget, rows)
    finite = budget < math.inf
    return {
        "party": ledger.party,
        "entries": [
            {
                **{name: getattr(entry, name) for name in _SHOWN},
                "round": entry.server_round,
                "charged": [
                    {"count": count, "event": event, "words": event_words(event)} for event, count in entry.events
                ],
            }
            for entry in ledger.entries
        ],
        "delta": delta,
        "replies": sums.replies,
        "epsilon_spent": _or_none(sums.tight),
        "epsilon_budget": _or_none(budget),
        "epsilon_counted": _or_none(sums.most) if finite else None,
        "epsilon_left": max(budget - sums.most, 0.0) if finite else None,
        "notes": [" ".join(line.split()) for line in _meaning(ledger)],
    }


class _Sums(NamedTuple):
    """What a ledger adds up to."""

    tight: float
    replies: int
    limit: Budget
    most: float  # what the filter of ``limit`` counts for the row that has spent most


def _sums(ledger: Ledger, delta: float, budget: float, rows: Histories | None) -> _Sums:
    limit = Budget(epsilon=budget if budget < math.inf else ledger.covering(delta, rows), delta=delta)
    return _Sums(
        tight=ledger.spent(delta, rows),
        replies=sum(entry.server_round > 0 for entry in ledger.entries),
        limit=limit,
        most=float(ledger.counted(limit, rows).max(initial=0.0)) if limit.epsilon < math.inf else 0.0,
    )


def _or_none(value: float) -> float | None:
    return value if value < math.inf else None


def ledgers_in(path: Path) -> list[Path]:
    """Return the folders or files with a ledger in a party's ``state-dir`` or a run's folder; or ``path`` itself."""
    if path.is_file() or _holds_ledger(path):
        return [path]
    found = sorted(p for pattern in ("ledgers/*", "*") for p in path.glob(pattern) if _holds_ledger(p))
    if not found:
        raise lost(f"path {path}", "hold a ledger", "none", "Give a party's state-dir, or a ledger.sqlite3.")
    return found


def _holds_ledger(folder: Path) -> bool:
    return (folder / FILE).exists() or (folder / HEAD).exists()

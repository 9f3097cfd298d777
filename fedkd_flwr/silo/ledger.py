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
_WORDS = {
    "laplace": "Laplace noise of {noise_multiplier:.4g} sensitivities (epsilon {words})",
    "two-class": "winner of two classes, Laplace noise of {noise_multiplier:.4g} sensitivities on each count"
    " (epsilon {words})",
    "gaussian": "Gaussian noise of {noise_multiplier:.4g} sensitivities",
    "randomized-response": "randomised response, {noise_parameter:.4g} at random among {num_buckets}",
    "pure": "epsilon {words}",
    "approximate": "epsilon {words} with delta {small}",
    "non-private": "no noise",
    "no-op": "nothing",
}


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
    epsilon, noise = event.get("epsilon", math.inf), event.get("noise_multiplier")
    if noise:
        epsilon = (2 if kind == "two-class" else 1) / noise
    words = spent_text(epsilon, 4) if epsilon < math.inf else "inf"
    return _WORDS.get(kind, str(kind)).format(**event, words=words, small=bound_text(event.get("delta", 0.0)))


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
    said = ledger_dict(ledger, delta=delta, budget=budget, rows=rows)
    lines = [f"party        {one_line(ledger.party)}", ""]
    table = [("when", "run", "round", "data", "algorithm", "mechanism", "charged")]
    for one in said["entries"]:
        charged = " + ".join(f"{part['count']:,} x {part['words']}" for part in one["charged"])
        when = datetime.fromisoformat(one["when"]).strftime("%Y-%m-%d %H:%M:%S UTC")
        number = str(one["round"] or "note")
        table.append((when, one["run_id"], number, one["data"][:8], one["algorithm"], one["mechanism"], charged))
    lines += columns([[one_line(cell) for cell in row] for row in table])
    answered = "1 reply" if said["replies"] == 1 else f"{said['replies']} replies"
    lines += [
        *([] if ledger.entries else ["nothing yet"]),
        "",
        f"spent        {_epsilon(said['epsilon_spent'])} at delta {delta:g}, {answered}, all runs together, by the row "
        "with most",
        "             (tight composition: holds if noise and number of releases did not depend on answers)",
    ]
    if budget < math.inf:
        # from the figure shown, so that both together are the budget
        most = said["epsilon_counted"]
        rest = 0.0 if most is None else float(Decimal(repr(budget)) - Decimal(spent_text(most)))
        whole = f"{budget:g}" if float(f"{budget:g}") == budget else repr(budget)
        left = f"epsilon {least_text(rest, 6)} of {whole}" if rest > 0 else f"nothing of epsilon {whole}"
        lines += [
            f"counted      {_epsilon(most)} by this budget's filter, which decides; it holds whatever is asked",
            f"left         {left}; composed together, a request may cost less than it would alone",
        ]
    lines += [f"{word:<13}{rest}" for word, _, rest in (note.partition(" ") for note in said["notes"])]
    return "\n".join(lines) + "\n"


def ledger_dict(ledger: Ledger, *, delta: float, budget: float = math.inf, rows: Histories | None = None) -> Json:
    """Return a ledger as plain JSON types; parameters as for `ledger_text`, None in the place of infinity."""
    finite = budget < math.inf
    most = float(ledger.counted(Budget(epsilon=budget, delta=delta), rows).max(initial=0.0)) if finite else math.inf
    spent = ledger.spent(delta, rows)
    return {
        "party": ledger.party,
        "entries": [
            {
                **{name: value for name, value in vars(entry).items() if name not in ("events", "server_round")},
                "round": entry.server_round,
                "charged": [
                    {"count": count, "event": event, "words": event_words(event)} for event, count in entry.events
                ],
            }
            for entry in ledger.entries
        ],
        "delta": delta,
        "replies": sum(entry.server_round > 0 for entry in ledger.entries),
        "epsilon_spent": _or_none(spent),
        "epsilon_budget": _or_none(budget),
        "epsilon_counted": _or_none(most),
        "epsilon_left": max(budget - most, 0.0) if finite else None,
        "notes": _meaning(ledger),
    }


def _or_none(value: float) -> float | None:
    return value if value < math.inf else None


def _epsilon(value: float | None) -> str:
    return "no finite epsilon" if value is None else f"epsilon {spent_text(value)}"


def _meaning(ledger: Ledger) -> list[str]:
    """Return what the sum says, and about whom: honest where the entries say different things."""
    paid = [entry for entry in ledger.entries if entry.mechanism != NO_NOISE]
    kinds = sorted({(entry.unit, entry.neighbouring_relation, entry.adversary) for entry in paid})
    relations = {relation for unit, relation, _ in kinds if unit == "record"} or {relation for _, relation, _ in kinds}
    notes = {
        "units differ: the sum speaks of one record, which hiding the party hides too": len({one[0] for one in kinds}),
        "the entries compare different data sets: the sum serves the budget and is no claim": len(relations),
        "adversaries differ: the sum holds against the one that sees least": len({one[2] for one in kinds}),
        "some runs got replies without noise: nothing bounds what they tell of their rows": 1
        + (len(paid) < len(ledger.entries)),
    }
    return [
        f"protects one {unit} against {one_line(adversary)}; data sets compared: {one_line(relation)}"
        for unit, relation, adversary in kinds
    ] + [f"note {text}" for text, count in notes.items() if count > 1]


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

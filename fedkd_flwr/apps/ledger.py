"""A privacy ledger as text, for whoever answers for the rows: what was spent, when, on what.

The command is ``python -m fedkd_flwr.apps.ledger``. It only reads, and takes no lock.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.errors import DataError, FedkdError
from fedkd_flwr.privacy.ledger.entry import lost
from fedkd_flwr.privacy.ledger.ledger import Budget, Head, Ledger
from fedkd_flwr.privacy.ledger.rows import Histories
from fedkd_flwr.stores.ledger import NO_NOISE, read_table

__all__ = ["Read", "event_words", "ledger_text", "main", "read_ledger"]


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
        return f"Laplace noise of {noise:.4g} sensitivities (epsilon {1 / noise if noise else math.inf:.4g})"
    if kind == "two-class":
        noise = event["noise_multiplier"]
        words = f"winner of two classes, Laplace noise of {noise:.4g} sensitivities on each count"
        return f"{words} (epsilon {2 / noise if noise else math.inf:.4g})"
    if kind == "gaussian":
        return f"Gaussian noise of {event['noise_multiplier']:.4g} sensitivities"
    if kind == "randomized-response":
        return f"randomised response, {event['noise_parameter']:.4g} at random among {event['num_buckets']}"
    if kind == "pure":
        return f"epsilon {event['epsilon']:.4g}"
    if kind == "approximate":
        return f"epsilon {event['epsilon']:.4g} with delta {event['delta']:.4g}"
    return {"non-private": "no noise", "no-op": "nothing"}.get(kind, str(kind))


class Read(NamedTuple):
    """A ledger as it was read: its entries, and the pasts of all rows that it has charged."""

    ledger: Ledger
    rows: Histories


def read_ledger(path: Path) -> Read:
    """Read the ledger in a folder, or a file ``ledger.json`` with its head beside it, without changing anything.

    Raises
    ------
    DataError
        If it cannot be believed (code ``ledger-lost``).
    """
    path = path / "ledger.json" if path.is_dir() else path
    head_path = path.with_name("head.json")
    for last in (False, False, True):
        # the head first: a charge between the two reads only makes the ledger longer
        raw_head = head_path.read_bytes() if head_path.exists() else None
        raw = path.read_bytes() if path.exists() else None
        if raw is None:
            raise lost(f"ledger {path}", "be there", "no such file")
        ledger = Ledger.from_json(raw, source=f"ledger {path}")
        if raw_head is not None:
            ledger.check_head(Head.from_json(raw_head, source=f"head {head_path}"), source=f"ledger {path}")
        if raw_head is not None or not ledger.entries:
            try:
                return Read(ledger, read_table(path.parent, ledger).all_histories())
            except DataError:  # another process may just have replaced the table
                if last:
                    raise
        if not last:  # the very first charge may be under way
            time.sleep(0.05)
    raise lost(f"head {head_path}", "be there", "no such file, and a ledger with charges")


def ledger_text(ledger: Ledger, *, delta: float, budget: float = math.inf, rows: Histories | None = None) -> str:
    """Return a ledger as text.

    Parameters
    ----------
    ledger : Ledger
        What to print.
    delta : float
        Where epsilon is measured, within [0, 1).
    budget : float
        An epsilon; where finite, what its filter has counted and what is left are printed.
    rows : Histories, optional
        The pasts of its rows; without them one row is taken that has paid for everything.
    """
    lines = [f"party        {_plain(ledger.party)}", ""]
    table = [("when", "run", "round", "data", "algorithm", "mechanism", "released")]
    for entry in ledger.entries:
        released = " + ".join(f"{count:,} x {event_words(event)}" for event, count in entry.events)
        when = datetime.fromisoformat(entry.when).strftime("%Y-%m-%d %H:%M:%S UTC")
        number = str(entry.server_round) if entry.server_round else "note"
        table.append((when, entry.run_id, number, entry.data[:8], entry.algorithm, entry.mechanism, released))
    plain = [[_plain(cell) for cell in row] for row in table]
    widths = [max(len(row[i]) for row in plain) for i in range(len(table[0]))]
    lines += ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in plain]
    if not ledger.entries:
        lines.append("nothing yet")
    tight, replies = ledger.spent(delta, rows), sum(entry.server_round > 0 for entry in ledger.entries)
    answered = "1 reply" if replies == 1 else f"{replies} replies"
    lines += [
        "",
        f"spent        {_epsilon(tight)} at delta {delta:g}, {answered}, all runs together, by the row with most",
        "             (tight composition: holds if noise and number of releases did not depend on answers)",
    ]
    finite = budget < math.inf
    limit = Budget(epsilon=budget if finite else ledger.covering(delta, rows), delta=delta)
    counted = ledger.counted(limit, rows) if limit.epsilon < math.inf else np.zeros(0)
    most = float(counted.max(initial=0.0))
    if finite:
        left = f"epsilon {budget - most:.6g} of {budget:g}" if most < budget else f"nothing of epsilon {budget:g}"
        lines += [
            f"counted      {_epsilon(most)} by this budget's filter, which decides; it holds whatever is asked",
            f"left         {left}; composed together, a request may cost less than it would alone",
        ]
    elif ledger.entries:
        covers = f"a budget of {_epsilon(limit.epsilon)} covers" if limit.epsilon < math.inf else "no budget covers"
        lines.append(f"filter       {covers} it, whatever was asked after answers")
    if rows is not None:
        lines.append(_by_rows(counted, rows))
    if late := len(ledger.from_the_future(datetime.now(UTC))):
        lines.append(f"note         {late} entries are dated in the future: a clock was wrong then, or is wrong now")
    return "\n".join(lines + _meaning(ledger)) + "\n"


def _by_rows(counted: NDArray[np.float64], rows: Histories) -> str:
    """Return how many rows have spent how much, by the filter: the ten largest figures."""
    sets = "1 data set" if len(rows.data_sets) == 1 else f"{len(rows.data_sets)} data sets"
    text = f"rows         {int(rows.rows.sum()):,} different ones in {sets}"
    if not len(counted):
        return text
    figures, where = np.unique(np.array([float(f"{value:.6g}") for value in counted]), return_inverse=True)
    counts = np.bincount(where, weights=rows.rows).astype(int)
    shown = [f"{count:,} at {_epsilon(figure)}" for figure, count in zip(figures, counts, strict=True)][::-1]
    more = f"; {sum(counts[:-10]):,} at less" if len(shown) > 10 else ""
    return f"{text}: {'; '.join(shown[:10])}{more}"


def _epsilon(value: float) -> str:
    return f"epsilon {value:.6g}" if value < math.inf else "no finite epsilon"


def _meaning(ledger: Ledger) -> list[str]:
    """Return what the sum says, and about whom: honest where the entries say different things."""
    paid = [entry for entry in ledger.entries if entry.mechanism != NO_NOISE]
    kinds = sorted({(entry.unit, entry.neighbouring_relation, entry.adversary) for entry in paid})
    lines = [
        f"protects     one {unit} against {_plain(adversary)}; data sets compared: {_plain(relation)}"
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Print ledgers.

    Parameters
    ----------
    arguments : sequence of str, optional
        The command line without the program's name; ``sys.argv`` where none is given.

    Returns
    -------
    int
        0, or 2 where a ledger cannot be believed or a setting is wrong (the reason is on stderr).
    """
    parser = argparse.ArgumentParser(
        prog="python -m fedkd_flwr.apps.ledger",
        description="Print what a party has released from its rows: when, in which run, by which mechanism, and what "
        "all of it together costs.",
    )
    parser.add_argument("path", type=Path, metavar="PATH", help="a ledger.json, its folder, or a party's state-dir")
    parser.add_argument("--delta", type=float, default=1e-5, help="where epsilon is measured (default: 1e-5)")
    parser.add_argument(
        "--epsilon-budget", type=float, default=math.inf, metavar="EPSILON", help="print what its filter has counted"
    )
    options = parser.parse_args(arguments)
    try:
        budget = Budget(epsilon=options.epsilon_budget, delta=options.delta)
        paths = _ledgers(options.path)
        if not paths:
            way_out = "Give a ledger.json, its folder, or a party's state-dir."
            raise lost(f"path {options.path}", "hold a ledger", "none", way_out)
    except (FedkdError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    failed = False
    for number, path in enumerate(paths):
        try:
            ledger, rows = read_ledger(path)
            text = ledger_text(ledger, delta=budget.delta, budget=budget.epsilon, rows=rows)
            print(f"\n{text}" if number else text, end="", flush=True)
        except BrokenPipeError:  # whoever reads has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        except (FedkdError, OSError) as error:
            print(f"error: {error}", file=sys.stderr)
            failed = True
    if len(paths) > 1:
        print("\nEach ledger counts the releases of its own party only.")
    return 2 if failed else 0


def _ledgers(path: Path) -> list[Path]:
    """Return the folders or files that hold a ledger, or what is left of one."""
    if path.is_file() or _holds_ledger(path):
        return [path]
    return sorted(p for pattern in ("ledgers/*", "*") for p in path.glob(pattern) if _holds_ledger(p))


def _holds_ledger(folder: Path) -> bool:
    return any((folder / name).exists() for name in ("ledger.json", "head.json", "replies"))


def _plain(text: str) -> str:
    """Return text as one printable line: names come from elsewhere, and a terminal obeys some of them."""
    return "".join(c if c.isprintable() else "?" for c in text)


if __name__ == "__main__":
    sys.exit(main())

"""How far the public rows resemble each party's own, and which consensus was chosen for it."""

from __future__ import annotations

from fedkd_flwr.record.run_record import PartyRecord, RunRecord
from fedkd_flwr.report import results
from fedkd_flwr.report.formatting import is_number, plain, share
from fedkd_flwr.report.html import Table

__all__ = ["agreement_line", "consensus_line", "fit_line", "fit_table", "fits"]


def fits(record: RunRecord) -> list[tuple[PartyRecord, float]]:
    """Return each party whose public set fit is known, the worst first."""
    known = [(p, fit) for p in record.parties if (fit := p.public_fit) is not None and is_number(fit)]
    return sorted(known, key=lambda item: (item[1], item[0].name))


def consensus_line(record: RunRecord) -> str:
    """Return which rule made the consensus, and why; "" where none was chosen."""
    rule, reason = record.consensus_rule, record.consensus_reason
    return f"{rule}: {reason}" if rule and reason else str(rule)


def fit_line(record: RunRecord) -> str:
    """Return the parties' public set fit in a line, with the party whose rows are furthest; "" where none is known."""
    found = fits(record)
    spread = results.spread(fit for _, fit in found)
    if spread is None:
        return ""
    return f"{spread.text()}; lowest: {plain(found[0][0].name, 30)}"


def agreement_line(record: RunRecord) -> str:
    """Return how far each party's labels were the consensus, and whose least; "" where none is known."""
    known = sorted((p.agreement, p.name) for p in record.parties if is_number(p.agreement))
    spread = results.spread(agreed for agreed, _ in known)
    return f"{spread.text()}; lowest: {plain(known[0][1], 30)}" if spread is not None else ""


def fit_table(record: RunRecord) -> Table:
    """Return each party's public set fit, the worst first."""
    rows = [[p.name, share(fit)] for p, fit in fits(record)]
    return Table("How well the public rows fit each party", ["party", "public set fit"], rows, (1,))

"""How far the public rows resemble each party's own, and which consensus was chosen for it."""

from __future__ import annotations

from collections.abc import Iterator

from fedkd_flwr.record.run_record import PartyRecord, RunRecord
from fedkd_flwr.report import derived
from fedkd_flwr.report.figure import BLUE, Canvas, Plot
from fedkd_flwr.report.formatting import is_number, plain, share
from fedkd_flwr.report.html import Html, table, tag

__all__ = ["agreement_line", "consensus_line", "fit_line", "fits", "public_fit_plot", "public_set"]

_NAMED_PARTIES = 40


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
    spread = derived.spread(fit for _, fit in found)
    if spread is None:
        return ""
    return f"{spread.text()}; lowest: {plain(found[0][0].name, 30)}"


def agreement_line(record: RunRecord) -> str:
    """Return how far each party's labels were the consensus, and whose least; "" where none is known."""
    known = sorted((p.agreement, p.name) for p in record.parties if is_number(p.agreement))
    spread = derived.spread(agreed for agreed, _ in known)
    return f"{spread.text()}; lowest: {plain(known[0][1], 30)}" if spread is not None else ""


def public_set(record: RunRecord) -> Iterator[Html]:
    """Yield which consensus was chosen and why, and how far the public rows resemble each party's own."""
    if line := consensus_line(record):
        yield tag("p", tag("b", "Consensus: "), line)
    if not (found := fits(record)):
        return
    header = ["party", "public set fit"]
    body = [[p.name, share(fit)] for p, fit in found]
    yield table(header, body, numbers=range(1, len(header)), label="How well the public rows fit each party")
    text = (
        "Public set fit is 1 where the public rows show all of a party's kinds of rows, and 0 where they come from "
        "elsewhere; forests, which are never quite sure, give less, and so do few rows, and a model that says the same "
        "of every row gives 1 whatever they are. It needs no labels. A bad public set is the first reason why such a "
        "federation fails: a party with a low fit gains little from these rows."
    )
    yield tag("p", text, class_="soft")


def public_fit_plot(record: RunRecord) -> Plot:
    """Draw each party's public set fit, the worst lowest. Parameters and errors are those of `accuracy_plot`."""
    found = fits(record)
    if not found:
        return Plot(title="", svg="", caption="")
    worst, fit = found[0]
    title = f"Public set fit: {fit:.2f} at {plain(worst.name, 30)}, {found[-1][1]:.2f} at best"
    named = len(found) <= _NAMED_PARTIES
    with Canvas(1.2 + (max(0.235 * len(found), 0.7) if named else 2.6)) as canvas:
        axes = canvas.figure.add_subplot()
        places, values = list(range(len(found))), [value for _, value in found]
        axes.hlines(places, 0.0, values, colors="#9cc3dd", linewidth=2.2 if named else 1.0)
        axes.scatter(values, places, s=40 if named else 9, color=BLUE, zorder=2)
        axes.set_xlim(0.0, 1.05)
        axes.set_ylim(-0.7, len(found) - 0.3)
        axes.set_yticks(places if named else [])
        if named:
            axes.set_yticklabels([plain(p.name, 24) for p, _ in found], parse_math=False)
        else:
            axes.set_ylabel(f"{len(found)} parties, by fit")
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel("public set fit: how much of its rows the public rows show a party")
        axes.grid(axis="x")
        canvas.title(title)
        svg = canvas.svg("fit")
    caption = "About 0: the public rows come from elsewhere. A party with a low fit gains little from the federation."
    return Plot(title=title, svg=svg, caption=caption)

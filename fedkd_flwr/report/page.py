"""A run record as one HTML page that needs nothing else: no network, no script, no font, no second file."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from fedkd_flwr.errors import MissingExtraError
from fedkd_flwr.report import facts, plots, sections
from fedkd_flwr.report.facts import ROWS, plain, share, size
from fedkd_flwr.report.markup import STYLE, Html, tag
from fedkd_flwr.run_record import WITHHELD, RunRecord

__all__ = ["write_page"]

# a second wall: even markup that slipped through could load and run nothing
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def write_page(record: RunRecord, path: Path, *, publishable: bool = False) -> Path:
    """Write the page of a run and return its path.

    Parameters
    ----------
    record : RunRecord
        A completed, failed or running run. Names and texts in it may be hostile: all are escaped.
    path : Path
        The file to write; its folder is made where it is missing, and a page that is there is replaced whole.
    publishable : bool
        Leave out what was computed from un-noised votes or private rows (`RunRecord.publishable`).

    Raises
    ------
    OSError
        If the file cannot be written.

    Notes
    -----
    Without matplotlib the page has its tables, and says how to get the plots.
    """
    shown = record.publishable() if publishable else record
    text = _page(shown, publishable)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 0600
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace", newline="\n") as file:
            file.write(text)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path


def _page(record: RunRecord, publishable: bool) -> str:
    headline = _headline(record)
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", f"{plain(record.algorithm, 40)}, run {plain(record.run_id, 40)}: {headline}"),
        tag("style", STYLE),
    )
    parts = (
        _top(record, headline, publishable),
        _key_figures(record),
        _plots(record),
        _section("Each party", sections.parties(record)),
        _section("Each round", sections.rounds(record)),
        _section("Parties left out", sections.left_out(record)),
        _section("Privacy", sections.privacy(record)),
        _section("How to run this again", sections.again(record)),
        _section("Configuration", sections.configuration(record)),
    )
    body = tag("body", tag("main", *parts))
    return f'<!DOCTYPE html>\n<html lang="en">\n{head}\n{body}\n</html>\n'


def _section(title: str, content: Iterator[Html]) -> Html:
    return tag("section", tag("h2", title), *content)


def _headline(record: RunRecord) -> str:
    """Return the finding in one sentence."""
    if record.status == "failed":
        return f"This run failed after {facts.count(len(record.rounds), 'round')}"
    both = facts.pairs(record, facts.rows_used(record))
    if both:
        alone, after = facts.means(both)
        verb = "party reaches" if len(both) == 1 else "parties reach"
        average = "" if len(both) == 1 else " on average"
        return f"With the federation {len(both)} {verb} {after:.2f}{average}; alone {alone:.2f}"
    if facts.is_number(record.server_accuracy):
        return f"The server's model reaches {record.server_accuracy:.2f}"
    sent = facts.traffic(record)
    parties = facts.count(len(record.parties), "party", "parties")
    if sent.up is None:
        return f"{parties}, {facts.count(len(record.rounds), 'round')}"
    rounds = facts.count(len(record.rounds), "round")
    return f"{parties} exchanged labels in {rounds}: {size(sent.up)} sent per party and round"


def _top(record: RunRecord, headline: str, publishable: bool) -> Html:
    kind = "simulation" if record.simulation else "deployment"
    facts_line = [record.algorithm, f"run {record.run_id}", kind, record.status]
    if record.started:
        facts_line.append(f"started {record.started}")
    parts = [tag("p", " · ".join(facts_line), class_="soft"), tag("h1", headline)]
    if record.status == "failed":
        reason = "withheld from publication" if record.reason == WITHHELD else record.reason or "not recorded"
        parts.append(tag("p", tag("b", "Why it failed: "), reason, class_="bad", role="alert"))
    elif record.status != "completed":
        parts.append(tag("p", f"This run has not ended: its status is “{record.status}”.", class_="warn"))
    notes = list(dict.fromkeys(record.notes))
    if notes:
        items = tag("ul", *(tag("li", note) for note in notes))
        parts.append(tag("div", tag("b", "Read this with the results"), items, class_="warn"))
    if publishable:
        kept = (
            "This is the publishable form: accuracies, agreement, seconds and reasons are left out, because they "
            "were computed from private rows or from votes without noise."
        )
    else:
        kept = (
            "For whoever runs the federation: this page shows numbers computed from private rows and from votes "
            "without noise. To hand it on, write the publishable form: "
        )
        parts.append(
            tag("p", kept, tag("code", "python -m fedkd_flwr.report record.json --publishable"), class_="soft")
        )
        return tag("header", *parts)
    return tag("header", *parts, tag("p", kept, class_="soft"))


def _key_figures(record: RunRecord) -> Html:
    """Return the figures a reader asks for first, as cards; a card without a number is left out."""
    cards: list[tuple[str, str, str]] = []
    for rows, name in ROWS.items():
        both = facts.pairs(record, rows)
        alone, after = facts.spread(a for _, a, _ in both), facts.spread(b for _, _, b in both)
        if not alone or not after:
            continue
        better = f"{sum(b > a for _, a, b in both)} of {len(both)}"
        if cards:  # the second kind of rows gets one card
            cards.append(
                ("The same on own rows", f"{share(alone.mean)} → {share(after.mean)}", f"better than alone: {better}")
            )
            continue
        cards += [
            ("Accuracy alone", share(alone.mean), f"on {name}; {share(alone.lowest)} to {share(alone.highest)}"),
            ("With the federation", share(after.mean), f"{share(after.lowest)} to {share(after.highest)}"),
            ("Better than alone", better, "parties"),
        ]
    if facts.is_number(record.server_accuracy):
        cards.append(("Server's model", share(record.server_accuracy), plain(record.server_model, 60)))
    if facts.is_number(record.centralised):
        cards.append(("Centralised", share(record.centralised), "one model on all private rows pooled"))
    last = record.rounds[-1] if record.rounds else None
    if last:
        cards.append(("Parties answered", f"{len(last.answered)} of {last.asked}", "in the last round"))
        cards.append(("Rounds", str(len(record.rounds)), ""))
        if facts.is_number(last.labelled_share):
            cards.append(("Public rows labelled", share(last.labelled_share), f"of {record.num_public:,}, last round"))
        if facts.is_number(last.agreement):
            cards.append(("Agreement", share(last.agreement), "with the consensus, last round"))
    sent = facts.traffic(record)
    if sent.up is not None:
        cards.append(("Labels sent", size(sent.up), f"per party and round; received {size(sent.down)}"))
    if record.seconds > 0:
        start = f"start-up apart: {facts.time_span(record.startup_seconds)}" if record.startup_seconds > 0 else ""
        cards.append(("Time", facts.time_span(record.seconds), start))
    return tag(
        "dl",
        *(
            tag("div", tag("dt", label), tag("dd", value, *([tag("small", more)] if more else [])))
            for label, value, more in cards
        ),
        class_="keys",
    )


def _plots(record: RunRecord) -> Html:
    makers: tuple[tuple[str, Callable[..., plots.Plot]], ...] = (
        ("accuracy", plots.accuracy_plot),
        ("rounds", plots.rounds_plot),
        ("bytes", plots.bytes_plot),
    )
    try:
        drawn = [make(record, prefix=prefix) for prefix, make in makers]
    except MissingExtraError as error:
        return tag("section", tag("h2", "Plots"), tag("p", str(error), class_="warn"))
    figures = []
    for plot in drawn:
        if plot.svg:
            picture = tag("div", Html(plot.svg), class_="plot", tabindex="0", role="img", aria_label=plot.title)
            figures.append(tag("figure", picture, tag("figcaption", plot.caption)))
        else:
            figures.append(tag("p", tag("b", f"{plot.title}. "), plot.caption, class_="soft"))
    return tag("section", tag("h2", "Plots"), *figures)

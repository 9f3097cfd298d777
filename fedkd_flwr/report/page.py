"""A run record as one HTML page that needs nothing else: no network, no script, no font, no second file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from fedkd_flwr.errors import MissingExtraError
from fedkd_flwr.report import claims, facts, plots, sections
from fedkd_flwr.report.facts import ROWS, plain, share, size
from fedkd_flwr.report.markup import Html, save_document, tag
from fedkd_flwr.run_record import WITHHELD, RunRecord

__all__ = ["write_page"]


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
    headline = _headline(shown)
    parts = (
        _top(shown, headline, publishable),
        _key_figures(shown, publishable),
        _plots(shown, publishable),
        _section("Privacy", sections.privacy(shown)),
        _section("Each party", sections.parties(shown)),
        _section("Each round", sections.rounds(shown, publishable=publishable)),
        _section("Parties left out", sections.left_out(shown, publishable=publishable)),
        _section("How to run this again", sections.again(shown)),
        _section("Configuration", sections.configuration(shown)),
    )
    title = f"{plain(shown.algorithm, 40)}, run {plain(shown.run_id, 40)}: {headline}"
    return save_document(path, title, *parts)


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
        alone_only = facts.spread(p.solo.get(facts.rows_used(record)) for p in record.parties)
        solo = f"; a party alone {alone_only.mean:.2f} on average" if alone_only else ""
        return f"The server's model reaches {record.server_accuracy:.2f}{solo}"
    sent = facts.traffic(record)
    parties = facts.count(len(record.parties), "party", "parties")
    if sent.up is None:
        return _withheld_headline(record)
    rounds = facts.count(len(record.rounds), "round")
    return f"{parties} exchanged labels in {rounds}: {size(sent.up)} sent per party and round"


def _withheld_headline(record: RunRecord) -> str:
    """Return the headline of a record whose bytes, and perhaps rounds, are not told."""
    parties = facts.count(len(record.parties), "party", "parties")
    figure, words = claims.headline(record)
    bounded = any(claims.bounded(claim) for claim in record.claims)
    return f"{parties} took part; privacy: {figure}" + (f", {words}" if bounded else "")


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
    parts += [tag("p", warning, class_="bad") for warning in claims.unproven(record.claims)]
    notes = list(dict.fromkeys(record.notes))
    if notes:
        items = tag("ul", *(tag("li", note) for note in notes))
        parts.append(tag("div", tag("b", "Read this with the results"), items, class_="warn"))
    if publishable:
        kept = (
            "This is the publishable form: what was computed from private rows, or from labels and votes without "
            "noise, is left out. "
        )
        kept += (
            "What is left beside who took part was computed after the noise: the claims below cover it."
            if record.covered
            else "What is left does not depend on private rows, beside who took part."
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


def _key_figures(record: RunRecord, publishable: bool) -> Html:
    """Return the figures a reader asks for first, as cards; a card without a number is left out."""
    cards: list[tuple[str, str, str]] = []
    only = "; simulation only" if facts.simulation_only(record) else ""
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
            ("Accuracy alone", share(alone.mean), f"on {name}; {share(alone.lowest)} to {share(alone.highest)}{only}"),
            ("With the federation", share(after.mean), f"{share(after.lowest)} to {share(after.highest)}{only}"),
            ("Better than alone", better, "parties"),
        ]
    compared = bool(cards)
    if facts.is_number(record.server_accuracy):
        cards.append(("Server's model", share(record.server_accuracy), "accuracy on common test rows"))
    alone_only = facts.spread(p.solo.get(facts.rows_used(record)) for p in record.parties)
    if alone_only and not compared:
        words = f"mean of the parties; {share(alone_only.lowest)} to {share(alone_only.highest)}{only}"
        cards.append(("A party alone", share(alone_only.mean), words))
    if facts.is_number(record.centralised):
        cards.append(("Centralised", share(record.centralised), "one model on all private rows pooled"))
    cards.append(("Privacy", *claims.headline(record)))
    last = record.rounds[-1] if record.rounds else None
    if last and publishable and not record.length_told:
        cards.append(("Parties answered", f"{len(last.answered)} of {last.asked}", "in the first round"))
    elif last:
        cards.append(("Parties answered", f"{len(last.answered)} of {last.asked}", "in the last round"))
        cards.append(("Rounds", str(len(record.rounds)), ""))
        if facts.is_number(last.labelled_share):
            cards.append(("Public rows labelled", share(last.labelled_share), f"of {record.num_public:,}, last round"))
        if facts.is_number(last.agreement):
            cards.append(("Agreement", share(last.agreement), "with the consensus, last round"))
    sent = facts.traffic(record)
    if sent.up is not None:
        sort = "Labels sent" if record.algorithm.lower() in facts.LABELS_ONLY else "Sent"
        cards.append((sort, size(sent.up), f"per party and round; received {size(sent.down)}"))
    if last and facts.is_number(last.kept_share):
        replaced = share(1 - last.kept_share)  # type: ignore[operator]
        cards.append(("Noise replaced", replaced, "of labels or answers, last round; see Privacy"))
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


def _plots(record: RunRecord, publishable: bool) -> Html:
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
        elif not publishable:  # there, what is withheld is said once, at the top
            figures.append(tag("p", tag("b", f"{plot.title}. "), plot.caption, class_="soft"))
    return tag("section", tag("h2", "Plots"), *figures) if figures else Html("")

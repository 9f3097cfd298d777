"""The page of a run: one HTML file that loads nothing else, neither scripts nor fonts nor anything from a network."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

from fedkd_flwr.errors import MissingExtraError
from fedkd_flwr.record.run_record import WITHHELD, PartyRecord, RunRecord
from fedkd_flwr.report import claims, derived, run_privacy, sections
from fedkd_flwr.report.accuracy_plot import accuracy_plot, home_plot
from fedkd_flwr.report.attack import attack
from fedkd_flwr.report.bytes_plot import bytes_plot
from fedkd_flwr.report.class_gain_plot import class_gain_plot
from fedkd_flwr.report.class_mix_plot import class_mix_plot
from fedkd_flwr.report.confusion_plot import confusion_plot
from fedkd_flwr.report.derived import ROWS
from fedkd_flwr.report.figure import Plot
from fedkd_flwr.report.formatting import count, is_number, plain, share, size, time_span
from fedkd_flwr.report.home import home_finding, home_warning
from fedkd_flwr.report.html import Html, save_document, tag
from fedkd_flwr.report.metrics_section import metrics
from fedkd_flwr.report.public_set import consensus_line, fits, public_fit_plot, public_set
from fedkd_flwr.report.reliability_plot import reliability_plot
from fedkd_flwr.report.rounds_plot import rounds_plot
from fedkd_flwr.report.standing import Standing, moment, standing
from fedkd_flwr.report.useless import useless

__all__ = ["write_page"]

_RELOAD_S = 5


def write_page(record: RunRecord, path: Path, *, publishable: bool = False, live: bool = False) -> Path:
    """Write the page of a run and return its path.

    Parameters
    ----------
    record : RunRecord
        The record of a completed, failed or running run. All names and texts in it are escaped, so they may be hostile.
    path : Path
        The file to write. A missing folder is created, and an existing page is replaced.
    publishable : bool
        Leave out what was computed from private rows or from votes without noise (`RunRecord.publishable`).
    live : bool
        Write the page of a run that goes on or is just ending: without plots, which take seconds. It loads itself
        again every few seconds.

    Raises
    ------
    OSError
        If the file cannot be written.

    Notes
    -----
    Without matplotlib the page has its tables but no plots, and says how to install them.
    """
    shown = record.publishable() if publishable else record
    stands = standing(shown, alive=live or None, rounds_told=not publishable or shown.length_told)
    headline = _headline(shown) if stands.word == "completed" else stands.headline
    parts = (
        _top(shown, headline, stands, publishable, live),
        _key_figures(shown, publishable),
        _plots(shown, publishable) if not live else Html(""),
        _section("Privacy", sections.privacy(shown)),
        _section("What an attack finds", attack(shown)) if shown.audit else Html(""),
        _section("Which model each party should use", sections.advice(shown)) if not publishable else Html(""),
        _section("The public set", public_set(shown)) if fits(shown) or consensus_line(shown) else Html(""),
        _section("How the table was read", sections.columns(shown)) if shown.columns else Html(""),
        _section("Each party", sections.parties(shown)),
        _section("Metrics", metrics(shown)) if not publishable else Html(""),
        _section("Each round", sections.rounds(shown, publishable=publishable)),
        _section("Parties left out", sections.left_out(shown, publishable=publishable)),
        _section("How to run this again", sections.again(shown)),
        _section("Configuration", sections.configuration(shown)),
    )
    title = f"{plain(shown.algorithm, 40)}, run {plain(shown.run_id, 40)}: {headline}"
    return save_document(path, title, *parts, reload_s=_RELOAD_S if live and stands.word != "stopped" else 0)


def _section(title: str, content: Iterator[Html]) -> Html:
    return tag("section", tag("h2", title), *content)


def _headline(record: RunRecord) -> str:
    rows = derived.rows_used(record)
    figure = derived.figure_used(record, rows)
    what = "" if figure == "accuracy" else f"{figure.replace('_', ' ')} "
    both = derived.pairs(record, rows, figure)
    if both:
        alone, after = derived.means(both)
        verb = "party reaches" if len(both) == 1 else "parties reach"
        average = "" if len(both) == 1 else " on average"
        found = f"With the federation {len(both)} {verb} {what}{after:.2f}{average}; alone {alone:.2f}"
        found += derived.rests_on(record, rows)
        home = home_finding(record) if rows == "common" else ""
        return f"{found}. {home[:1].upper()}{home[1:]}" if home else found
    if is_number(record.server_accuracy):
        figure = derived.figure_used(record, "common")
        what = "" if figure == "accuracy" else f"{figure.replace('_', ' ')} "
        alone_only = derived.spread(derived.known(p.solo, rows, figure) for p in record.parties)
        solo = f"; a party alone {alone_only.mean:.2f} on average" if alone_only else ""
        return f"The server's model reaches {what}{derived.known(record.server, 'common', figure) or 0.0:.2f}{solo}"
    parties = count(len(record.parties), "party", "parties")
    sent = derived.traffic(record)
    if sent.up is not None:
        rounds = count(len(record.rounds), "round")
        return f"{parties} exchanged {record.sends or 'answers'} in {rounds}: {size(sent.up)} sent per party and round"
    figure, words = run_privacy.headline(record)
    bounded = any(claims.bounded(claim) for claim in record.claims)
    return f"{parties} took part; privacy: {figure}" + (f", {words}" if bounded else "")


def _top(record: RunRecord, headline: str, stands: Standing, publishable: bool, live: bool) -> Html:
    kind = "simulation" if record.simulation else "deployment"
    facts_line = [record.algorithm, f"run {record.run_id}", kind, stands.word]
    if record.started:
        facts_line.append(f"started {record.started}")
    parts = [tag("p", " · ".join(facts_line), class_="soft"), tag("h1", headline)]
    if stands.word != "completed":
        parts.append(tag("p", stands.sentence, class_="warn"))
    if stands.word in ("failed", "stopped"):
        reason = "withheld from publication" if record.reason == WITHHELD else record.reason or "not recorded"
        why = "Why it failed: " if stands.word == "failed" else "How it was stopped: "
        parts.append(tag("p", tag("b", why), reason, class_="bad", role="alert"))
    if live and stands.word == "running":
        parts += _going_on(record)
    parts += [tag("p", warning, class_="bad") for warning in (*run_privacy.unproven(record.claims), *useless(record))]
    if lost := home_warning(record):
        parts.append(tag("p", tag("b", "Who loses: "), lost, class_="bad"))
    notes = list(dict.fromkeys(record.notes))
    if notes:
        items = tag("ul", *(tag("li", note) for note in notes))
        parts.append(tag("div", tag("b", "Read this with the results"), items, class_="warn"))
    if publishable:
        kept = (
            "This is the publishable form. What was computed from private rows, or from labels and votes without "
            "noise, is left out. Apart from who took part, what is shown "
        )
        kept += (
            "was computed after the noise, so the claims below cover it."
            if record.covered
            else "does not depend on private rows."
        )
        return tag("header", *parts, tag("p", kept, class_="soft"))
    kept = (
        "This page is for the operator of the federation: it shows numbers computed from private rows and from "
        "votes without noise. To pass it on, write the publishable form: "
    )
    return tag("header", *parts, tag("p", kept, _report_command(record, "--publishable"), class_="soft"))


def _report_command(record: RunRecord, *options: str) -> Html:
    """Return the command that writes this page again, from any folder."""
    where = plain(record.config.get("output-dir") or "")
    words = ["fedkd", "report", plain(record.run_id, 40), *(("--output-dir", where) if where else ()), *options]
    return tag("code", shlex.join(words))


def _going_on(record: RunRecord) -> Iterator[Html]:
    """Yield how far a run is. The page may be the last one that it wrote, so nothing here is said of the present."""
    if record.num_rounds:
        ended = str(sum(one.ended for one in record.rounds))
        yield tag("progress", value=ended, max=str(record.num_rounds), aria_label="rounds that have ended")
    text = (
        f"As of {moment(record.last_word)}. The run writes this page again as it goes on, and the browser loads it "
        f"every {_RELOAD_S} seconds. If that time stays the same for much longer than a round takes, its process may "
        "have been killed, and what its last round was asked may have left all the same: "
    )
    yield tag("p", text, _report_command(record), " looks, and writes it here.")


def _key_figures(record: RunRecord, publishable: bool) -> Html:
    """Return the most important figures as cards; a figure that is not known has no card."""
    cards: list[tuple[str, str, str]] = []
    only = "; simulation only" if derived.simulation_only(record) else ""
    lead = derived.figure_used(record, derived.rows_used(record))
    for rows, name in ROWS.items():
        figure = derived.figure_used(record, rows)
        words = figure.replace("_", " ")
        both = derived.pairs(record, rows, figure)
        alone, after = derived.spread(a for _, a, _ in both), derived.spread(b for _, _, b in both)
        if not alone or not after:
            continue
        better = f"{sum(b > a for _, a, b in both)} of {len(both)}"
        if cards:  # the second kind of test rows gets a single card
            change = f"{share(alone.mean)} → {share(after.mean)}"
            same = "The same" if figure == lead else words.capitalize()
            cards.append((f"{same} on own rows", change, f"better than alone: {better}{_lost(both)}"))
            continue
        where = f"on {name}; {share(alone.lowest)} to {share(alone.highest)}{only}"
        cards += [
            (f"{words.capitalize()} alone", share(alone.mean), where),
            ("With the federation", share(after.mean), f"{share(after.lowest)} to {share(after.highest)}{only}"),
            ("Better than alone", better, f"parties{_lost(both)}"),
        ]
    compared = bool(cards)
    figure = derived.figure_used(record, "common")
    if (server := derived.known(record.server, "common", figure)) is not None:
        cards.append(("Server's model", share(server), f"{figure.replace('_', ' ')} on common test rows"))
    alone_only = derived.spread(derived.known(p.solo, derived.rows_used(record), lead) for p in record.parties)
    if alone_only and not compared:
        words = f"mean of the parties; {share(alone_only.lowest)} to {share(alone_only.highest)}{only}"
        cards.append(("A party alone", share(alone_only.mean), words))
    if (central := derived.known(record.centralised, "common", figure)) is not None:
        cards.append(("Centralised", share(central), "one model trained on all private rows pooled"))
    cards.append(("Privacy", *run_privacy.headline(record)))
    rounds_known = derived.heard(record)
    last = rounds_known[-1] if rounds_known else None
    if last and publishable and not record.length_told:
        cards.append(("Parties answered", f"{len(last.answered)} of {last.asked}", "in the first round"))
    elif last:
        which = "in the last round" + ("" if record.open_round is None else " that ended")
        cards.append(("Parties answered", f"{len(last.answered)} of {last.asked}", which))
        planned = "" if record.status == "completed" or not record.num_rounds else f" of {record.num_rounds}"
        cards.append(("Rounds", f"{sum(r.ended for r in record.rounds)}{planned}", ""))
        if is_number(last.labelled_share):
            cards.append(("Public rows labelled", share(last.labelled_share), f"of {record.num_public:,}, last round"))
        if is_number(last.agreement):
            cards.append(("Agreement", share(last.agreement), "with the consensus, last round"))
    sent = derived.traffic(record)
    if sent.up is not None:
        sends = f"{record.sends or 'answers'} sent".capitalize()
        cards.append((sends, size(sent.up), f"per party and round; received {size(sent.down)}"))
    if last and is_number(last.kept_share):
        replaced = share(1 - last.kept_share)  # type: ignore[operator]
        cards.append(("Noise replaced", replaced, "of labels or answers, last round; see Privacy"))
    if record.seconds > 0:
        start = f"and {time_span(record.startup_seconds)} before, for start-up" if record.startup_seconds > 0 else ""
        cards.append(("Time", time_span(record.seconds), start))
    boxes = (
        tag("div", tag("dt", label), tag("dd", value, *([tag("small", more)] if more else [])))
        for label, value, more in cards
    )
    return tag("dl", *boxes, class_="keys")


def _lost(both: list[tuple[PartyRecord, float, float]]) -> str:
    lost = sum(after < alone for _, alone, after in both)
    return f"; worse: {lost}" if lost else ""


def _plots(record: RunRecord, publishable: bool) -> Html:
    makers: tuple[Callable[[RunRecord], Plot], ...] = (
        accuracy_plot,
        home_plot,
        class_mix_plot,
        public_fit_plot,
        class_gain_plot,
        confusion_plot,
        reliability_plot,
        rounds_plot,
        bytes_plot,
    )
    ended = dataclasses.replace(record, rounds=derived.heard(record))
    try:
        drawn = [make(ended) for make in makers]
    except MissingExtraError as error:
        return tag("section", tag("h2", "Plots"), tag("p", str(error), class_="warn"))
    figures = []
    for plot in drawn:
        if plot.svg:
            picture = tag("div", Html(plot.svg), class_="plot", tabindex="0", role="img", aria_label=plot.title)
            figures.append(tag("figure", picture, tag("figcaption", plot.caption)))
        elif plot.caption and not publishable:  # the top of a publishable page says once what is left out
            figures.append(tag("p", tag("b", f"{plot.title}. "), plot.caption, class_="soft"))
    return tag("section", tag("h2", "Plots"), *figures) if figures else Html("")

"""The page of a run: one HTML file that loads nothing else, neither scripts nor fonts nor anything from a network."""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
from pathlib import Path

from fedkd_flwr.record.run_record import WITHHELD, RunRecord
from fedkd_flwr.report import claims, results, tables
from fedkd_flwr.report.formatting import count, is_number, plain, rounds_text, size
from fedkd_flwr.report.html import drawn, save_page
from fedkd_flwr.report.model_plots import confusion_plot, numbers_plot
from fedkd_flwr.report.model_warnings import model_warnings
from fedkd_flwr.report.recommendation import losers_warning, own_rows_finding
from fedkd_flwr.report.run_plots import accuracy_plot, own_rows_plot, rounds_plot
from fedkd_flwr.report.sentences import note_sentence, reason_sentence
from fedkd_flwr.report.status import progress, run_status
from fedkd_flwr.report.summary import Line, consensus_line, known_rounds, left_out, summary, traffic
from fedkd_flwr.report.thresholds import curves_plot, threshold_table, thresholds_explained

__all__ = ["boxes", "headline", "write_page"]

_IN_SECTIONS = ("consensus", "public set fit", "lowest agreement by party")
_PLOTS = (accuracy_plot, own_rows_plot, numbers_plot, confusion_plot, curves_plot, rounds_plot)


def write_page(record: RunRecord, path: Path, *, publishable: bool = False) -> Path:
    """Write the page of a completed, failed or running run, in a new folder too, and return its path.

    All names and texts in the record are escaped, so they may be hostile. A ``publishable`` page leaves out what was
    computed from private rows or from votes without noise (`RunRecord.publishable`). Without matplotlib the page has
    its tables but no plots, and says how to install them.
    """
    shown = record.publishable() if publishable else record
    status = run_status(shown, rounds_told=not publishable or shown.length_told)
    title = headline(shown) if status.word == "completed" else status.headline
    ended = dataclasses.replace(shown, rounds=known_rounds(shown))
    plots, missing = drawn(_PLOTS, ended)
    where = plain(shown.config.get("output-dir") or "")
    words = ["fedkd", "report", plain(shown.run_id, 40), *(("--output-dir", where) if where else ())]
    return save_page(
        path,
        "run.html.md",
        title=f"{plain(shown.algorithm, 40)}, run {plain(shown.run_id, 40)}: {title}",
        record=shown,
        publishable=publishable,
        headline=title,
        status=status,
        reason="withheld from publication" if shown.reason == WITHHELD else shown.reason or "not recorded",
        progress=progress(shown),
        command=shlex.join(words),
        warnings=[*claims.unproven(shown.claims), *model_warnings(shown)],
        losers=losers_warning(shown),
        notes=[note_sentence(note) for note in shown.notes],
        summary=boxes(shown, publishable=publishable),
        plots=[plot for plot in plots if plot.svg or (plot.caption and not publishable)],
        missing=missing,
        claims=claims.ordered(shown.claims),
        claim_groups=_claim_groups(claims.ordered(shown.claims)),
        claim_meaning=claims.claim_meaning,
        thresholds=threshold_table(shown),
        thresholds_explained=thresholds_explained,
        simulation_only=results.simulation_only(shown),
        known_rounds=known_rounds(shown),
        left_out=left_out(shown),
        num_parties=max(shown.config.get("num-parties") or 0, len(shown.parties), *(r.asked for r in shown.rounds), 0),
        toml=_changed_settings(shown),
        privacy=claims,
        consensus=consensus_line(shown),
        results=results,
        tables=tables,
        count=count,
        reason_sentence=reason_sentence,
        rounds_text=rounds_text,
    )


def boxes(record: RunRecord, *, publishable: bool = False) -> list[Line]:
    """Return the figures for the top of the page, the parties' first; some have a section of their own instead."""
    lines = [one for one in summary(record, publishable=publishable) if one.label not in _IN_SECTIONS]
    privacy = Line("privacy", *claims.headline(record))
    return [*(one for one in lines if one.group), privacy, *(one for one in lines if not one.group)]


def _claim_groups(found: list[claims.Claim]) -> list[tuple[str, str, int, list[claims.Claim]]]:
    """Return the claims that may be passed on and the others: (title, warning, number of the first, claims)."""
    shown, private = ([one for one in found if claims.public(one) is public] for public in (True, False))
    withheld = all(one.get("epsilon") == WITHHELD for one in private)
    title = "Numbers withheld" if withheld else "For the operator only"
    warning = "The numbers below were computed from private data and reveal something about them."
    groups = [("May be passed on", "", 1, shown), (title, "" if withheld else warning, len(shown) + 1, private)]
    return [group for group in groups if group[3]]


def _changed_settings(record: RunRecord) -> str:
    """Return the settings that are not the defaults, as TOML."""
    wanted = record.config if record.changed is None else {*record.changed, "algorithm", "seed"}
    lines = []
    for key, value in record.config.items():
        if key in wanted and (isinstance(value, str | bool | int) or is_number(value)):
            bare = re.fullmatch(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*", key)
            name = key if bare else json.dumps(key, ensure_ascii=False)
            lines.append(f"{name} = {json.dumps(value, ensure_ascii=False)}")
    return "\n".join(lines)


def headline(record: RunRecord) -> str:
    """Return what a run that completed found, in a sentence or two."""
    rows = results.rows_used(record)
    figure = results.figure_used(record, rows)
    what = "" if figure == "accuracy" else f"{results.figure_name(figure)} "
    both = results.pairs(record, rows, figure)
    if both:
        alone, after = results.means(both)
        verb = "party reaches" if len(both) == 1 else "parties reach"
        average = "" if len(both) == 1 else " on average"
        found = f"With the federation {len(both)} {verb} {what}{after:.2f}{average}; alone {alone:.2f}"
        found += results.rarest_in_brackets(record, rows)
        if figure == "r2" and (errors := results.pairs(record, rows, "rmse")):
            before, with_it = (results.written(one, "rmse") for one in results.means(errors))
            found += f" (RMSE {with_it}, alone {before})"
        home = own_rows_finding(record) if rows == "common" else ""
        return f"{found}. {home[:1].upper()}{home[1:]}" if home else found
    if is_number(record.server_accuracy):
        figure = results.figure_used(record, "common")
        what = "" if figure == "accuracy" else f"{results.figure_name(figure)} "
        alone_only = results.spread(results.known(p.solo, rows, figure) for p in record.parties)
        solo = f"; a party alone {alone_only.mean:.2f} on average" if alone_only else ""
        return f"The server's model reaches {what}{results.known(record.server, 'common', figure) or 0.0:.2f}{solo}"
    parties = count(len(record.parties), "party", "parties")
    up, _ = traffic(record)
    if up is not None:
        rounds = count(len(record.rounds), "round")
        return f"{parties} exchanged {record.sends or 'answers'} in {rounds}: {size(up)} sent per party and round"
    figure, words = claims.headline(record)
    bounded = any(claims.bounded(claim) for claim in record.claims)
    return f"{parties} took part; privacy: {figure}" + (f", {words}" if bounded else "")

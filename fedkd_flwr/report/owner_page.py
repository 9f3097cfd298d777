"""The page that a silo's owner gets: both models of one party on its own rows. It is made and stays at the silo."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fedkd_flwr.errors import MissingExtraError
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.report import derived, sections
from fedkd_flwr.report.class_gain_plot import class_gain_plot
from fedkd_flwr.report.class_mix_plot import class_mix_plot
from fedkd_flwr.report.confusion_plot import confusion_plot
from fedkd_flwr.report.formatting import plain
from fedkd_flwr.report.html import Html, save_document, table, tag
from fedkd_flwr.report.metrics_section import metrics
from fedkd_flwr.report.recommendation import Recommendation, recommendation
from fedkd_flwr.report.reliability_plot import reliability_plot
from fedkd_flwr.report.useless import useless

__all__ = ["owner_advice", "write_owner_page"]

_MODELS = {
    "federated": "learnt from your rows and from the federation's labels",
    "alone": "learnt from your rows alone",
    "extended": "learnt from both, and reads your own columns too",
}


def owner_advice(record: RunRecord) -> Recommendation | None:
    """Return which model the party of the record should use; None without both models measured on its own rows."""
    figure = derived.figure_used(record, "own")
    return recommendation(record.parties[0], classes=record.classes, figure=figure)


def write_owner_page(record: RunRecord, path: Path, *, models: Mapping[str, Path]) -> Path:
    """Write the page of one party for its owner, and return its path.

    Parameters
    ----------
    record : RunRecord
        What this party knows of the run: a single `PartyRecord`, with all metrics on its own rows.
    path : Path
        The file to write, readable by its owner only. A missing folder is created, and an existing page is replaced.
    models : mapping of str to Path
        Where its models lie: ``federated`` and ``alone``.

    Raises
    ------
    OSError
        If the file cannot be written.

    Notes
    -----
    Without matplotlib the page has its tables but no pictures, and says how to install them.
    """
    [party] = record.parties
    advice = owner_advice(record)
    if advice is None:
        headline = "There is one model only, or none was measured"
    elif advice.verdict == "no recommendation":
        headline = "Your own test rows do not tell which model is better"
    else:
        headline = f"Recommended: {advice.verdict}"
    top = [
        tag("p", f"{record.algorithm} · run {record.run_id} · {plain(party.name, 60)}", class_="soft"),
        tag("h1", headline),
        *([tag("p", advice.why)] if advice else []),
        *(tag("p", warning, class_="bad") for warning in useless(record)),
        tag(
            "p",
            "This page is for the owner of this silo. It was computed here from private rows, lies in the state-dir "
            "with the models, and is sent to nobody. A privacy claim of the run does not cover it: do not pass it on.",
            class_="soft",
        ),
    ]
    files = [(_MODELS[kind], str(file)) for kind, file in models.items()]
    kept: list[Html] = [table(["model", "file"], files, label="Your models")] if files else []
    if len(files) > 1:
        kept.append(tag("p", "They were made in this run. Use any of them: `fedkd predict FILE rows.csv`."))
    if party.own_columns:
        gain, named = derived.own_gain(party, "own"), plain(", ".join(party.own_columns), 200)
        said = "was not measured: there are no own test rows" if gain is None else f"is {gain:+.4f} in accuracy"
        said += "" if "extended" in models else "; on your rows they did not help, so no model reads them"
        kept.append(tag("p", f"What your own columns ({named}) add to the model with the federation {said}."))
    return save_document(
        path,
        f"{plain(party.name, 40)} in run {plain(record.run_id, 40)}: {headline}",
        tag("header", *top),
        tag("section", tag("h2", "Your models"), *(kept or [tag("p", "No model could be kept.")])),
        _pictures(record),
        tag("section", tag("h2", "Metrics"), *metrics(record)),
        tag("section", tag("h2", "What the run asked"), *sections.configuration(record)),
    )


def _pictures(record: RunRecord) -> Html:
    try:
        drawn = [make(record) for make in (class_gain_plot, confusion_plot, reliability_plot, class_mix_plot)]
    except MissingExtraError as error:
        return tag("section", tag("h2", "Pictures"), tag("p", str(error), class_="warn"))
    figures = [
        tag(
            "figure",
            tag("div", Html(plot.svg), class_="plot", tabindex="0", role="img", aria_label=plot.title),
            tag("figcaption", plot.caption),
        )
        for plot in drawn
        if plot.svg
    ]
    return tag("section", tag("h2", "Pictures"), *figures) if figures else Html("")

"""The page that a silo's owner gets: both models of one party on its own rows. It is made and stays at the silo."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.report import results, tables
from fedkd_flwr.report.class_plots import class_mix_plot, confusion_plot, reliability_plot
from fedkd_flwr.report.formatting import plain
from fedkd_flwr.report.html import Table, drawn, save_page
from fedkd_flwr.report.model_warnings import model_warnings
from fedkd_flwr.report.recommendation import Recommendation, recommendation

__all__ = ["owner_advice", "write_owner_page"]

_MODELS = {
    "federated": "learnt from your rows and from the federation's labels",
    "alone": "learnt from your rows alone",
}


def owner_advice(record: RunRecord) -> Recommendation | None:
    """Return which model the party of the record should use; None without both models measured on its own rows."""
    figure = results.figure_used(record, "own")
    return recommendation(record.parties[0], classes=record.classes, figure=figure)


def write_owner_page(record: RunRecord, path: Path, *, models: Mapping[str, Path]) -> Path:
    """Write the page of one party for its owner, and return its path.

    ``record``: what this party knows of the run: a single `PartyRecord`, with all metrics on its own rows. ``path``:
    the file to write, readable by its owner only. A missing folder is created, and an existing page is replaced.
    ``models``: where its models lie: ``federated`` and ``alone``.

    Raises `OSError` if the file cannot be written.

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
    plots, missing = drawn((class_mix_plot, confusion_plot, reliability_plot), record)
    return save_page(
        path,
        "owner.html.md",
        title=f"{plain(party.name, 40)} in run {plain(record.run_id, 40)}: {headline}",
        record=record,
        headline=headline,
        advice=advice,
        warnings=model_warnings(record),
        models=Table("Your models", ["model", "file"], [(_MODELS[kind], str(file)) for kind, file in models.items()]),
        plots=[plot for plot in plots if plot.svg],
        missing=missing,
        results=results,
        tables=tables,
    )

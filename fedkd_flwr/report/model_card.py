"""A model's card in Markdown: what it is, what it learnt from, how good it is, what is claimed and what is not.

A card says no more than the run's record. What could tell something of private rows beyond the run's publishable
claims (the figures under *Evaluation*, a party's numbers of rows) is marked as for the operator.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from fedkd_flwr.metrics import Metrics
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.report.claims import claim_cells, claim_meaning, ordered
from fedkd_flwr.report.formatting import plain, share
from fedkd_flwr.report.html import environment
from fedkd_flwr.report.model_warnings import warnings_of
from fedkd_flwr.report.results import FIGURES, class_name
from fedkd_flwr.report.run_privacy import no_claim, what_leaves
from fedkd_flwr.report.sentences import note_sentence

__all__ = ["model_card"]

_ROWS = {"common": "common test rows", "own": "the parties' own test rows"}
_WITHOUT_ROWS = (
    "fedkd_flwr.models.binned.",
    "sklearn.tree.",
    "sklearn.ensemble.",
    "sklearn.linear_model.",
    "sklearn.pipeline.",
    "sklearn.preprocessing.",
    "xgboost.",
    "fedkd_flwr.models.estimators.RuleFit",
    "fedkd_flwr.models.networks.",
    "fedkd_flwr.text.transformers.",
)
_WITH_ROWS = ("fedkd_flwr.models.estimators.NearestNeighbours", "sklearn.neighbors.", "sklearn.svm.")


def model_card(
    record: RunRecord, facts: Mapping[str, Any], *, party: str, kind: str, at_silo: bool, release: str
) -> str:
    """Return the card of one model.

    ``record``: the run's record; at a silo, what the silo knows of the run.
    ``facts``: what the model's file says, as `fedkd_flwr.app.model_cards.model_facts` reads it.
    ``party``: whose model it is; "" for the server's.
    ``kind`` (one of "federated", "alone"): whether a party's model learnt from the federation's labels too.
    ``at_silo``: whether the card is written at a silo.
    ``release``: the version of this package.
    """
    public, known = record.publishable(), record.party(party) if party else None
    special = ", trained alone" if kind == "alone" else ""
    of_party = {} if known is None else {"alone": known.solo}
    measured = {
        _ROWS.get(rows, rows): m
        for rows, m in (record.server if known is None else of_party.get(kind, known.federated)).items()
    }
    shape = facts["image shape"]
    text = (
        environment(_cell)
        .get_template("card.md")
        .render(
            record=record,
            facts=facts,
            party=party,
            at_silo=at_silo,
            whose=f"{party}'s model{special}" if party else "the server's model",
            kinds=", ".join(name.rpartition(".")[2] for name in facts["types"]),
            reads=f"images of shape {tuple(shape)}, pixels 0 to 255"
            if shape
            else f"{len(facts['reads'])} columns, see below",
            rows_in_the_file=_rows_in(facts["types"], party),
            run=" ".join(
                filter(None, (str(record.config.get("name", "")), record.run_id, record.started, record.status))
            ),
            limits=_limits(record, facts, party),
            columns=[column for column in facts["columns"] if column["name"] in facts["reads"]],
            training_data=_training_data(record, party, kind),
            what_leaves=what_leaves(record),
            parties=[one.name for one in public.parties],
            settings=[(key, value) for key in record.changed or () if (value := public.config.get(key)) is not None],
            no_claim=no_claim(record),
            claims=[(claim_meaning(claim), claim_cells(claim)) for claim in ordered(public.claims)],
            measured=measured,
            figures=_figures(list(measured.values())),
            warnings=_warnings(record, measured, party),
            notes=[note_sentence(note) for note in record.notes],
            ranked=_ranked(record, list(measured.values())),
            by_class=[(rows, classes) for rows, m in measured.items() if (classes := _by_class(record, m))],
            versions={**record.versions, "fedkd-flwr": release}.items(),
            listed=_listed,
        )
    )
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def _cell(value: Any) -> str:
    """Return foreign text so that it stays in its cell: no line break, no bar, no markup of its own."""
    return plain(str(value).replace("\n", " ")).replace("<", "&lt;").replace("|", "\\|")


def _listed(names: Sequence[Any]) -> str:
    """Return names, of many the first 40 and how many there are."""
    return ", ".join(map(str, names[:40])) + (f", ... ({len(names)} in all)" if len(names) > 40 else "")


def _figures(measured: Sequence[Metrics]) -> list[tuple[str, list[str]]]:
    """Return the number of rows and each figure that is known, for each kind of test rows."""
    rows = [("n", [str(m.n) for m in measured])]
    rows += [
        (name.replace("_", " "), [share(getattr(m, name), 4) for m in measured])
        for name in FIGURES
        if any(getattr(m, name) is not None for m in measured)
    ]
    return [(name, cells) for name, cells in rows if set(cells) != {"–"}]


def _warnings(record: RunRecord, measured: Mapping[str, Metrics], party: str) -> list[str]:
    """Return what a reader must know before any figure: that the model misses a class, or is no better than one answer.

    On the common test rows where it was tested on them, as in the run's table; else on the other ones.
    """
    rows = next((rows for rows, name in _ROWS.items() if name in measured), "")
    who = "This model" if party else "The server's model"
    return list(warnings_of(record, measured[_ROWS[rows]], who=who, rows=rows)) if rows else []


def _ranked(record: RunRecord, measured: Sequence[Metrics]) -> str:
    if all(m.roc_auc is None and m.average_precision is None for m in measured):
        return ""
    if record.num_classes > 2:
        return "means over the classes, of each against the others"
    return f"of class '{class_name(record.classes, 1)}'"


def _by_class(record: RunRecord, found: Metrics) -> list[tuple[str, str, str]]:
    """Return each class, how many test rows it has, and the share of them that the model finds."""
    counts = found.support or [None] * len(found.recall)
    return [
        (class_name(record.classes, c), "–" if n is None else str(n), share(recall if n else None, 4))
        for c, (recall, n) in enumerate(zip(found.recall, counts, strict=True))
    ]


def _rows_in(types: Sequence[str], party: str) -> str:
    whose = f"private rows of {party}" if party else "public rows"
    if any(name.startswith(_WITH_ROWS) for name in types):
        return f"yes: this kind of model keeps rows that it learnt from ({whose}, or rows and labels of both kinds)"
    if types and all(name.startswith(_WITHOUT_ROWS) for name in types):
        return "no row as such; trees and weights are figures of the rows they were learnt from"
    return f"not known for {', '.join(types) or 'this kind of model'}"


def _limits(record: RunRecord, facts: Mapping[str, Any], party: str) -> list[str]:
    found = [
        "A missing number counts as the public rows' median; a missing category, or one not listed below, as none."
        if any(column["kind"] != "text" for column in facts["columns"])
        else "",
        "The words that it knows in a text are those of the public rows."
        if facts["kind"] != "transformer" and any(column["kind"] == "text" for column in facts["columns"])
        else "",
        "It learnt from labels of public rows that other parties' models made: some of them are wrong."
        if record.sends not in ("weights", "sums")
        else "",
        "How raw rows are encoded (medians, scales, categories, words) was learnt from the public rows alone.",
        "Probabilities are the model's own and were not calibrated afterwards.",
        f"It learnt from private rows of {party}: whoever has the file may learn something of them." if party else "",
        "A simulation: the parties were dealt from one data set." if record.simulation else "",
    ]
    if record.status not in ("completed", "running"):
        found.append(f"The run ended as {record.status!r}.")
    return list(filter(None, found))


def _training_data(record: RunRecord, party: str, kind: str) -> list[tuple[str, Any]]:
    found = [
        ("public rows", record.num_public),
        ("public set fingerprint (SHA-256 of rows and schema)", record.fingerprint),
    ]
    if party:
        counts = record.party(party).class_counts
        named = zip(record.classes, counts, strict=False) if len(counts) == len(record.classes) else ()
        text = ", ".join(f"{name}: {n}" for name, n in named) or "not known"
        found.append((f"private rows of {party} by class (for the operator, its own test rows among them)", text))
    others = {"weights": "the parties' weights, averaged", "scores": "public rows with scores that parties sent"}
    others["sums"] = "counts of the parties' rows, with noise"
    sent = others.get(record.sends, "public rows with labels that parties sent")
    whose = "private rows of this party alone" if kind == "alone" else f"private rows of this party, and {sent}"
    return [*found, ("learnt from", whose if party else sent)]

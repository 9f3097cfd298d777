"""A model's card: what it is, what it learnt from, how good it is, what is claimed and what is not. Markdown and JSON.

A card says no more than the run's record. What could tell something of private rows beyond the run's publishable
claims (the figures under *Evaluation*, a party's numbers of rows) is marked as for the operator.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fedkd_flwr.json_values import without_nan
from fedkd_flwr.metrics import Metrics
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.report.claims import claim_cells, claim_meaning, ordered
from fedkd_flwr.report.derived import class_name
from fedkd_flwr.report.formatting import plain
from fedkd_flwr.report.run_privacy import no_claim, what_leaves
from fedkd_flwr.report.useless import useless_model

__all__ = ["ModelCard", "card_text", "model_card"]

CARD_VERSION = 1
_FIGURES = (
    "accuracy",
    "baseline",
    "balanced_accuracy",
    "macro_f1",
    "roc_auc",
    "average_precision",
    "log_loss",
    "brier",
    "calibration_error",
)
_WITHOUT_ROWS = (
    "sklearn.tree.",
    "sklearn.ensemble.",
    "sklearn.linear_model.",
    "sklearn.pipeline.",
    "sklearn.preprocessing.",
    "xgboost.",
    "fedkd_flwr.models.estimators.RuleFit",
    "fedkd_flwr.models.networks.",
    "fedkd_flwr.models.transformers.",
)
_WITH_ROWS = ("fedkd_flwr.models.estimators.NearestNeighbours", "sklearn.neighbors.", "sklearn.svm.")
_SHOWN = 40  # columns and categories in the Markdown; the JSON has all


@dataclass(frozen=True, kw_only=True)
class ModelCard:
    """The card as data; every field is plain JSON. `model_card` says where each comes from."""

    card_version: int = CARD_VERSION
    title: str
    run: dict[str, Any]
    model: dict[str, Any]
    use: dict[str, list[str]]
    limits: list[str]
    training_data: dict[str, Any]
    training: dict[str, Any]
    privacy: dict[str, Any]
    evaluation: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """Return the card as indented JSON text; NaN and infinity become null."""
        return json.dumps(without_nan(dataclasses.asdict(self)), indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def model_card(
    record: RunRecord, facts: Mapping[str, Any], *, party: str, kind: str, at_silo: bool, release: str
) -> ModelCard:
    """Return the card of one model.

    Parameters
    ----------
    record : RunRecord
        The run's record; at a silo, what the silo knows of the run.
    facts : mapping
        What the model's file says, as `fedkd_flwr.app.model_cards.model_facts` reads it.
    party : str
        Whose model it is; "" for the server's.
    kind : {"federated", "alone", "extended"}
        Whether a party's model learnt from the federation's labels too, and reads columns that only it has.
    at_silo : bool
        Whether the card is written at a silo.
    release : str
        The version of this package.
    """
    public, known = record.publishable(), record.party(party) if party else None
    special = {"alone": ", trained alone", "extended": ", with its own columns too"}.get(kind, "")
    whose = f"{party}'s model{special}" if party else "the server's model"
    of_party = {} if known is None else {"alone": known.solo, "extended": known.extended}
    measured = record.server if known is None else of_party.get(kind, known.federated)
    return ModelCard(
        title=f"{record.algorithm}: {whose} of run {record.run_id}",
        run={
            "id": record.run_id,
            "name": str(record.config.get("name", "")),
            "started": record.started,
            "status": record.status,
            "simulation": record.simulation,
        },
        model={"whose": whose, **facts, "rows in the file": _rows_in(facts["types"], party)},
        use=_use(facts),
        limits=_limits(record, facts, party),
        training_data=_training_data(record, party, kind),
        training={
            "algorithm": record.algorithm,
            "what leaves a party": what_leaves(record),
            "rounds": None if at_silo else len(record.rounds),
            "parties": None if at_silo else [one.name for one in public.parties],
            "settings changed": {
                key: public.config[key] for key in record.changed or () if public.config.get(key) is not None
            },
            "settings": public.config,
        },
        privacy=_privacy(record, public, party, at_silo),
        evaluation={
            "note": "Computed from private rows, test rows and votes, which no privacy claim covers: for the operator"
            + (" of this silo" if at_silo else "")
            + ". Leave this section out of a card that you pass on.",
            "warnings of the model": _warnings(record, measured, party),
            "figures": {_ROWS.get(rows, rows): _figures(found) for rows, found in measured.items()},
            "auc and average precision are": _ranked(record, measured),
            "by class": {_ROWS.get(rows, rows): _by_class(record, found) for rows, found in measured.items()},
            "warnings of the run": [plain(note) for note in record.notes],
        },
        versions={**record.versions, "fedkd-flwr": release},
    )


_ROWS = {"common": "common test rows", "own": "the parties' own test rows"}


def _figures(found: Metrics) -> dict[str, Any]:
    """Return the figures that are one number, with how many rows they were computed from."""
    values = {"n": found.n, **{name: getattr(found, name) for name in _FIGURES}}
    return {name.replace("_", " "): value for name, value in values.items() if value is not None}


def _warnings(record: RunRecord, measured: Mapping[str, Metrics], party: str) -> list[str]:
    """Return what a reader must know before any figure: that the model misses a class, or is no better than one answer.

    On the common test rows where it was tested on them, as in the run's table; else on the other ones.
    """
    rows = next((rows for rows in _ROWS if rows in measured), "")
    who = "This model" if party else "The server's model"
    return list(useless_model(record, measured[rows], who=who, rows=rows)) if rows else []


def _ranked(record: RunRecord, measured: Mapping[str, Metrics]) -> str:
    if all(found.roc_auc is None and found.average_precision is None for found in measured.values()):
        return ""
    if record.num_classes > 2:
        return "means over the classes, of each against the others"
    return f"of class '{class_name(record.classes, 1)}'"


def _by_class(record: RunRecord, found: Metrics) -> dict[str, dict[str, Any]]:
    """Return the share of each class's test rows that the model finds, and how many there are."""
    counts = found.support or [None] * len(found.recall)
    return {
        class_name(record.classes, c): {"test rows": n, "recall": share if n else None}
        for c, (share, n) in enumerate(zip(found.recall, counts, strict=True))
    }


def _rows_in(types: Sequence[str], party: str) -> str:
    whose = f"private rows of {party}" if party else "public rows"
    if any(name.startswith(_WITH_ROWS) for name in types):
        return f"yes: this kind of model keeps rows that it learnt from ({whose}, or rows and labels of both kinds)"
    if types and all(name.startswith(_WITHOUT_ROWS) for name in types):
        return "no row as such; trees and weights are figures of the rows they were learnt from"
    return f"not known for {', '.join(types) or 'this kind of model'}"


def _use(facts: Mapping[str, Any]) -> dict[str, list[str]]:
    classes, file = facts["classes"], facts["file"]
    return {
        "intended": [
            f"To label a row with one of the {len(classes)} classes of column {facts['label']!r}.",
            "For rows of the kind that the parties hold, with the columns below, measured and written as there.",
        ],
        "not intended": [
            "Decisions about people without somebody who checks them.",
            "Rows of another origin, or other classes: the model answers with one of its classes all the same.",
        ],
        "how": [f"fedkd predict {file} rows.csv > out.csv", f'fedkd_flwr.load("{file}").predict(table)'],
    }


def _limits(record: RunRecord, facts: Mapping[str, Any], party: str) -> list[str]:
    own = _listed(facts.get("own columns", ()))
    found = [
        "A missing number counts as the public rows' median; a missing category, or one not listed below, as none."
        if any(column["kind"] != "text" for column in facts["columns"])
        else "",
        "The words that it knows in a text are those of the public rows."
        if facts["kind"] != "transformer" and any(column["kind"] == "text" for column in facts["columns"])
        else "",
        "It learnt from labels of public rows that other parties' models made: some of them are wrong."
        if record.sends != "weights"
        else "",
        "How raw rows are encoded (medians, scales, categories, words) was learnt from the public rows alone"
        + (f", but for columns that only {party} has ({own}): that was learnt from its private rows." if own else "."),
        "Probabilities are the model's own and were not calibrated afterwards.",
        f"It learnt from private rows of {party}: whoever has the file may learn something of them." if party else "",
        "A simulation: the parties were dealt from one data set." if record.simulation else "",
    ]
    if record.status not in ("completed", "running"):
        found.append(f"The run ended as {record.status!r}.")
    return list(filter(None, found))


def _training_data(record: RunRecord, party: str, kind: str) -> dict[str, Any]:
    data: dict[str, Any] = {
        "public rows": record.num_public,
        "public set fingerprint (SHA-256 of rows and schema)": record.fingerprint,
    }
    if party:
        counts = record.party(party).class_counts
        named = dict(zip(record.classes, counts, strict=False)) if len(counts) == len(record.classes) else {}
        data[f"private rows of {party} by class (for the operator, its own test rows among them)"] = named
    others = {"weights": "the parties' weights, averaged", "scores": "public rows with scores that parties sent"}
    sent = others.get(record.sends, "public rows with labels that parties sent")
    learnt_from = "private rows of this party alone" if kind == "alone" else f"private rows of this party, and {sent}"
    data["learnt from"] = learnt_from if party else sent
    return data


def _privacy(record: RunRecord, public: RunRecord, party: str, at_silo: bool) -> dict[str, Any]:
    if at_silo:
        return {
            "claims": None,
            "note": "What the run claims stands in the server's record; what this silo's rows have spent, in its own "
            "ledger (`fedkd ledger STATE_DIR`). No claim covers this file: it learnt from this silo's private rows.",
        }
    note = "These are the run's claims, in the words of its record; nothing else is promised."
    if party:
        note += f" They are about what left the parties. No claim covers this file: it learnt from rows of {party}."
    if not public.claims:
        said = f"No privacy guarantee: {no_claim(record)}." if record.rounds else "Nothing is claimed."
        return {"claims": [], "note": said + (" This file learnt from private rows." if party else "")}
    claims = [{"meaning": claim_meaning(claim), **claim} for claim in ordered(public.claims)]
    return {"claims": claims, "note": note}


# --------------------------------------------------------------------------------------------------------- Markdown


def card_text(card: ModelCard) -> str:
    """Return the card as Markdown."""
    model, training = card.model, card.training
    facts = {
        "file": f"`{_cell(model['file'])}`, {model['bytes']:,} bytes, SHA-256 `{model['sha256']}`",
        "model": ", ".join(name.rpartition(".")[2] for name in model["types"]) or model["kind"],
        "answers with": f"one of {len(model['classes'])} classes: {_listed(model['classes'])}",
        "reads": _reads(model),
        "rows in the file": model["rows in the file"],
        "run": " ".join(filter(None, (card.run["name"], card.run["id"], card.run["started"], card.run["status"]))),
    }
    parties = training["parties"]
    done = {
        "algorithm": training["algorithm"],
        "what leaves a party": training["what leaves a party"],
        "parties": "not known at a silo" if parties is None else f"{len(parties)}: {_listed(parties)}",
        "rounds": "not known at a silo" if training["rounds"] is None else training["rounds"],
        **{f"`{key}`": f"`{value}`" for key, value in training["settings changed"].items()},
    }
    parts = [
        f"# {_cell(card.title)}",
        _table(facts),
        "## Uses",
        _bullets([f"Intended: {line}" for line in card.use["intended"]]),
        _bullets([f"Not intended: {line}" for line in card.use["not intended"]]),
        "```\n" + "\n".join(card.use["how"]) + "\n```",
        "## Limits",
        _bullets(card.limits),
        "## Columns",
        *_columns(model),
        "## Training data",
        _table({key: _value(value) for key, value in card.training_data.items()}),
        "## Training",
        _table(done),
        "## Privacy",
        *_privacy_text(card.privacy),
        "## Evaluation",
        *_evaluation_text(card.evaluation),
        "## Versions",
        _table(card.versions),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _reads(model: Mapping[str, Any]) -> str:
    shape = model["image shape"]
    return f"images of shape {tuple(shape)}, pixels 0 to 255" if shape else f"{len(model['reads'])} columns, see below"


def _columns(model: Mapping[str, Any]) -> list[str]:
    columns = [column for column in model["columns"] if column["name"] in model["reads"]]
    if not columns:
        return [f"None: {_reads(model)}."]
    shown = columns[:_SHOWN]
    more = [f"... and {len(columns) - _SHOWN} more; the JSON lists all."] if len(columns) > _SHOWN else []
    return [_table({c["name"]: _column(c) for c in shown}), *more]


def _column(column: Mapping[str, Any]) -> str:
    """Return a column's kind, and its categories or how its cells are written."""
    kind = f"{column['kind']} {_listed(column['categories'])}".strip()
    return f"{kind}: {column['written']}" if column.get("written") else kind


def _privacy_text(privacy: Mapping[str, Any]) -> list[str]:
    parts = [_cell(privacy["note"], table=False)]
    for number, claim in enumerate(privacy["claims"] or (), 1):
        cells = claim_cells({key: value for key, value in claim.items() if key != "meaning"})
        parts += [f"**Claim {number}.** {_cell(claim['meaning'], table=False)}", _table(cells)]
    return parts


def _evaluation_text(evaluation: Mapping[str, Any]) -> list[str]:
    figures: Mapping[str, Mapping[str, Any]] = evaluation["figures"]
    warnings = _bullets(evaluation["warnings of the run"])
    if not figures:
        return ["Not measured, or not known here.", *([evaluation["note"], warnings] if warnings else [])]
    names = list(dict.fromkeys(name for found in figures.values() for name in found))
    lines = [["figure", *figures], ["---"] * (len(figures) + 1)]
    lines += [[name, *(_number(found.get(name)) for found in figures.values())] for name in names]
    useless = _bullets([f"WARNING: {line}" for line in evaluation["warnings of the model"]])
    ranked = evaluation["auc and average precision are"]
    which = [f"Roc auc and average precision are {_cell(ranked, table=False)}."] if ranked else []
    return [evaluation["note"], useless, _lines(lines), *which, *_recalls(evaluation["by class"]), warnings]


def _recalls(by_class: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> list[str]:
    """Return a table for each kind of test rows: the share of each class's rows that the model finds."""
    tables = []
    for rows, classes in by_class.items():
        if classes:
            lines = [["class", "test rows", f"recall on {rows}"], ["---"] * 3]
            lines += [
                [_cell(name), _number(one["test rows"]), _number(one["recall"])]
                for name, one in list(classes.items())[:_SHOWN]
            ]
            tables.append(_lines(lines))
            if len(classes) > _SHOWN:
                tables.append(f"... and {len(classes) - _SHOWN} more classes; the JSON lists all.")
    return tables


def _lines(lines: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _number(value: Any) -> str:
    return "–" if value is None else f"{value:.4f}" if isinstance(value, float) else str(value)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {one}" for key, one in value.items()) or "not known"
    return str(value)


def _table(rows: Mapping[str, Any]) -> str:
    lines = [f"| {_cell(key)} | {_cell(value)} |" for key, value in rows.items()]
    return "\n".join(["| | |", "| --- | --- |", *lines]) if lines else ""


def _bullets(lines: Sequence[str]) -> str:
    return "\n".join(f"- {_cell(line, table=False)}" for line in lines)


def _listed(names: Sequence[Any]) -> str:
    shown = ", ".join(str(name) for name in names[:_SHOWN])
    return f"{shown}, ... ({len(names)} in all)" if len(names) > _SHOWN else shown


def _cell(value: Any, *, table: bool = True) -> str:
    """Return foreign text so that it stays where it stands: no line break, no bar in a table, no markup of its own."""
    text = plain(str(value).replace("\n", " ")).replace("<", "&lt;")
    return text.replace("|", "\\|") if table else text

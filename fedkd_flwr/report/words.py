"""Sentences of the page: why a party was left out and what to do, and what a privacy claim means."""

from __future__ import annotations

import math
from typing import Any

from fedkd_flwr.errors import Code
from fedkd_flwr.report.facts import is_number, plain
from fedkd_flwr.run_record import WITHHELD, RunRecord

__all__ = ["CLAIM_FIELDS", "REASONS", "claim_cells", "claim_meaning", "reason_sentence", "unprotected"]

_OWN_LOG = "The full text of the error is in that party's own log"

REASONS: dict[str, str] = {
    Code.BAD_INSTRUCTION: "The party could not read what the server sent. Install the same release of "
    "fedkd-flwr on both sides.",
    Code.BUDGET_EXCEEDED: "The party's privacy budget does not cover what it was asked for, beside what it has "
    "spent before, in all runs. Ask for less (more noise, fewer rows or rounds), or its operator raises "
    "epsilon-budget or delta-budget in its node config; the server cannot. The numbers are in that party's own log.",
    Code.CLASS_OUTSIDE_SCHEMA: "The party's rows hold a class that the public schema does not name. Correct the "
    "label column, or add the class to schema.toml at everybody.",
    Code.INTERNAL: f"The party's code raised an error nobody foresaw. {_OWN_LOG}.",
    Code.LEDGER_LOST: "The party's record of the privacy it has spent is damaged, gone, or older than it was, so the "
    f"party answers nothing. Its operator restores the record from a backup. {_OWN_LOG}.",
    Code.MISSING_EXTRA: "The party's model needs an optional library that is not installed there. Install the "
    f"extra, for example pip install 'fedkd-flwr[xgboost]'. {_OWN_LOG}.",
    Code.MISSING_FILE: "A file the party was told to read is not there. Correct data-path or public-path in its "
    "node config.",
    Code.NO_ROWS: "The party has no private rows, or fewer than the algorithm cuts them into. Give it more rows, "
    "or lower teachers-per-student.",
    Code.NOT_ALLOWED: "The party's own rules forbid what it was asked for. Its operator can add the algorithm to "
    "allow in the node config; the server cannot.",
    Code.PRIVACY_REQUIRED: "The party takes part only under differential privacy, and this run adds no noise. "
    "Choose a mechanism for the run, or the party's operator lifts require-privacy.",
    Code.PUBLIC_SET_MISMATCH: "The party holds another public set, schema or preprocessing version than the "
    "server. Hand everybody the same public file and schema.toml.",
    Code.STATE_LOST: "The party's state of an earlier round is gone or older than the server expects. Keep its "
    "state-dir on a disk that survives restarts, and start a new run.",
    Code.WITHHELD: "The reason is known to the party or to whoever runs the federation, and is not said here: it may "
    "tell of private rows.",
    Code.WRONG_CONFIG: f"The party's own settings are wrong. {_OWN_LOG}.",
    Code.WRONG_DATA: f"The party's file does not fit the schema: columns, types or values. {_OWN_LOG}.",
    "no-reply": "No reply came before the deadline. Look whether the node is running and connected, or raise the "
    "deadline.",
    "offline": "Its node was not connected when the round started. Look whether the node is running and connected.",
    "bad-name": "It gave a name that is too long or not printable. Give it a short plain name in its node config.",
    "unknown-code": "It gave a reason this release does not know. Install the same release everywhere.",
    "party-crashed": "The node's process ended without a reply: stopped, or out of memory. Look at that machine's log.",
    "duplicate-name": "A second node used the name of a party that is already bound to another node. Give every "
    "party a name of its own in its node config.",
    "node-changed-name": "A node called itself by another party's name than before. A node speaks for one party "
    "during a run; restart the run if the move is meant.",
    "wrong-public-set": "The reply was computed on another public set than this run's. Hand everybody the same "
    "public file and schema.toml.",
    "wrong-length": "The reply has another number of labels than there are public rows. Install the same release "
    "of fedkd-flwr on both sides.",
    "class-out-of-range": "The reply holds a label that is none of the schema's classes. Check the party's model, "
    "or its code if it is home-made.",
    "wrong-classes": "The reply was written for another number of classes than the schema names. Hand everybody the "
    "same schema.toml.",
    "wrong-round": "The reply belongs to another round: a late or repeated answer. The party is asked again in the "
    "next round; if it is always late, raise the deadline.",
    "no-party-name": "The node did not say for which party it speaks. Give the party a name in its node config.",
    "not-a-number": "The reply holds a number that is none. Check the party's model and metrics. Its own log names "
    "the value.",
    "bad-payload": "The reply could not be read: wrong type, damaged, or not of the size it announced. Install "
    "the same release of fedkd-flwr on both sides.",
    "stale-base": "The reply listed changes against labels that the server does not hold. The party sends all "
    "its labels in the next round.",
    "unknown-version": "The reply is in a format this release does not know. Install the same release of "
    "fedkd-flwr on both sides.",
}


def reason_sentence(code: str) -> str:
    """Return what a code means and the way out; a code without a sentence says so.

    >>> reason_sentence("no-reply")[:47]
    'No reply came before the deadline. Look whether'
    """
    return REASONS.get(
        code,
        f"This release of the page has no explanation for the code {plain(code, 60)!r}. "
        "Look at the party's own log and the server's.",
    )


# heading -> the keys a claim may use for it
CLAIM_FIELDS: dict[str, tuple[str, ...]] = {
    "protects": ("unit",),
    "against": ("adversary",),
    "epsilon": ("epsilon",),
    "delta": ("delta",),
    "data sets compared": ("neighbouring relation", "neighboring relation"),
    "may be published": ("publishable",),
    "basis": ("basis",),
}


def claim_cells(claim: dict[str, Any]) -> dict[str, str]:
    """Return one claim as heading -> text; keys no heading knows are kept at the end.

    >>> claim_cells({"unit": "party", "epsilon": None})["epsilon"]
    'no bound'
    """
    named = {key.lower().replace("_", " ").replace("-", " "): value for key, value in claim.items()}
    cells = {}
    for heading, keys in CLAIM_FIELDS.items():
        value = next((named.pop(key) for key in keys if key in named), "–")
        cells[heading] = _claim_value(heading, value)
    rest = {key: plain(value) for key, value in named.items()}
    return cells | rest


def _claim_value(heading: str, value: object) -> str:
    if heading in ("epsilon", "delta"):
        if is_number(value):
            return f"{value:.4g}"
        return plain(value) if isinstance(value, str) else "no bound"  # infinity is null in JSON
    if heading == "may be published":
        return "yes" if value is True else "no"
    return plain(value)


def claim_meaning(claim: dict[str, Any]) -> str:
    """Return one claim as sentences for a reader who does not know differential privacy."""
    cells = claim_cells(claim)
    epsilon, delta, basis = claim.get("epsilon"), claim.get("delta"), cells["basis"]
    unit = {"record": "one person's record", "party": "everything one party holds"}.get(
        cells["protects"], f"one {cells['protects']}"
    )
    watcher = {"server": "the server, which sees every reply"}.get(cells["against"], cells["against"])
    if epsilon == WITHHELD:
        return "The numbers of this claim depend on private votes: the operator knows them, they are not published."
    if not is_number(epsilon) or basis.startswith("none"):
        return f"No guarantee: nothing is proven about what {watcher} can learn about {unit}."
    odds = math.exp(min(float(epsilon), 700.0))  # type: ignore[arg-type]
    instead = ", or another in its place" if "replace" in cells["data sets compared"] else ""
    text = (
        f"To {watcher}: what was released shifts the odds that {unit} is in the data{instead}, "
        f"by a factor of at most {_factor(odds)}"
    )
    if is_number(delta) and float(delta) > 0:  # type: ignore[arg-type]
        text += f", except with a probability of {_small(float(delta))}"  # type: ignore[arg-type]
    text += "."
    if odds > 100:
        text += " A factor this large protects hardly at all."
    if basis != "proven":
        text += f" This is not proven: its basis is “{basis}”."
    if claim.get("publishable") is not True:
        text += " The numbers were computed from private votes: do not pass them on."
    return text


def _small(probability: float) -> str:
    return f"1 in {1 / probability:,.0f}" if probability < 0.1 else f"{probability:.2g}"


def _factor(odds: float) -> str:
    return f"{odds:.2f}" if odds < 10 else f"{odds:,.0f}" if odds < 1e6 else "more than a million"


_LABELS_ONLY = {"fedkt", "fedct", "pate"}


def unprotected(record: RunRecord) -> list[str]:
    """Return, for a run without privacy claims, what was shared and what that may reveal."""
    rows = f"{record.num_public:,} public rows" if record.num_public else "the public rows"
    classes = f"one of {record.num_classes} classes" if record.num_classes else "a class"
    if record.algorithm.lower() not in _LABELS_ONLY:
        return [
            "This run makes no privacy claim: what parties sent carries no noise, and no bound is known on what "
            "it reveals about their private rows. The algorithm's documentation lists what it sends."
        ]
    measured = any(p.solo or p.federated for p in record.parties) or any(r.accuracy for r in record.rounds)
    also = " Besides labels, parties reported how accurate their models are." if measured else ""
    return [
        f"Each party sent the server labels for {rows}: for every row, {classes} that a model trained on its "
        "private rows gave to it. The labels are shared as they are, without noise. The server combined "
        "them and sent the combined labels back. Private rows, their features, and models did not leave the "
        f"parties.{also}",
        "There is no differential privacy in this run, so no bound on what the labels reveal. They reflect the "
        "private rows: which classes a party knows, where its model errs, and, where a public row resembles a "
        "private one, possibly that this row was trained on (membership inference) or how it was labelled. The "
        "server sees each party's labels; every party sees the combined ones.",
        "Whether this is acceptable depends on how sensitive the private labels are. Parties for whom it is not "
        "should not take part in a run without noise: require-privacy in their node config refuses it.",
    ]

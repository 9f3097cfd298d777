"""Sentences of the page: why a party was left out and what to do, and what a run without claims may reveal."""

from __future__ import annotations

from fedkd_flwr.errors import Code
from fedkd_flwr.report.claims import CLAIM_FIELDS, claim_cells, claim_meaning
from fedkd_flwr.report.facts import LABELS_ONLY, plain
from fedkd_flwr.run_record import RunRecord

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
    Code.SUBSET_FIXED: "The party has drawn its random subset before, of another size or in another way, and never "
    "draws again: two subsets together are not covered by any claim. Ask for the subset it has; its own log names it.",
    Code.SUBSET_LOST: "The party has drawn its random subset before, and the file that says which rows it holds is "
    "gone. It never draws again. Its operator restores the file from a backup, or takes the party out.",
    Code.TOO_FEW_ROWS: "The party has fewer rows than the teachers it is to train, so it would cast fewer votes "
    "than the noise was made for. Lower teachers-per-student for the run, or take the party in with more rows.",
    Code.WITHHELD: "The reason is known to the party or to whoever runs the federation, and is not said here: it may "
    "tell of private rows. That party's own log has it.",
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
    "wrong-weights": "The weights are not those of the server's net: other shapes, or no numbers. Give every party the "
    "same model and model-params.",
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


def unprotected(record: RunRecord) -> list[str]:
    """Return, for a run without privacy claims, what was shared and what that may reveal.

    Nothing for a run that makes claims, whatever they say: the sentences speak of labels without noise.
    """
    if record.claims:
        return []
    if not record.rounds:
        return ["No party was asked for anything: nothing was released, and there is nothing to claim."]
    rows = f"{record.num_public:,} public rows" if record.num_public else "the public rows"
    classes = f"one of {record.num_classes} classes" if record.num_classes else "a class"
    if record.algorithm.lower() not in LABELS_ONLY:
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

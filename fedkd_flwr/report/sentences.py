"""Sentences for the codes that parties send: why one was left out of a round, and notes on its answers."""

from __future__ import annotations

from fedkd_flwr.errors import Code, Note
from fedkd_flwr.record.run_record import NOT_READY
from fedkd_flwr.report.formatting import plain

__all__ = ["NOTES", "REASONS", "note_sentence", "reason_sentence"]

_OWN_LOG = "The full text of the error is in that party's own log"

REASONS: dict[str, str] = {
    Code.BAD_INSTRUCTION: "The party could not read what the server sent. Install the same release of "
    "fedkd-flwr on both sides.",
    Code.BUDGET_EXCEEDED: "The request, added to what the party has spent in all earlier runs, exceeds its privacy "
    "budget. Ask for less (more noise, fewer rows or rounds), or let its operator raise epsilon-budget or delta-budget "
    "in its node config; the server cannot. The numbers are in that party's own log.",
    Code.BUNDLE_NOT_APPROVED: "The node answers runs of approved app bundles only, and this run's is not among them. "
    "Send the bundle to the party's operator, who can look at it and approve it (fedkd node approve).",
    Code.CLASS_OUTSIDE_SCHEMA: "The party's rows hold a class that the public schema does not name. Correct the "
    "label column, or add the class to schema.toml at the server and at every party.",
    Code.HELD_BACK: "The party's steward rejected its answer, or nobody approved it in time, so nothing of it left. "
    "Ask the party: it can see its answers and approve them (fedkd egress pending), and sets how long they wait.",
    Code.INTERNAL: "The party's code, or that of its model, raised an unexpected error. A simulation says where. "
    f"{_OWN_LOG}.",
    Code.LEDGER_LOST: "The party's ledger, which records the privacy it has spent, or its egress log, which records "
    "what has left it, is damaged, missing or older than it was, so the party refuses to answer. Its operator can "
    f"restore it from a backup. {_OWN_LOG}.",
    Code.LIMIT_EXCEEDED: "The work took the party more time or memory than its owner allows for a visit, and was "
    "ended. Ask for less: a smaller model, fewer steps or fewer epochs. Its operator can raise round-limit-s or "
    "memory-limit-gb in the node config.",
    Code.MISSING_EXTRA: "The party's model needs an optional library that is not installed there. Install the "
    f"extra, for example pip install 'fedkd-flwr[xgboost]'. {_OWN_LOG}.",
    Code.MISSING_FILE: "A file the party was told to read is not there. Correct data-path or public-path in its "
    "node config.",
    Code.NO_ROWS: "The party has no private rows, or fewer than the number of parts the algorithm cuts them into. Give "
    "it more rows, or lower teachers-per-student.",
    Code.NOT_ALLOWED: "The party's own rules forbid what it was asked for: an algorithm that its allow does not "
    "name, a model by import string, model parameters out of the ranges for runs, or a setting, a model or an hour "
    "that a rule of the site excludes. Its operator can change the node "
    "config; the server cannot. The party's own log names the rule.",
    Code.PRIVACY_REQUIRED: "The party takes part only under differential privacy, and this run adds no noise. "
    "Choose a mechanism for the run, or let the party's operator remove require-privacy.",
    Code.PUBLIC_SET_MISMATCH: "The party holds another public set, schema or preprocessing version than the "
    "server. Hand everybody the same public file and schema.toml.",
    Code.STATE_LOST: "The party's state of an earlier round is missing or older than the server expects. Keep its "
    "state-dir on a disk that survives restarts, and start a new run.",
    Code.STATE_READ_ONLY: "The party may not write to its state-dir, where it keeps what it has spent. Its operator "
    "can give the node's user that right, or mount the disk so that it can be written.",
    Code.SUBSET_FIXED: "The party has already drawn its random subset, of another size or in another way, and never "
    "draws a second one, because no claim covers both together. Ask for the subset it has; its own log names it.",
    Code.SUBSET_LOST: "The party has already drawn its random subset, and its file holds none of the drawn rows. It "
    "never draws a second one. Its operator can go on with a file that holds some of them, or take the party out.",
    Code.TOO_FEW_ROWS: "The party holds fewer rows of a class than its own rule asks (class-rows-at-least). Its "
    "operator can change the rule, or take part once there are more rows.",
    Code.CHANGING_MOD: "The party's ClientApp has a mod of Flower's that changes replies: it clips, masks or adds "
    "noise. Labels would be spoilt, and claims untrue. Take it out of mods=[...]: noise is a setting of the strategy.",
    Code.WITHHELD: "The reason is not given here because it may reveal something about private rows. It is in that "
    "party's own log, or known to the operator of the federation.",
    Code.WRONG_CLOCK: "The clock of the party's node and the server's differ so much that the node cannot tell when an "
    "answer is due. Set both by a time server (NTP).",
    Code.WRONG_CONFIG: f"The party's own settings are wrong. {_OWN_LOG}.",
    Code.WRONG_DATA: f"The party's file does not fit the schema: columns, types or values. {_OWN_LOG}.",
    Code.WRONG_MODEL_OUTPUT: "The party's model gave answers that cannot be used: too few, not finite, no whole "
    f"numbers, or labels that are no class; or its training diverged. Its data are not at fault. {_OWN_LOG}.",
    "no-reply": "No reply came before the deadline. Check that the node is running and connected, or raise the "
    "deadline.",
    "offline": "Its node was not connected when the round started, or left while it went on. Check that the node is "
    "running and connected.",
    "bad-name": "The node gave a name that is too long or not printable. Give the party a short plain name in its node "
    "config.",
    "unknown-code": "The party gave a reason that this release does not know. Install the same release everywhere.",
    "party-crashed": "The node's process ended without a reply: it was stopped, or ran out of memory. Look at that "
    "machine's log.",
    "too-large": "The reply holds more arrays, or more bytes, than an answer to this request can have, so it was not "
    "opened. Install the same release of fedkd-flwr on both sides; else somebody tampers with that node.",
    "not-its-name": "The node's key is registered under another name than it gave, or the name it gave is registered "
    "for another node's key. Let party in its node config equal the --name of flwr supernode register.",
    "duplicate-name": "A second node used the name of a party that is already bound to another node. Give every "
    "party a name of its own in its node config.",
    "node-changed-name": "A node changed its party name during the run. A node speaks for one party in a whole run; "
    "restart the run if the change is intended.",
    "no-round-counted": "No answer of the party counted in any round, so what it reports at the end is not taken. Each "
    "round says why; the party has its model all the same.",
    "wrong-public-set": "The reply was computed on another public set than this run's. Hand everybody the same "
    "public file and schema.toml.",
    "wrong-length": "The reply has another number of labels than there are public rows. Install the same release "
    "of fedkd-flwr on both sides.",
    "class-out-of-range": "The reply holds a label that is not one of the schema's classes. Check the party's model, "
    "and its client if it is your own.",
    "wrong-classes": "The reply was written for another number of classes than the schema names. Hand everybody the "
    "same schema.toml.",
    "wrong-weights": "The weights do not fit the server's net: other shapes, no numbers, beyond 1e12, or so large that "
    "the net's outputs are no numbers. Give every party the same model and model-params.",
    "wrong-round": "The reply belongs to another round: it is late or repeated. The party is asked again in the "
    "next round. If it is always late, raise the deadline.",
    "no-party-name": "The node did not say which party it speaks for. Give the party a name in its node config.",
    "not-a-number": "A number in the reply is NaN or infinite, or a logit beyond 1e12. Check the party's model and "
    "metrics. Its own log names the value.",
    "bad-payload": "The reply could not be read: it has the wrong type or size, or is damaged. Install "
    "the same release of fedkd-flwr on both sides.",
    "stale-base": "The reply lists changes to labels that the server does not hold. The party sends all its labels in "
    "the next round.",
    "unknown-version": "The reply is in a format this release does not know. Install the same release of "
    "fedkd-flwr on both sides.",
}


def reason_sentence(code: str) -> str:
    """Return what a code of a party that was left out means, and what can be done.

    >>> reason_sentence("no-reply")[:49]
    'No reply came before the deadline. Check that the'
    """
    if code.startswith(NOT_READY):
        return f"It said so beforehand, and was not asked for labels. {reason_sentence(code.removeprefix(NOT_READY))}"
    return REASONS.get(
        code,
        f"This release of the page has no explanation for the code {plain(code, 60)!r}. "
        "Look at the party's own log and the server's.",
    )


NOTES: dict[str, str] = {
    Note.FEWER_SUBSETS: "It holds fewer rows than teachers-per-student, so each of its teachers learnt from one row.",
    Note.FIXED_ANSWER: "Its training failed. It sent a fixed answer through the mechanism, which was counted.",
    Note.ONE_CLASS: "Its private rows hold a single class, which it gives to every public row.",
    Note.STATE_LOST: "It lost what it kept between rounds, and started its model afresh.",
    Note.STATE_NEWER: "It holds the state of a newer round than the server's checkpoint, and went on from that.",
    Note.STATE_OLDER: "It holds the state of an older round, and went on from that.",
}


def note_sentence(code: str) -> str:
    """Return what a party's note means; the note itself if this release does not know it.

    >>> note_sentence("one-class")
    'Its private rows hold a single class, which it gives to every public row.'
    """
    return NOTES.get(code, plain(code, 200))

"""Sentences for codes: why a party was left out of a round, and what a run's record notes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from fedkd_flwr.errors import Code, PartyNote, printable
from fedkd_flwr.record.notes import Note, NoteCode
from fedkd_flwr.record.run_record import NOT_READY
from fedkd_flwr.report.formatting import count, plain

__all__ = ["NOTES", "REASONS", "note_sentence", "reason_sentence"]

_Values = Mapping[str, Any]
_NAMED = 5  # more parties or classes than this are counted, not named

_OWN_LOG = "The full text of the error is in that party's own log"

REASONS: dict[str, str] = {
    Code.BAD_INSTRUCTION: "The party could not read what the server sent. Both need the same release of fedkd-flwr, "
    "and the same net where one is sent.",
    Code.BUDGET_EXCEEDED: "The request, added to what the party has spent in all earlier runs, exceeds its privacy "
    "budget. Ask for less (more noise, fewer rows or rounds), or let its operator raise epsilon-budget or delta-budget "
    "in its node config; the server cannot. The numbers are in that party's own log.",
    Code.BUNDLE_NOT_APPROVED: "The node answers runs of approved app bundles only, and this run's is not among them. "
    "Send the bundle to the party's operator, who can look at it and approve it (fedkd node approve).",
    Code.CLASS_OUTSIDE_SCHEMA: "The party's rows hold a class that the public schema does not name. Correct the "
    "label column, or add the class to schema.toml at the server and at every party.",
    Code.HELD_BACK: "The party's steward rejected its answer, or nobody approved it in time, so nothing of it left. "
    "Ask the party: it can see its answers and approve them (fedkd node egress pending), and sets how long they wait.",
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
    Code.NOT_ALLOWED: "The party's own rules forbid what it was asked for: an algorithm that its allow-algorithms does "
    "not name, a model by import string, model parameters that runs may not name, or a setting, a model or an hour "
    "that a rule of the site excludes. Its operator can change the node "
    "config; the server cannot. The party's own log names the rule.",
    Code.PRIVACY_REQUIRED: "This run adds no noise, which the party's require-privacy or budget demands. Give it "
    "some, such as algorithm=fedkt fedkt.level=L2 noise=gaussian epsilon=1, or have its operator lift that demand.",
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
    "the net's outputs are no numbers. Give every party the same model with the same parameters.",
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


def note_sentence(note: Note) -> str:
    """Return what a note says; its code and values where this release does not know it.

    >>> note_sentence(Note("one-class"))
    'Its private rows hold a single class, which it gives to every public row.'
    """
    made = NOTES.get(note.code)
    try:
        text = made(note.values) if callable(made) else (made or "{text}").format_map(note.values)
    except (LookupError, TypeError, ValueError, AttributeError):  # of another release, or of a project of one's own
        text = str(note)
    return plain(printable(text))


def _list(names: Collection[str]) -> str:
    """Return the names with commas; of many the first ones, and how many there are more."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join([*names][:_NAMED]) + more


def _with_class(parties: Mapping[str, str | None]) -> str:
    """Return parties, each with the class that it gives, where there is one."""
    return _list([name if of is None else f"{name} ({of!r})" for name, of in parties.items()])


_WEIGHTS = "Weights of nets trained on private rows, and "
_BESIDE_WEIGHTS = {
    "rows": "numbers of rows",
    "class-rows": "numbers of rows of each class",
    "gradients": "mean gradients on them (changes of control variates)",
}

NOTES: dict[str, str | Callable[[_Values], str]] = {
    PartyNote.FEWER_SUBSETS: "It holds fewer rows than teachers-per-student, so each of its teachers learnt from one "
    "row.",
    PartyNote.FIXED_ANSWER: "Its training failed. It sent a fixed answer through the mechanism, which was counted.",
    PartyNote.ONE_CLASS: "Its private rows hold a single class, which it gives to every public row.",
    PartyNote.STATE_LOST: "It lost what it kept after its last round, and went on from an older model or a fresh one.",
    NoteCode.ONE_CLASS_VOTES: lambda v: (
        f"{len(v['parties'])} of {v['of']} parties give every public row one class; each casts "
        + ("half a vote" if v["weight"] else "no vote")
        + (", and all such parties together a tenth of the others' votes at most" if v["bounded"] else "")
        + f": {_with_class(v['parties'])}."
    ),
    NoteCode.ALL_ONE_CLASS: lambda v: (
        f"Every party gives all public rows one class: {_with_class(v['parties'])}. Their "
        "votes count alike: none tells classes apart."
    ),
    NoteCode.NEARLY_ONE_CLASS: lambda v: (
        f"{len(v['parties'])} of {v['of']} parties give at least {100 * v['share']:.0f} % of the public rows one "
        f"class, and together cast half of the others' votes at most: {_with_class(v['parties'])}. Agreement cannot "
        "tell whether their labels are wrong."
    ),
    NoteCode.DISAGREES: "agrees with the consensus on {agreement:.0%} of the rows (others: {lowest:.0%} to "
    "{highest:.0%}), with a trust of {trust:.2f}: its labels are wrong, swapped, nearly all of one class, or from "
    "other data, or it has too few rows.",
    NoteCode.BELOW_CHANCE: "agrees with the known labels of {known:,} public rows on {right:.0%} of them, where chance "
    "makes {by_chance:.0%}: its labels are wrong, or swapped. The vote judged by these rows allows for that.",
    NoteCode.NO_GAIN: lambda v: (
        f"{v['known']:,} known rows do not show that the labels of {len(v['parties'])} of {v['of']} parties tell"
        f" classes apart ({_list(v['parties'])}): the vote judged by them passes these over."
    ),
    NoteCode.OWN_FOREST: lambda v: (
        f"A forest of the server's own, taught by {v['known']:,} known rows, is better than the parties' votes by the "
        f"share{' in each class, averaged over the classes,' if v['by_class'] else ''} of known rows labelled right: "
        "parties get its labels."
    ),
    NoteCode.UNKNOWN_CLASSES: lambda v: (
        f"No party predicts {_list([repr(name) for name in v['classes']])} on any "
        "public row: nothing learnt from this vote can know it."
    ),
    NoteCode.CLASS_OF_ONE_PARTY: lambda v: (
        f"Only {v['party']} ever predicts {v['class']!r} ({count(v['rows'], 'public row')}): the vote "
        + ("loses it." if v["kept"] is None else f"keeps {v['kept']} of them.")
    ),
    NoteCode.LOST_CLASS: lambda v: (
        f"{v['parties']} of {v['of']} parties predict {v['class']!r} "
        f"({count(v['rows'], 'public row')}): the vote loses it."
    ),
    NoteCode.MORE_LOST_CLASSES: "{count} more classes are lost in the vote, or are known to one party that it "
    "outvotes.",
    NoteCode.TRY_CONSENSUS: lambda v: (
        f'{v["key"]}="{v["consensus"]}" asks each party how well it knows each class, and may keep them.'
    ),
    NoteCode.NO_LABELS: lambda v: (
        f"The vote of round {v['server_round']} labels no public row."
        + (f" Lower the quorum ({v['quorum']:g}), or use another consensus." if "quorum" in v else "")
    ),
    NoteCode.UNUSED_ROWS: lambda v: (
        "{rows} of {of} public rows train nothing: no party".format_map(v)
        + ("'s students agree on them." if v["consistent"] else " voted on them.")
    ),
    NoteCode.CONVERGED: "converged in round {server_round} of {num_rounds}: no label changes any more.",
    NoteCode.FEW_ANSWERS: "Only {valid} of {asked} parties have a valid answer in round {server_round}, fewer than "
    "min-parties ({min_parties}). The result goes out all the same: beside noise at the server, what a party holds may "
    "not decide whether there is one.",
    NoteCode.ENDED_EARLY: "Too few parties in round {server_round} of {num_rounds}: the run ends with the result of "
    "round {good}, which the parties that are left get, and which is kept.",
    NoteCode.CONTINUES: lambda v: (
        f"continues run {v['run_id']} " + (f"after its round {v['done']}." if v["done"] else "from its start.")
    ),
    NoteCode.LEARNT_NOTHING: "{party} learnt nothing, and perhaps others for the same cause: {failure}",
    NoteCode.NOT_FINISHED: lambda v: (
        f"{v['party']} did not finish: {v['code']}{': ' + v['failure'] if v['failure'] else ''}"
    ),
    NoteCode.FAILED_AT_END: "{party}: {failure}",
    NoteCode.BAD_METRICS: "its metrics {metrics} have a wrong type, size or range and are left out",
    NoteCode.EVALUATE_FN_FAILED: "evaluate_fn failed in round {server_round} and is not called again ({failure}). It "
    "got {arrays}: {algorithm} leaves no weights.",
    NoteCode.NOT_REPEATABLE: "{model}: {where} gives the same rows other labels each time: without a seed the run "
    "cannot be repeated.",
    NoteCode.DIVIDED_BY_SUM: "{model}: {where}: {uneven} of {rows} rows of probabilities do not sum to 1. They are "
    "divided by their sum.",
    NoteCode.NOT_STORABLE: "{model} cannot be stored, so it starts afresh in each round: {failure}",
    NoteCode.MODEL_NOT_KEPT: "the server's model is not kept: {failure}",
    NoteCode.NO_CENTRALISED_MODEL: lambda v: (
        f"no centralised model: {v['failure'] or 'no rows of a party were there to pool'}"
    ),
    NoteCode.WIDTHS: "PFNM's net has {found} hidden units, layer by layer, the parties' {own}.",
    NoteCode.FEDKT_FIRST: "Round 1 is FedKT's, the {later} after it are FedProx's, from FedKT's model.",
    NoteCode.WEIGHTS_LEFT: lambda v: (
        f"{_WEIGHTS}{_BESIDE_WEIGHTS[v['beside']]}, left the parties as they are, without noise."
    ),
    NoteCode.TREES_LEFT: "Trees grown on private rows left the parties as they are, without noise: thresholds are "
    "values of private rows, or midway between two, and leaves tell the classes of few of them.",
    NoteCode.WEIGHTS_AT_SERVER: lambda v: (
        f"{_WEIGHTS}{_BESIDE_WEIGHTS[v['beside']]}, reached the server as they are; "
        "noise is added there, and protects from everybody else."
    ),
    NoteCode.LOOK_AT_COLUMNS: "columns were left out, or say little (see their notes); to drop them all: {command}",
    NoteCode.LACKS_COLUMNS: lambda v: f"It learns and votes without {_list(v['columns'])}, which it lacks.",
    NoteCode.COPIED_TEST_ROWS: "{copied} of {of} common test rows equal, label and all, a private row. If they are "
    "copies of one case, accuracies here may be too high: take the copies out of the table. Rows of different cases "
    "that look the same belong in it.",
    NoteCode.DRAWN_ROWS: "The public rows were drawn from noisy sums, which cost epsilon {epsilon} at delta {delta} "
    "(for one record, against the {adversary}). What parties said of these rows is another release: for that no record "
    "is protected.",
    NoteCode.DRAWN_ROWS_TOO: "The public rows were drawn from noisy sums, which cost epsilon {epsilon} at delta "
    "{delta} (for one record, against the {adversary}). With the answers of this run that is at most epsilon {total} "
    "at delta {total_delta} for one record; each party's ledger adds them up more tightly.",
    NoteCode.TRACKING_ENDED: "tracking by {tool} ended early: {failure}",
    NoteCode.AUDITED: "audited run: each party trained on a random half of its rows; the other half are the fresh rows "
    "of the attack",
}

"""A rehearsal: one round of constant labels through the real network; it shows who would be missing, and why.

    wait for the nodes, ready or not -> ask each to rehearse -> open each reply as in a round -> say who answered

A party answers with the lowest class for each public row, or with the code with which it would refuse. No ledger is
charged, neither a party's nor the server's. Private rows decide nothing but, where no privacy is claimed, a code.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from logging import INFO, WARN
from typing import Any

from flwr.common import log
from flwr.serverapp import Grid

from fedkd_flwr.data.public import PublicSet
from fedkd_flwr.errors import PayloadError, TooFewPartiesError, explain
from fedkd_flwr.record.notes import Note, NoteCode
from fedkd_flwr.record.run_record import Rejection, RoundRecord, RunRecord, now_text
from fedkd_flwr.report.sentences import reason_sentence
from fedkd_flwr.strategies.exchange import PartyAnswer, accepted
from fedkd_flwr.strategies.roster import Reception
from fedkd_flwr.strategies.waiting import WatchedGrid, question, registered_names
from fedkd_flwr.wire.label_codec import PublicSpec, decode_labels
from fedkd_flwr.wire.records import Reply, Room, open_reply

__all__ = ["WORD", "rehearse"]

WORD = "rehearsal:"
"""Stands before each line of the log that says how it went."""

_SLACK = 2**20  # bytes of a reply for headers, names and metrics


def rehearse(
    grid: Grid,
    nodes: list[int],
    settings: dict[str, Any],
    *,
    public: PublicSet,
    record: RunRecord,
    minimum: int,
    timeout: float,
    on_round: Callable[[RunRecord], None],
) -> None:
    """Rehearse a run, with the settings of its first round; write it down as the first round of ``record``.

    Raises `TooFewPartiesError` if fewer than ``minimum`` answered within ``timeout`` seconds: so would the run fail.
    """
    spec = PublicSpec(num_public=public.num_rows, num_classes=public.num_classes, fingerprint=public.fingerprint)
    reception = Reception()
    reception.registered = registered_names(WatchedGrid(grid).get_nodes())
    record.num_rounds = 1
    record.notes.append(Note(NoteCode.REHEARSAL))
    record.rounds.append(this := RoundRecord(server_round=1, asked=len(nodes), ended=False, asked_at=now_text()))
    on_round(record)
    messages = [question(node, settings, "rehearse") for node in nodes]
    room = Room(arrays=1, num_bytes=_SLACK + 2 * public.num_rows)
    replies = [open_reply(m, "fit", room) for m in WatchedGrid(grid).send_and_receive(messages, timeout=timeout)]
    for reply in sorted(replies, key=lambda one: (one.party, one.node_id)):
        this.bytes_up += reply.num_bytes
        answer = accepted(reception, reply, partial(_read, spec), server_round=1)
        if isinstance(answer, Rejection):
            this.rejected.append(answer)
        else:
            this.answered.append(answer.party)
    silent = set(nodes) - {reply.node_id for reply in replies}
    this.rejected += [reception.missing(node, code="no-reply") for node in sorted(silent)]
    this.ended = True
    for party in this.answered:
        log(INFO, "%s %s answers", WORD, party)
    for left_out in this.rejected:
        who = left_out.party or f"node {left_out.node_id}"
        log(WARN, "%s %s would be missing: %s. %s", WORD, who, left_out.code, reason_sentence(left_out.code))
    asked = f"{len(this.answered)} of {len(nodes)} parties answer; a round needs {minimum}"
    log(INFO, "%s %s. Nothing but constant labels and codes left, and no ledger was charged.", WORD, asked)
    on_round(record)
    if len(this.answered) < minimum:
        way_out = "Mend what is named above, or lower min-parties."
        raise TooFewPartiesError(explain("answers to the rehearsal", f"be >= {minimum}", len(this.answered), way_out))


def _read(spec: PublicSpec, reply: Reply, server_round: int) -> PartyAnswer:
    if "labels" not in reply.arrays:
        raise PayloadError("no labels in the reply")
    labels = decode_labels(reply.arrays["labels"], public=spec, server_round=server_round, num_arrays=1)
    if (labels != 0).any():
        raise PayloadError(explain("labels of a rehearsal", "all be the lowest class", "others"))
    return PartyAnswer(party=reply.party)

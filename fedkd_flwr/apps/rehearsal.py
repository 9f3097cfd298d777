"""A rehearsal: one round of constant labels through the real network; it shows who would be missing, and why.

    wait for the nodes, ready or not -> ask each to rehearse -> open each reply as in a round -> say who answered

A party answers with the lowest class for each public row, or with the code with which it would refuse. No private row
and no noise is in a reply, and no ledger is charged, neither a party's nor the server's.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from logging import INFO, WARN
from typing import Any

from flwr.common import log
from flwr.serverapp import Grid

from fedkd_flwr.data.public import PublicSet
from fedkd_flwr.errors import PayloadError, TooFewPartiesError, explain
from fedkd_flwr.report.reasons import reason_sentence
from fedkd_flwr.run_record import Rejection, RoundRecord, RunRecord, now_text
from fedkd_flwr.strategies.reception import PartyAnswer, Reception
from fedkd_flwr.strategies.waiting import WatchedGrid, question
from fedkd_flwr.wire.envelope import PublicSpec
from fedkd_flwr.wire.label_codec import decode_labels
from fedkd_flwr.wire.records import Reply, open_reply

__all__ = ["NOTE", "WORD", "Rehearsed", "rehearse", "rehearse_at", "rehearse_here"]

WORD = "rehearsal:"
"""Stands before each line of the log that says how it went."""

NOTE = (
    "This was a rehearsal. Every party answered with constant labels or with a code; nothing private left a party, and "
    "no ledger was charged."
)


def rehearse(
    grid: Grid,
    nodes: list[int],
    settings: dict[str, Any],
    *,
    public: PublicSet,
    record: RunRecord,
    minimum: int,
    timeout: float,
    on_round: Callable[[RunRecord], None] = lambda _: None,
) -> None:
    """Rehearse a run, and write it down in ``record`` as its first round.

    Parameters
    ----------
    grid : Grid
    nodes : list of int
        Who is asked.
    settings : dict
        The settings of the first round, as parties are told them.
    public : PublicSet
        The server's public set.
    record : RunRecord
        Gets one round, a note and no claim.
    minimum, timeout : int and float
        Fewest answers that a round of the run needs; seconds to wait for them.
    on_round : callable
        As in `fedkd_flwr.strategies.base.ExchangeStrategy`.

    Raises
    ------
    TooFewPartiesError
        If fewer answered than a round needs: so would the run fail.
    """
    spec = PublicSpec(num_public=public.num_rows, num_classes=public.num_classes, fingerprint=public.fingerprint)
    reception: Reception[PartyAnswer] = Reception(_reader(spec))
    record.num_rounds = 1
    record.notes.append(NOTE)
    record.rounds.append(this := RoundRecord(server_round=1, asked=len(nodes), ended=False, asked_at=now_text()))
    on_round(record)
    messages = [question(node, settings, "rehearse") for node in nodes]
    replies = [open_reply(m, "fit") for m in WatchedGrid(grid).send_and_receive(messages, timeout=timeout)]
    for reply in sorted(replies, key=lambda one: (one.party, one.node_id)):
        this.bytes_up += reply.num_bytes
        answer = reception.accept(reply, server_round=1)
        if isinstance(answer, Rejection):
            this.rejected.append(answer)
        else:
            this.answered.append(answer.party)
    this.rejected += reception.silent(nodes, {reply.node_id for reply in replies})
    this.ended = True
    for party in this.answered:
        log(INFO, "%s %s answers", WORD, party)
    for left_out in this.rejected:
        who = left_out.party or f"node {left_out.node_id}"
        log(WARN, "%s %s would be missing: %s. %s", WORD, who, left_out.code, reason_sentence(left_out.code))
    asked = f"{len(this.answered)} of {len(nodes)} parties answer; a round needs {minimum}"
    log(INFO, "%s %s. Constant labels only: nothing private left, and no ledger was charged.", WORD, asked)
    on_round(record)
    if len(this.answered) < minimum:
        way_out = "Mend what is named above, or lower min-parties."
        raise TooFewPartiesError(explain("answers to the rehearsal", f"be >= {minimum}", len(this.answered), way_out))


@dataclass(frozen=True)
class Rehearsed:
    """What a rehearsal said: its lines of the log, and why the run would fail, "" where it would not."""

    lines: list[str]
    reason: str = ""


def rehearse_at(values: Mapping[str, Any], superlink: str = "") -> Rehearsed:
    """Rehearse a run at a SuperLink, and wait for its end.

    Raises
    ------
    ConfigError
        If a setting is wrong.
    FlowerError
        If the SuperLink refuses the run or cannot be reached.
    """
    from fedkd_flwr.apps.submit import follow, status, submit

    made = submit(values, superlink=superlink)
    lines = _lines(follow(made.run_id, superlink))
    how, details = status(made.run_id, superlink)
    return Rehearsed(lines, "" if how == "finished:completed" else " ".join(details.split()) or how)


def rehearse_here(values: Mapping[str, Any]) -> Rehearsed:
    """Rehearse a simulation in this process; its record is thrown away.

    Raises
    ------
    ConfigError, DataError
        If a setting is wrong, or the data set cannot be loaded.
    """
    from flwr.app import Context, RecordDict

    from fedkd_flwr.apps.client_app import app
    from fedkd_flwr.apps.config import parse_run_config
    from fedkd_flwr.apps.in_process import InProcessGrid
    from fedkd_flwr.apps.server_app import federate
    from fedkd_flwr.apps.simulate import DEFAULT_PARTIES

    count = int(values.get("num-parties") or DEFAULT_PARTIES)
    with tempfile.TemporaryDirectory(prefix="fedkd-rehearsal-") as folder, _heard() as said:
        config = {**values, "num-parties": count, "output-dir": folder}
        parse_run_config(config)
        nodes = [{"partition-id": i, "num-partitions": count} for i in range(count)]
        try:
            federate(InProcessGrid(app, nodes, config), Context(1, 1, {}, RecordDict(), config), page=False)
        except TooFewPartiesError as error:
            return Rehearsed(_lines(said), str(error))
    return Rehearsed(_lines(said))


def _lines(log_lines: Iterable[str]) -> list[str]:
    """Return what stands behind the word in lines of a log."""
    return [one.partition(WORD)[2].strip() for one in log_lines if WORD in one]


@contextmanager
def _heard() -> Iterator[list[str]]:
    """Collect Flower's log instead of printing it."""
    said: list[str] = []

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())

    loggers = [logging.getLogger(name) for name in ("flwr", "flwr.party")]
    before = [(one.handlers, one.propagate) for one in loggers]
    for one in loggers:
        one.handlers, one.propagate = [Ear()], False
    try:
        yield said
    finally:
        for one, (handlers, propagate) in zip(loggers, before, strict=True):
            one.handlers, one.propagate = handlers, propagate


def _reader(spec: PublicSpec) -> Callable[[Reply, int], PartyAnswer]:
    def read(reply: Reply, server_round: int) -> PartyAnswer:
        if "labels" not in reply.arrays:
            raise PayloadError("no labels in the reply")
        labels = decode_labels(reply.arrays["labels"], public=spec, server_round=server_round, num_arrays=1)
        if (labels != 0).any():
            raise PayloadError(explain("labels of a rehearsal", "all be the lowest class", "others"))
        return PartyAnswer(party=reply.party)

    return read

"""Messages of a run as they leave, and replies as they come in: which are answers, and what the record says of each.

Each party gets a message of its own, with what the round sends and what this party alone is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from logging import WARN
from typing import Any, Generic

from flwr.app import Array, ConfigRecord, Message
from flwr.common import log

from fedkd_flwr.errors import SETTLED, Code, explain
from fedkd_flwr.record.notes import Note, NoteCode, add_note
from fedkd_flwr.record.run_record import Rejection, RoundRecord
from fedkd_flwr.strategies.exchange import Exchange, Stage
from fedkd_flwr.strategies.reception import Answered
from fedkd_flwr.wire.records import Reply, Room, array_bytes, instruction_record, open_reply

__all__ = ["Inbox", "Outbox"]


class Outbox:
    """Makes the messages of a run.

    ``exchange``: the algorithm, which says what is sent.
    """

    def __init__(self, exchange: Exchange[Any]) -> None:
        self.exchange = exchange
        # Message class; LegacyStrategy replaces it, because Flower's old API has no task context
        self.envelope: Callable[..., Any] = Message

    def messages(
        self, stage: Stage, server_round: int, nodes: Iterable[int], config: ConfigRecord
    ) -> tuple[list[Message], int]:
        """Return a message for each node, and how many bytes their arrays have."""
        at, roster = self.exchange, self.exchange.roster
        # made once: equal bytes are shared, in memory and on the wire; the records around them are fresh for each party
        arrays = {name: Array(array) for name, array in at.outgoing(stage, server_round).items()}
        more: dict[str, Array] | None = None
        settings: dict[str, Any] = {
            **config,
            **at.settings(server_round),
            **at.checkpoints.told(),
            "server-round": server_round,
            "rounds-left": at.rounds_left(server_round),
            "fingerprint": at.spec.fingerprint,
        }
        messages, num_bytes = [], 0
        for node in nodes:
            last_round = roster.reception.last_round.get(roster.name_of(node), 0)
            behind = last_round < (server_round if stage == "evaluate" else server_round - 1)
            if behind and more is None:
                more = {name: Array(array) for name, array in at.catching_up(stage, server_round).items()}
            sent = {**arrays, **(more or {})} if behind else arrays
            content = instruction_record(sent, {**settings, "last-round": last_round, **at.told(node, server_round)})
            num_bytes += array_bytes(content.array_records["arrays"])
            kind, group = "train" if stage == "fit" else "evaluate", str(server_round)
            messages.append(self.envelope(content, dst_node_id=node, message_type=kind, group_id=group))
        return messages, num_bytes


class Inbox(Generic[Answered]):
    """Opens the replies of a run and writes down what they say beside their answers.

    ``exchange``: the algorithm, which reads the answers.
    """

    def __init__(self, exchange: Exchange[Answered]) -> None:
        self.exchange, self.record, self.roster = exchange, exchange.record, exchange.roster

    def answers(self, server_round: int, replies: Iterable[Message], this: RoundRecord) -> list[Answered]:
        """Return the valid answers of a round, in party-name order; the others stand in its record, with the reason."""
        at, read = self.exchange, self.exchange.read
        answers: list[Answered] = []
        heard = set()
        for reply in _opened(replies, "fit", at.room):
            this.bytes_up += reply.num_bytes
            heard.add(reply.node_id)
            answer = self.roster.reception.accept(reply, read, server_round=server_round)
            failure = self._failure(reply)
            if isinstance(answer, Rejection):
                answer.failure = failure
                this.rejected.append(answer)
                continue
            at.checkpoints.heard(at, reply, server_round)
            if failure and failure not in (note.values.get("failure") for note in self.record.notes):
                at.note(Note(NoteCode.LEARNT_NOTHING, {"party": reply.party, "failure": failure}))
            answers.append(answer)
            this.answered.append(reply.party)
            _take_accuracy(reply, this)
            party = self.record.party(reply.party)
            for code in answer.notes:
                add_note(party.notes, Note(code))
            lacks = str(reply.metrics.get("lacks", "")).split("\n")
            if columns := [column.name for column in at.public.schema.columns if column.name in lacks]:
                add_note(party.notes, Note(NoteCode.LACKS_COLUMNS, {"columns": columns}))
        this.rejected += self.roster.missing(heard)
        for left_out in this.rejected:
            left_out.party = left_out.party or self.roster.names.get(int(left_out.node_id), "")
            who = left_out.party or left_out.node_id
            why = left_out.code + (f": {left_out.failure}" if left_out.failure else "")
            log(WARN, "left out of round %d: %s: %s", server_round, who, why)
        return answers

    def reports(self, replies: Iterable[Message]) -> int | None:
        """Write down what parties report at the end; return how many did, None where nobody says anything."""
        opened = _opened(replies, "evaluate", self.exchange.room)
        finished = 0
        for reply in opened:
            known = self.roster.name_of(reply.node_id) == reply.party  # also one that no round has asked
            failure, reception = self._failure(reply), self.roster.reception
            if code := reception.unbound(reply, known=known):
                who = reception.named(reply) or reply.node_id
                self.exchange.note(Note(NoteCode.NOT_FINISHED, {"party": who, "code": code, "failure": failure}))
                continue
            if failure:
                self.exchange.note(Note(NoteCode.FAILED_AT_END, {"party": reply.party, "failure": failure}))
            finished += 1
            self.record.party(reply.party).report(reply.metrics, num_classes=self.exchange.spec.num_classes)
        return finished if opened else None

    def counted(self, valid: int, this: RoundRecord) -> int:
        """Return how many parties count as there: those that answered, and beside noise at the server more.

        Everybody sees whether there is a result. There only what no private row decides may decide it, so a party
        counts unless it gave such a reason; where it gave no valid answer, its vote or update is missing.
        """
        if self.exchange.config.privacy != "server":
            return valid
        asked = {str(node) for node in self.roster.asked_now}
        count = this.asked - sum(r.node_id in asked and r.code in SETTLED for r in this.rejected)
        if valid < self.roster.fewest <= count:
            at = {"asked": this.asked, "server_round": this.server_round, "min_parties": self.roster.fewest}
            self.exchange.note(Note(NoteCode.FEW_ANSWERS, {"valid": valid, **at}))
        return count

    def too_few(self, count: int, this: RoundRecord) -> str:
        """Return why a round cannot be counted: who was left out, and what to do."""
        told: set[str] = set()
        reasons = []
        for r in this.rejected:
            new = r.failure not in told
            why = r.code + (f" ({r.failure})" if r.failure and new else "")
            reasons.append(f"{r.party or 'node ' + r.node_id}: {why}")
            told.add(r.failure)
        ways = ["Mend that" if told - {""} else "See those parties' own logs"]
        if count:  # fewer than none cannot be asked for
            ways.append(f"lower min-parties to {count}")
        way_out = f"Left out: {', '.join(reasons) or 'none answered'}. {', or '.join(ways)}."
        return explain(f"valid replies in round {this.server_round}", f"be >= {self.roster.fewest}", count, way_out)

    def _failure(self, reply: Reply) -> str:
        """Return the cause that a simulated party gives for a failure; across a wire there are codes and no text."""
        told = self.record.simulation or reply.code == Code.CHANGING_MOD  # which mod it is
        said = reply.metrics.get("failure") if told else ""
        return " ".join(said.split())[:600] if isinstance(said, str) else ""


def _opened(replies: Iterable[Message], stage: Any, room: Room) -> Sequence[Reply]:
    return sorted((open_reply(m, stage, room) for m in replies), key=lambda r: (r.party, r.node_id))


def _take_accuracy(reply: Reply, this: RoundRecord) -> None:
    """Write down a party's accuracy in a round, with its number of test rows, where both are possible values."""
    rows = "common" if "accuracy-common" in reply.metrics else "own"
    accuracy, tested = reply.metrics.get(f"accuracy-{rows}"), reply.metrics.get(f"rows-{rows}")
    counted = isinstance(tested, int) and not isinstance(tested, bool) and 1 <= tested < 2**31
    if counted and isinstance(accuracy, float) and 0.0 <= accuracy <= 1.0:
        this.accuracy[reply.party], this.tested[reply.party] = accuracy, int(tested or 0)

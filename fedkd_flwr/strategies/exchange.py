"""What an algorithm says at the server: what a round sends, how a reply is read, and what answers combine to.

`fedkd_flwr.strategies.loop` runs the rounds and calls what is here; nothing here calls back. `Messages` carries what an
exchange says: messages as they leave, and replies as they come in, which are answers or are left out with a reason.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from logging import WARN
from typing import Any, ClassVar, Generic, Literal, TypeVar

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.common import log
from numpy.typing import NDArray

from fedkd_flwr.algorithms.card import Card, ExchangeConfig
from fedkd_flwr.data.public import PublicSet, check_test_rows
from fedkd_flwr.errors import SETTLED, Code, ConfigError, PartyNote, PayloadError, explain
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.privacy.claims.claim import PrivacyClaim
from fedkd_flwr.privacy.ledger.ledger import Budget
from fedkd_flwr.record.notes import Note, NoteCode, add_note
from fedkd_flwr.record.run_record import Rejection, RoundRecord, RunRecord
from fedkd_flwr.seeds import derive_rng
from fedkd_flwr.stores.ledger import LedgerStore
from fedkd_flwr.strategies.resuming import Checkpoints
from fedkd_flwr.strategies.roster import Reception, Roster
from fedkd_flwr.wire.label_codec import PublicSpec, digests
from fedkd_flwr.wire.records import Reply, Room, Scalar, array_bytes, instruction_record, open_reply

__all__ = ["Collaborators", "Exchange", "Messages", "PartyAnswer", "Stage", "accepted", "checked_test"]

Stage = Literal["fit", "evaluate"]
Arrays = Mapping[str, NDArray[Any]]
_MAX_ARRAYS = 16  # of a reply without weights: ours have up to three
_SLACK = 2**20  # bytes of a reply for headers, names and metrics


def checked_test(
    test: tuple[NDArray[Any], NDArray[Any]] | None, public: PublicSet
) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Return the server's test rows as arrays; raise DataError, before anybody answers, where they fit no model."""
    if test is None:
        return None
    X, y = np.asarray(test[0]), np.asarray(test[1])
    check_test_rows("test", X, y, public)
    return X, y


@dataclass(frozen=True, kw_only=True)
class PartyAnswer:
    """One party's valid answer of one round; each kind of exchange adds what it carries."""

    party: str  # its name


Answered = TypeVar("Answered", bound=PartyAnswer)


@dataclass(frozen=True, kw_only=True)
class Collaborators:
    """What an app can hand to a strategy that it makes; an exchange takes some (`Exchange.takes`)."""

    final_model: Callable[[], Callable[..., Classifier]]  # ``final_model()`` returns what makes the server's model
    # ``global_model()`` returns what makes the net whose weights go round
    global_model: Callable[[], Callable[..., Classifier]]
    # ``party_rows()`` returns how many rows each party holds; none where the server does not know
    party_rows: Callable[[], Sequence[int]]
    test: tuple[NDArray[Any], NDArray[Any]] | None  # rows to measure the server's model on
    # ledger, budget: What noise at this server has cost so far, and the most it may
    ledger: LedgerStore
    budget: Budget
    fraction: float = 1.0  # share of the parties asked in a round


class Exchange(ABC, Generic[Answered]):
    """One algorithm's part of a run at the server, and its state between rounds.

    Its parameters are those of `ExchangeStrategy`, and its collaborators: who is there (``roster``), and where the run
    is kept (``checkpoints``).

    ``num_rounds``, ``rounds_done``: rounds of the run, known when it begins; those of an earlier run that it continues,
    which count among them. ``finished_round``: the round after which nothing more can change. ``held``: by party, the
    values of its last answer, to which its next answer may give changes.
    """

    card: ClassVar[Card]
    config: ExchangeConfig
    free_settings: ClassVar[frozenset[str]] = frozenset({"nodes_stable_s", "node_deadline_s"})
    """Settings that may differ in a run that continues another."""
    keeps: ClassVar[tuple[str, ...]] = ()
    """Attributes that the next round needs besides what `combine_answers` returned: arrays and plain values, nested."""
    rounds_before: ClassVar[int] = 0
    """Rounds that come before those that ``num_rounds`` of ``start`` counts."""
    takes: ClassVar[tuple[str, ...]] = ()
    """Further parameters that it takes of an app's `Collaborators`."""
    leaves_weights: ClassVar[bool] = False
    """Whether what a round leaves are weights of a net."""

    def __init__(
        self,
        *,
        config: ExchangeConfig | None,
        public: PublicSet,
        record: RunRecord,
        roster: Roster,
        checkpoints: Checkpoints,
    ) -> None:
        wanted = self.card.config
        if config is not None and not isinstance(config, wanted):
            raise ConfigError(explain("config", f"be a {wanted.__name__} for {self.card.title}", type(config).__name__))
        made: ExchangeConfig = config if config is not None else wanted()
        self.config, self.public, self.record = made, public, record
        self.roster, self.checkpoints = roster, checkpoints
        self.spec = PublicSpec(
            num_public=public.num_rows, num_classes=public.num_classes, fingerprint=public.fingerprint
        )
        self.num_rounds, self.rounds_done = 1, 0
        self.finished_round: int | None = None
        self.held: dict[str, Arrays] = {}

    @classmethod
    def needs(cls, given: Collaborators) -> dict[str, Any]:
        """Return the parameters that a strategy of this exchange takes of an app's."""
        found = {name: getattr(given, name) for name in cls.takes}
        found["fraction_train"] = given.fraction if cls.card.samples else 1.0
        return {name: value() if callable(value) else value for name, value in found.items()}

    # ---------------------------------------------------------------- one round

    @abstractmethod
    def outgoing(self, stage: Stage, server_round: int) -> dict[str, NDArray[Any]]:
        """Return the wire arrays every chosen party gets, by payload name."""

    @abstractmethod
    def read(self, reply: Reply, server_round: int) -> Answered:
        """Open what a reply carries; raise `PayloadError` where it cannot be counted."""

    @abstractmethod
    def combine_answers(self, server_round: int, answers: Sequence[Answered], this: RoundRecord) -> ArrayRecord:
        """Turn the valid answers of a round, in party-name order, into the next state; return a copy for Flower."""

    @cached_property
    def told_config(self) -> ExchangeConfig:
        """The settings as parties are told them, with the noise found; known once the number of rounds is."""
        sizes, own = {"num_public": self.spec.num_public, "num_classes": self.spec.num_classes}, self.rounds_before
        return self.config.resolved(**sizes, num_rounds=self.num_rounds - own)

    def settings(self, server_round: int) -> dict[str, Any]:
        """Return the settings that every party is told in a round."""
        return {**self.told_config.told(), "algorithm": self.card.name, "privacy": self.config.privacy}

    def told(self, node: int, server_round: int) -> Mapping[str, Scalar]:
        """Return the settings that only this node gets: the base the server holds of its answers."""
        held = self.held.get(self.roster.name_of(node))
        return {} if held is None else {"base": digests(held.values())}

    def catching_up(self, stage: Stage, server_round: int) -> dict[str, NDArray[Any]]:
        """Return what a party that missed the last round gets besides, by payload name."""
        return {}

    def choose(self, nodes: list[int], server_round: int) -> list[int]:
        """Return which of the connected nodes this round asks."""
        return self.roster.sample(nodes, self.roster.fraction, self.rng("sample", server_round))

    def rounds_left(self, server_round: int) -> int:
        """Return in how many rounds from this one on a party is going to be asked: its budget should cover them."""
        return max(1, math.ceil(self.roster.fraction * (self.num_rounds - server_round + 1)))

    @property
    def room(self) -> Room:
        """The most that an honest answer may hold: 8 bytes for each public row and class, twice over, and some."""
        rows, classes = self.spec.num_public, self.spec.num_classes
        return Room(arrays=_MAX_ARRAYS, num_bytes=_SLACK + 16 * classes * (rows + classes))

    # ---------------------------------------------------------------- the run

    @property
    def takes_latecomers(self) -> bool:
        """Whether nodes that come after the first round are asked in the rounds after it."""
        return True

    def begin_with(self, arrays: ArrayRecord | None) -> ArrayRecord:
        """Return the arrays that Flower's loop begins with; ``arrays`` are the weights that the caller gave, if any."""
        if arrays:
            rule, seen = f"be left out with {self.card.name}", f"{len(arrays)} arrays"
            raise ConfigError(explain("initial_arrays", rule, seen, "Parties begin with models of their own."))
        return ArrayRecord()

    def plan(self, num_rounds: int) -> None:
        """Take the number of rounds; refuse, before anybody is waited for, noise that cannot be found."""
        self.num_rounds = num_rounds
        for found in ("told_config", "mechanism"):  # drop what was cached before num_rounds was known
            vars(self).pop(found, None)
        _ = self.told_config

    def check_budget(self, server_round: int) -> None:
        """Refuse a round whose release the server's own budget does not cover."""

    def measure(self) -> MetricRecord | None:
        """Return how good the server's model is after a round, and before the first; None where it has none by then."""
        return None

    def releasing(self) -> None:
        """Note what must be durable before the final result goes out."""

    def claim(self) -> list[PrivacyClaim]:
        """Return what this run may claim about privacy, from the rounds it asked for."""
        return []

    def restore(self, result: Arrays, kept: Mapping[str, Any]) -> None:
        """Take up what `combine_answers` returned after the last round, and the attributes that were kept then."""
        vars(self).update(kept)

    # ---------------------------------------------------------------- what exchanges share

    @property
    def charged_run(self) -> str:
        """The run that noise at the server is charged to: the first one, where this run continues others."""
        lineage = self.checkpoints.lineage
        return self.record.run_id if lineage is None else lineage.runs[0]

    def rng(self, *names: str | int) -> np.random.Generator:
        """Return the server's generator for the stream called ``names``."""
        return derive_rng(self.config.seed, "server", *names)

    def note(self, note: Note, *, level: int = WARN) -> None:
        """Log a note and write it into the record, once."""
        if add_note(self.record.notes, note):
            log(level, "%s", note)


class Messages:
    """Makes the messages of a run, one for each party, opens the replies, and notes what they say beside answers."""

    def __init__(self, exchange: Exchange[Any]) -> None:
        self.exchange, self.record, self.roster = exchange, exchange.record, exchange.roster

    def made(
        self, stage: Stage, server_round: int, nodes: Iterable[int], config: ConfigRecord
    ) -> tuple[list[Message], int]:
        """Return a message for each node, and how many bytes their arrays have."""
        at, roster = self.exchange, self.roster
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
            messages.append(Message(content, dst_node_id=node, message_type=kind, group_id=group))
        return messages, num_bytes

    def answers(self, server_round: int, replies: Iterable[Message], this: RoundRecord) -> list[Any]:
        """Return the valid answers of a round, in party-name order; the others stand in its record, with the reason."""
        at, reception = self.exchange, self.roster.reception
        answers: list[Any] = []
        heard = set()
        for reply in _opened(replies, "fit", at.room):
            this.bytes_up += reply.num_bytes
            heard.add(reply.node_id)
            answer = accepted(reception, reply, at.read, server_round=server_round)
            failure = self._failure(reply)
            if isinstance(answer, Rejection):
                answer.failure = failure
                this.rejected.append(answer)
                continue
            at.checkpoints.heard(self.roster, reply.party, reply.metrics.get("went-on-from"), server_round)
            if failure and failure not in (note.values.get("failure") for note in self.record.notes):
                at.note(Note(NoteCode.LEARNT_NOTHING, {"party": reply.party, "failure": failure}))
            answers.append(answer)
            this.answered.append(reply.party)
            _take_accuracy(reply, this)
            party = self.record.party(reply.party)
            said = str(reply.metrics.get("notes", ""))[:1000].split(",")
            for code in (known.value for known in PartyNote if known.value in said):
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
        told, reasons = {""}, []
        for r in this.rejected:
            why = f" ({r.failure})" if r.failure not in told else ""
            reasons.append(f"{r.party or 'node ' + r.node_id}: {r.code}{why}")
            told.add(r.failure)
        ways = ["Mend that" if told != {""} else "See those parties' own logs"]
        if count:  # fewer than none cannot be asked for
            ways.append(f"lower min-parties to {count}")
        way_out = f"Left out: {', '.join(reasons) or 'none answered'}. {', or '.join(ways)}."
        return explain(f"valid replies in round {this.server_round}", f"be >= {self.roster.fewest}", count, way_out)

    def _failure(self, reply: Reply) -> str:
        """Return the cause that a simulated party gives for a failure; across a wire there are codes and no text."""
        told = self.record.simulation or reply.code == Code.CHANGING_MOD  # which mod it is
        said = reply.metrics.get("failure") if told else ""
        return " ".join(said.split())[:600] if isinstance(said, str) else ""


def accepted(
    reception: Reception, reply: Reply, read: Callable[[Reply, int], Answered], *, server_round: int
) -> Answered | Rejection:
    """Return what a valid reply holds, or why it is turned away; ``read`` raises `PayloadError` for that."""
    sender = replace(reply, arrays={})
    try:
        reception.admit(sender, server_round)
        answer = read(reply, server_round)
    except PayloadError as error:
        party = reception.named(sender)
        log(WARN, "%s: %s", party or reply.node_id, error)
        return Rejection(party=party, node_id=str(reply.node_id), code=error.reason)
    reception.bind(sender, server_round)
    return answer


def _opened(replies: Iterable[Message], stage: Any, room: Room) -> Sequence[Reply]:
    return sorted((open_reply(m, stage, room) for m in replies), key=lambda r: (r.party, r.node_id))


def _take_accuracy(reply: Reply, this: RoundRecord) -> None:
    """Write down a party's accuracy in a round, with its number of test rows, where both are possible values."""
    rows = "common" if "accuracy-common" in reply.metrics else "own"
    accuracy, tested = reply.metrics.get(f"accuracy-{rows}"), reply.metrics.get(f"rows-{rows}")
    counted = isinstance(tested, int) and not isinstance(tested, bool) and 1 <= tested < 2**31
    if counted and isinstance(accuracy, float) and 0.0 <= accuracy <= 1.0:
        this.accuracy[reply.party], this.tested[reply.party] = accuracy, int(tested or 0)

"""One visit to a party, in five steps, the same for each algorithm: open, permit, learn, release, let out.

Everything that goes wrong is caught here: the full text goes to the party's own log, the reply carries a code
from a fixed list and no text. Only in simulation, where one person holds all the rows, does the cause go along.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cached_property
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.clients.answer import Answer, answer_columns, answer_table, dump, pack_answer, unpack_answer
from fedkd_flwr.clients.exchange import PartyExchange
from fedkd_flwr.clients.instruction import (
    Charge,
    Instruction,
    node_proof,
    note_where_it_is_kept,
    opened,
    went_on_from,
    withholds,
)
from fedkd_flwr.clients.party import Leaving, Party, Shown, Table
from fedkd_flwr.clients.refusals import code_of, note_no_noise, obey, refusal, require_claim, signed
from fedkd_flwr.errors import TELLING, Code, DataError, ModelBytesError, PartyNote, PayloadError, cause, explain
from fedkd_flwr.files import group_of, grouped
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.privacy.ledger.entry import canonical, plain_events
from fedkd_flwr.stores.party_state import Saved, StoredReply
from fedkd_flwr.wire.label_codec import digests
from fedkd_flwr.wire.records import Scalar

__all__ = ["Learnt", "Visit", "claimed", "kept_model", "refused"]

logger = logging.getLogger("flwr.party")


class Learnt(NamedTuple):
    """What was learnt, what leaves of it by payload name, and that as wire arrays."""

    answer: Answer
    values: Mapping[str, NDArray[Any]]
    arrays: dict[str, NDArray[Any]]


class Visit:
    """One visit to a party, from the instruction that came to the reply that may leave.

    ``instruction``: what is asked, once it is open. ``charge``: what the reply costs, once permitted, or None.
    """

    instruction: Instruction
    charge: Charge | None

    def __init__(self, exchange: PartyExchange) -> None:
        self.exchange = exchange

    @property
    def party(self) -> Party:
        """The party that is visited: where the run continues another one, with what it kept of that one."""
        return self.exchange.party

    def answer(
        self, parameters: list[NDArray[Any]], config: dict[str, Scalar]
    ) -> tuple[list[NDArray[Any]], int, dict[str, Scalar]]:
        """Answer one round, or refuse it: arrays, the number of public rows, and metrics if they may leave."""
        try:
            self.open(parameters, config)
            self.permit()
            reply = self._paid()
            if reply is None:
                self._ask()
                kept = self._kept_reply()
                reply = self.release(self.learn()) if kept is None else self._charged(kept)
            shown = self.let_out(reply)
            return list(reply.arrays.values()), self.exchange.num_rows(self.instruction), {**reply.metrics, **shown}
        except Exception as error:
            return [], 0, refused(self.exchange, error, config)

    # ---------------------------------------------------------------- the five steps

    def open(self, parameters: list[NDArray[Any]], config: Mapping[str, Scalar], *, answered: bool = True) -> None:
        """Open the instruction. If it is going to be ``answered``, what is kept from here on can be found again."""
        exchange, own = self.exchange, self.party.state
        exchange.party, self.instruction = opened(self.party, exchange.card, parameters, config, heard=exchange.heard)
        if answered:
            note_where_it_is_kept(self.party, own)

    def permit(self, *, final: bool = False) -> None:
        """Let the owner's rules and the site's refuse; what the reply costs is known then."""
        self.charge = charge = self.exchange.charge(self.instruction)
        party = self.party
        require_claim(party, charge is not None)
        obey(self.exchange, self.instruction, charge, final=final)
        if charge is not None and party.require_privacy and party.budget.epsilon == math.inf:
            words = (
                "%s: require-privacy should come with a finite epsilon-budget, got none: this run's noise is %s, "
                "and any other would pass too."
            )
            logger.warning(words, party.name, charge.mechanism)

    def learn(self) -> Learnt:
        """Learn, make private, and put into wire arrays; beside a claim, a fixed answer stands for what fails."""
        self.before_rows(self.charge is not None, final=False)
        asked = replace(self.instruction, held=self._held)
        try:
            return self._made(self._learnt(asked), asked)
        except Exception as error:  # private rows may have caused it
            if self.charge is None:
                raise
            words = "%s: it learnt nothing; a fixed answer goes through the mechanism, is charged and sent"
            logger.exception(words, self.party.name)
            fixed = self.exchange.fixed(asked)
            notes = [*fixed.notes, PartyNote.FIXED_ANSWER]
            return self._made(replace(fixed, notes=notes, failure=cause(error)), asked)

    def release(self, learnt: Learnt) -> StoredReply:
        """Keep the state, and charge: only then may the reply leave."""
        party, charge, (answer, _, arrays) = self.party, self.charge, learnt
        metrics = signed(party.name, payload=",".join(arrays))
        if answer.failure and party.simulated:
            metrics["failure"] = answer.failure
        if answer.notes and (charge is None or party.simulated):
            metrics["notes"] = ",".join(answer.notes)
        if "accuracy" in self.leaving(charge is not None):
            metrics |= answer.metrics
        reply = StoredReply(arrays=arrays, metrics=metrics)
        if party.state.keeps:  # else no model is made bytes for nothing
            self._keep(learnt, reply)
        return self._charged(reply)

    def let_out(self, reply: StoredReply) -> dict[str, Scalar]:
        """Return, when the reply may leave, what it says of its sender: the one place where every answer leaves."""
        party, exchange = self.party, self.exchange
        said = {"went-on-from": went_on_from(party, self.instruction.earlier), "node-proof": node_proof(party)}
        said["lacks"] = "\n".join(party.public.lacks)  # of its settings, never found in its rows
        shown: dict[str, Scalar] = {name: value for name, value in said.items() if value}

        def note() -> None:  # not before a decision: what was rejected has not left
            if self.charge is None and reply.discloses:
                note_no_noise(party, exchange.card.name)

        leaving = Leaving(
            reply=reply,
            num_examples=exchange.num_rows(self.instruction),
            sender=shown,
            table=lambda public: self._table(reply, public),
            note=note,
        )
        try:
            party.door.let_out(leaving)
        except Exception:
            hold_back(party)
            raise
        return shown

    # ---------------------------------------------------------------- what the steps consist of

    def before_rows(self, private: bool, *, final: bool) -> None:
        """Refuse what may be refused; beside a claim, rows that cannot be used are not among it."""
        self.exchange.check(self.instruction, final=final)
        party = self.party
        if party.fault is None:
            return
        if not private:
            raise party.fault
        told = "The server is not told: it gets the usual answer, made from those rows."
        words = "%s: %d of its %d rows can be used: %s %s"
        logger.error(words, party.name, len(party.y), party.num_rows, party.fault, told)

    def leaving(self, private: bool) -> Collection[str]:
        """Return the names of the metrics that may leave: none beside a claim."""
        return () if private and not self.party.simulated else self.party.share_metrics

    def _kept_reply(self) -> StoredReply | None:
        """Return the reply that was kept for this request: a repeated one, or one the process ended before charging."""
        saved = self.instruction.saved
        if saved is None or saved.server_round != self.instruction.server_round:
            return None
        if saved.meta.get("data") != self.party.rows_digest:
            return None  # made from rows that are not held any more
        if saved.meta.get("charge", "") != _named(self.charge):
            return None  # made under another claim: it is not this instruction's answer, nor covered by its charge
        return StoredReply(arrays=group_of(saved.arrays, "payload"), metrics=dict(saved.meta["reply"]))

    def _keep(self, learnt: Learnt, reply: StoredReply) -> None:
        """Make what was learnt and the exact reply durable: a repeated request gets the same bytes."""
        answer, values, _ = learnt
        kept = grouped(kept=answer.kept, value=values, payload=reply.arrays)
        meta = {"algorithm": self.exchange.card.name, "data": self.party.rows_digest, "reply": reply.metrics}
        meta |= {"values": list(values), "charge": _named(self.charge), "run": self.instruction.mark}
        model = dump(answer.model) if answer.model is not None else b""
        at = self.instruction.server_round
        self.party.state.save(Saved(server_round=at, arrays=kept, model=model, meta={**answer.meta, **meta}))

    def _paid(self) -> StoredReply | None:
        """Return the reply this request has been charged for: the same bytes, and nothing is asked or spent again."""
        if self.charge is None:
            return None
        return self.party.ledger.answered(self.party.run_id, self.instruction.server_round)

    def _ask(self) -> None:
        """Let the budget refuse before anything is learnt."""
        party, charge, instruction = self.party, self.charge, self.instruction
        if charge is None:
            return
        if party.ledger.keeps:
            self._require_charges()
        rounds = 1 if charge.once else instruction.rounds_left
        party.ledger.ask(charge.events, party.budget, run_id=party.run_id, rounds=rounds)

    def _learnt(self, asked: Instruction) -> Answer:
        """Learn: in a process that can be ended, where the node has limits."""
        exchange, apart = self.exchange, self.party.apart
        if apart is None or not exchange.in_one_piece(asked):
            return exchange.learn(asked)
        return unpack_answer(apart(lambda: pack_answer(exchange.learn(asked))))

    def _made(self, answer: Answer, asked: Instruction) -> Learnt:
        values = self.exchange.release(answer, asked)
        return Learnt(answer, values, self.exchange.encode(values, asked))

    def _charged(self, reply: StoredReply) -> StoredReply:
        charge, party = self.charge, self.party
        if charge is None:
            return reply
        return party.ledger.charge(
            run_id=party.run_id,
            server_round=self.instruction.server_round,
            algorithm=self.exchange.card.name,
            events=charge.events,
            reply=reply,
            budget=party.budget,
            **charge.words,
        )

    def _require_charges(self) -> None:
        """Refuse to go on where the ledger has lost the charge of the last reply that the server has."""
        ledger, last_round = self.party.ledger, self.instruction.last_round
        runs = (self.party.run_id, *self.instruction.earlier)
        if not last_round or any(ledger.entries(run, last_round) for run in runs):
            return
        way_out = "Mount the state-dir this party had then; an empty one has forgotten what was spent."
        rule = f"hold the charge of round {last_round}, which the server has the labels of"
        name = f"ledger {getattr(ledger, 'path', '')}"
        raise DataError(explain(name, rule, "no such entry", way_out), code=Code.LEDGER_LOST)

    @cached_property
    def _held(self) -> Mapping[str, NDArray[Any]]:
        """What this party kept for replies of changes, if it is what the server says it holds."""
        saved, named, party = self.instruction.saved, self.instruction.base, self.party
        if saved is None or not named or saved.meta.get("held-back"):
            return {}
        if saved.meta.get("charge") and party.ledger.keeps:
            # not where that was refused, or another process was faster: no guess at what never left must show
            sent = party.ledger.answered(party.run_id, saved.server_round)
            same = (np.array_equal(a, saved.arrays[f"payload.{n}"]) for n, a in (sent.arrays if sent else {}).items())
            if sent is None or not all(same):
                return {}
        values = self.exchange.referable(saved, self.instruction)
        return values if digests(values.values()) == named else {}

    def _table(self, reply: StoredReply, public: Shown) -> Table:
        """Return a reply as a table, read back from its bytes; None for one that no table shows."""
        if (own := self.exchange.table(reply.arrays, self.instruction)) is not None:
            return own
        party, rows = self.party, self.exchange.asked_rows(self.instruction)
        try:
            columns = answer_columns(
                reply.arrays,
                public=party.spec.rows(len(rows)),
                classes=party.public.schema.classes,
                server_round=self.instruction.server_round,
                base=self._held,
                students=getattr(self.instruction.config, "students", 1),
            )
        except PayloadError as error:  # changes to an answer that is not kept any more
            logger.warning("%s: this reply cannot be shown as a table: %s", party.name, error)
            return None
        return answer_table(rows, public, columns) if columns else None


def refused(exchange: PartyExchange, error: Exception, config: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Return the code that leaves for an error, and tell the party's own log the rest."""
    party = exchange.party
    code = code_of(error, withheld=withholds(party, exchange.card, config))
    if code in TELLING:  # no claim here, and private rows may have decided it: a later budget must know
        try:
            note_no_noise(party, exchange.card.name)
        except Exception:
            logger.exception("%s: that a code leaves could not be written down: it is withheld", party.name)
            code = Code.WITHHELD
    return refusal(party.name, error, code, simulated=party.simulated, door=party.door)


def hold_back(party: Party) -> None:
    """Keep later replies from being changes to this one: whether a guess at it is right must not show."""
    if (saved := party.state.load()) is None:
        return
    try:
        party.state.save(replace(saved, meta={**saved.meta, "held-back": True}))
    except OSError as error:
        logger.warning("%s starts afresh: its state of this run cannot be kept (%s)", party.name, error)
        party.state.remove()  # needs no room on the disk


def claimed(party: Party, saved: Saved | None) -> bool:
    """Tell whether an earlier reply of this run came with a claim."""
    if saved is not None and saved.meta.get("charge"):
        return True
    of_run = party.ledger.entries(party.run_id)
    return any(event["kind"] != "non-private" for entry in of_run for event, _ in entry.events)


def _named(charge: Charge | None) -> str:
    """Return a digest that tells one charge from another, "" for none."""
    if charge is None:
        return ""
    return sha256(canonical([charge.mechanism, charge.unit, plain_events(charge.events)])).hexdigest()


def kept_model(party: Party, instruction: Instruction) -> tuple[Classifier | None, list[str]]:
    """Return the model this party kept, None where there is none, and what the server should know of it."""
    last_round, saved = instruction.last_round, instruction.saved
    kept = saved.server_round if saved is not None and saved.model else 0
    notes: list[str] = []
    if kept < last_round:
        words = (
            "%s: kept state must be of round >= %d, got %s. Its model continues from there; keep state-dir on "
            "a disk that survives this node's restarts."
        )
        logger.warning(words, party.name, last_round, kept or "none")
        notes.append(PartyNote.STATE_LOST)
    if saved is None or not kept:
        return None, notes
    from fedkd_flwr.models.serialize import loads

    try:  # the file is this party's own
        return loads(saved.model, trust=True), notes
    except ModelBytesError as error:
        logger.warning("%s: the model it kept cannot be read, so it starts afresh: %s", party.name, error)
        return None, [*notes, PartyNote.STATE_LOST]

"""A party's side of every exchange: what it holds, what it lets out, and how one visit goes.

    check the instruction and the public set -> this party's own rules and budget -> learn -> make private -> keep state
    -> charge, with the exact reply -> approval and the egress log -> reply

Everything that goes wrong is caught here: the full text goes to the party's own log, the reply carries a code
from a fixed list and no text. Only in simulation, where one person holds all the rows, does the cause go along.

**Failure is an output.** Beside a claim, private rows may decide nothing that shows but the mechanism's output. What
settings, public facts or the ledger forbid is refused, by `PartyClient.check` at the latest, before a private row is
looked at. Whatever fails later becomes data: `PartyClient.fixed` values go through the mechanism in place of the
missing ones, are charged and sent; and the final visit has one answer.
"""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any, ClassVar

import numpy as np
from flwr.client import NumPyClient
from numpy.typing import NDArray

from fedkd_flwr.algorithms.card import Card, kebab
from fedkd_flwr.clients.answer_table import answer_columns, answer_table
from fedkd_flwr.clients.continuing import node_proof, note_where_it_is_kept, went_on_from
from fedkd_flwr.clients.door import Ask, Leaving, Shown, Table, discloses
from fedkd_flwr.clients.final_visit import keep_models, learnt_at_the_end, show, told_at_the_end
from fedkd_flwr.clients.opening import opened, other_rows, withholds
from fedkd_flwr.clients.party import Answer, Charge, Finished, Instruction, Party
from fedkd_flwr.clients.pieces import dump, pack_answer, unpack_answer
from fedkd_flwr.clients.refusals import code_of, refusal, short_cause, signed, told_cause
from fedkd_flwr.errors import TELLING, Code, DataError, Note, PayloadError, RefusalError, explain
from fedkd_flwr.labels.rules import RULES
from fedkd_flwr.privacy.cost.events import PureEvent
from fedkd_flwr.privacy.ledger.entry import canonical, plain_events
from fedkd_flwr.stores.party_state import Saved, StoredReply
from fedkd_flwr.wire.answer_codec import encode_answer
from fedkd_flwr.wire.envelope import digests
from fedkd_flwr.wire.label_codec import encode_labels
from fedkd_flwr.wire.records import Scalar

__all__ = ["PartyClient"]

logger = logging.getLogger("flwr.party")


class PartyClient(NumPyClient, ABC):
    """A party in an exchange. Subclasses say what it learns, `learn` and `finish`, and what its replies cost, `charge`.

    Parameters
    ----------
    party : Party
        What it holds and allows.
    """

    card: ClassVar[Card]
    heard: ClassVar[frozenset[str]] = frozenset()
    """Which of the arrays that it keeps hold nothing but what the server said, or has heard."""

    def __init__(self, party: Party) -> None:
        self.party = party

    @abstractmethod
    def learn(self, instruction: Instruction) -> Answer:
        """Learn, and return what the reply is made from; nothing of it has left yet."""

    @abstractmethod
    def finish(self, instruction: Instruction) -> Finished:
        """Learn from what comes back at the end; return the party's model and how good it is alone."""

    def charge(self, instruction: Instruction) -> Charge | None:
        """Return what the reply to this instruction costs; None where no mechanism of this party makes it private."""
        return None

    def check(self, instruction: Instruction, *, final: bool) -> None:
        """Refuse what settings, public facts or this party's own files forbid; called before a private row is read.

        Beside a claim, what is not refused here is not refused at all: it fails in `learn`, and becomes an answer.
        ``final`` says that the instruction is for `finish`.
        """

    def fixed(self, instruction: Instruction) -> Answer:
        """Return the answer of a party that learnt nothing: the lowest class for each public row."""
        return Answer(values={"labels": np.zeros((1, self.num_rows(instruction)), dtype=np.int16)})

    def release(self, answer: Answer, instruction: Instruction) -> Mapping[str, NDArray[Any]]:
        """Return what leaves, by payload name: privatised where `charge` says so."""
        return answer.values

    def asks(self, instruction: Instruction) -> Mapping[str, int]:
        """Return settings of the run, by key, that are no less than so much, whatever the run says: it asks for that.

        A site's rules go by it.
        """
        return {}

    def num_rows(self, instruction: Instruction) -> int:
        """Return how many public rows a reply speaks of: what the server is told as the number of examples."""
        return self.party.public.num_rows

    def encode(
        self, values: Mapping[str, NDArray[Any]], instruction: Instruction, base: Mapping[str, NDArray[Any]]
    ) -> dict[str, NDArray[Any]]:
        """Return the values as wire arrays; ``base`` are values of an earlier reply that the server holds."""
        return encode_answer(
            values,
            public=self.party.spec.rows(self.num_rows(instruction)),
            server_round=instruction.server_round,
            base=base,
            rule=RULES.get(instruction.rule),
        )

    def fit(
        self, parameters: list[NDArray[Any]], config: dict[str, Scalar]
    ) -> tuple[list[NDArray[Any]], int, dict[str, Scalar]]:
        """Answer one round: labels, the number of public rows labelled, and metrics if they may leave."""
        try:
            instruction = self._entered(parameters, config)
            charge = self._permitted(instruction)
            reply = self._paid(instruction, charge)
            if reply is None:
                self._ask(instruction, charge)
                reply = self._kept(instruction, charge) or self._say(instruction, charge)
            shown = self._let_out(reply, instruction, charge)
            return list(reply.arrays.values()), self.num_rows(instruction), {**reply.metrics, **shown}
        except Exception as error:
            return [], 0, self._refusal(error, config)

    def evaluate(
        self, parameters: list[NDArray[Any]], config: dict[str, Scalar]
    ) -> tuple[float, int, dict[str, Scalar]]:
        """Take the final labels in; return the zero-one loss and metrics if they may leave."""
        try:
            instruction = self._entered(parameters, config)
            # a server that asks for metrics as if nothing had been claimed does not get them
            charge = self._permitted(instruction, final=True)
            private = charge is not None or self._claimed(instruction)
            if self.party.ledger is not None:
                self.party.ledger.end_plan(self.party.run_id)
            self._before_rows(instruction, private, final=True)
            rows, loss, metrics = self.num_rows(instruction), float("nan"), signed(self.party.name)
            try:
                found = self._finished(instruction, private)
            except Exception as error:
                if not private:
                    raise
                logger.exception("%s: the final visit failed here; the server gets its usual answer", self.party.name)
                metrics |= told_cause(error, self.party.simulated)
                if self.party.state is not None and self.party.forgets:
                    self.party.state.remove()  # as where it went well: what is kept decides the size of later replies
            else:
                if found is not None:
                    loss, metrics = found[0], metrics | found[1]
            told = metrics if math.isnan(loss) else metrics | {"loss": loss}
            shown = self._let_out(StoredReply(metrics=told), instruction, charge)
            return loss, rows, {**metrics, **shown}
        except Exception as error:
            return float("nan"), 0, self._refusal(error, config)

    def ready(self, config: dict[str, Scalar]) -> dict[str, Scalar]:
        """Say before the first round whether this party would refuse it, by what no private row decides beside a claim.

        Parameters
        ----------
        config : dict
            The settings of the first round, without its arrays.
        """
        error = self.judge(config)
        said = signed(self.party.name) if error is None else self._refusal(error, config)
        return said if said.get("code") != Code.WITHHELD else signed(self.party.name)

    def judge(self, config: dict[str, Scalar]) -> Exception | None:
        """Return why this party would refuse the first round of a run with these settings, None where it would not.

        Nothing is learnt, charged or kept, and no note goes into the ledger.
        """
        try:
            instruction = self._open([], config)
            private = instruction.config.privacy == "party"
            self._require_claim(private)
            self._require_rows(private)
            party = self.party
            # unknown where an array names the rows to ask, which is not here: then only a spent budget is seen
            known = type(self).num_rows is PartyClient.num_rows or getattr(instruction.config, "subset_rows", 0) > 0
            exact = self.charge(instruction) if private and known else None
            if exact is not None or not private:
                self._obey(instruction, exact, final=False)
            if private and party.ledger is not None and party.budget.epsilon < math.inf:
                least = [(PureEvent(party.budget.epsilon * _LEAST_LEFT), 1)]
                party.ledger.ask(exact.events if exact is not None else least, party.budget)
        except Exception as error:
            return error
        return None

    def rehearse(self, config: dict[str, Scalar]) -> tuple[list[NDArray[Any]], int, dict[str, Scalar]]:
        """Answer as in a round, but with the lowest class for each public row, which nothing private has touched.

        Refuses as `ready`, and where this party's model fails on public rows with made-up labels; beside a claim it
        answers then, as it does in a round. Nothing is charged or kept.
        """
        said = self.ready(config)
        if "code" in said:
            return [], 0, said
        party, count = self.party, self.party.public.num_rows
        try:
            self.try_model()
        except Exception as error:
            # its process is a copy of this one, with all private rows: a limit may be passed because of them
            code = code_of(error, withheld=withholds(self.party, self.card, config))
            refused = refusal(party.name, error, code, simulated=party.simulated)
            if code != Code.WITHHELD:
                return [], 0, refused
        labels = encode_labels(np.zeros((1, count), dtype=np.int16), public=party.spec, server_round=1)
        return [labels], count, {**said, "payload": "labels"}

    def try_model(self) -> None:
        """Fit this party's model to a few public rows with made-up labels of all classes, and let it answer."""
        party = self.party
        X, num_classes = party.public.X[:_TRIED], party.public.num_classes

        def work() -> bytes:
            party.model(seed=0).fit(X, np.arange(len(X)) % num_classes).predict(X)
            return b""

        work() if party.apart is None else party.apart(work)

    def _finished(self, instruction: Instruction, private: bool) -> tuple[float, dict[str, Scalar]] | None:
        """Take the final labels in; return the zero-one loss and metrics, None where they stay here."""
        party = self.party
        finished = learnt_at_the_end(party, self.finish, instruction)
        kept = keep_models(party, finished)
        show(party, finished, kept)
        leaving = self._leaving(private)
        return told_at_the_end(party, finished, kept, leaving) if leaving and self._enough_rows() else None

    # ---------------------------------------------------------------- work that can be ended

    def in_one_piece(self, instruction: Instruction) -> bool:
        """Tell whether `learn` is ended as a whole where the node has limits: where private rows are one unit to it."""
        return True

    def _learnt_apart(self, instruction: Instruction) -> Answer:
        """Learn, where there are rows enough: in a process that can be ended, where the node has limits."""
        if not self._enough_rows():
            way_out = "Lower class-rows-at-least in this node's config, or wait until there are more rows."
            message = explain(
                f"rows of each class of {self.party.name}", "be as many as the site asks", "fewer", way_out
            )
            raise DataError(message, code=Code.TOO_FEW_ROWS)
        if self.party.apart is None or not self.in_one_piece(instruction):
            return self.learn(instruction)
        return unpack_answer(self.party.apart(lambda: pack_answer(self.learn(instruction))))

    # ---------------------------------------------------------------- one visit, step by step

    def _permitted(self, instruction: Instruction, *, final: bool = False) -> Charge | None:
        """Return what the reply costs, after the party's own rules have let it pass."""
        party, charge = self.party, self.charge(instruction)
        self._require_claim(charge is not None)
        self._obey(instruction, charge, final=final)
        if charge is None:
            return None
        if party.require_privacy and party.budget.epsilon == math.inf:
            logger.warning(
                "%s: require-privacy should come with a finite epsilon-budget, got none: this run's noise is %s, "
                "and any other would pass too.",
                party.name,
                charge.mechanism,
            )
        return charge

    def _shown(self, instruction: Instruction) -> dict[str, Scalar]:
        """Return what a reply says of its sender: the run it went on from, and what the node secret gives."""
        shown = {"went-on-from": went_on_from(self.party, instruction.earlier), "node-proof": node_proof(self.party)}
        return {name: value for name, value in shown.items() if value}

    def _require_claim(self, private: bool) -> None:
        """Refuse a run without a mechanism at this party, where its owner demands one."""
        if self.party.demands_privacy and not private:
            way_out = "Choose a run with noise at the party, or lift require-privacy and epsilon-budget here."
            message = explain("privacy", f"be claimed at {self.party.name}", "none", way_out)
            raise RefusalError(message, code=Code.PRIVACY_REQUIRED)

    def _require_rows(self, private: bool) -> None:
        """Raise why rows of the file cannot be used; nothing beside a claim, where the server must not be told."""
        if self.party.fault is not None and not private:
            raise self.party.fault

    def _note_no_noise(self) -> None:
        """Note, before it leaves, that a reply of this run has no noise: a budget set later will know of it."""
        if self.party.ledger is not None and not self.party.simulated:  # a simulation's ledgers are its own
            self.party.ledger.note_no_noise(run_id=self.party.run_id, algorithm=self.card.name)

    def _obey(self, instruction: Instruction, charge: Charge | None, *, final: bool) -> None:
        """Let the site's rules refuse before anything is learnt; in the final visit nothing is left to refuse."""
        config = instruction.config
        told = config.told()
        known = {key: told[kebab(name)] for name, key in config.keys().items() if kebab(name) in told}
        if final:
            self.party.door.before_rows(Ask(server_round="final", algorithm=self.card.name, told=known))
            return
        words = ("mechanism", "unit", "adversary", "neighbouring_relation")
        self.party.door.before_rows(
            Ask(
                server_round=instruction.server_round,
                algorithm=self.card.name,
                told=known,
                claim=None if charge is None else {word: getattr(charge, word) for word in words},
                events=None if charge is None else charge.events,
                public=self.party.public.fingerprint,
                rounds_left=instruction.rounds_left,
                least=self.asks(instruction),
                notes=other_rows(instruction.saved, self.card),
            )
        )

    def _enough_rows(self) -> bool:
        """Tell whether the party holds as many rows of each of its classes as its site asks."""
        counts = np.bincount(self.party.y, minlength=self.party.public.num_classes)
        return self.party.door.enough_rows(counts.tolist())

    def _let_out(self, reply: StoredReply, instruction: Instruction, charge: Charge | None) -> dict[str, Scalar]:
        """Return, when the reply may leave, what it says of its sender: the one place where every answer leaves."""
        shown = self._shown(instruction)

        def note() -> None:  # not before a decision: what was rejected has not left
            if charge is None and discloses(reply):
                self._note_no_noise()

        leaving = Leaving(
            reply=reply,
            num_examples=self.num_rows(instruction),
            sender=shown,
            table=lambda public: self._table(reply, instruction, public),
            note=note,
        )
        try:
            self.party.door.let_out(leaving)
        except Exception:
            self._hold_back()
            raise
        return shown

    def _hold_back(self) -> None:
        """Keep later replies from being changes to this one: whether a guess at it is right must not show."""
        state = self.party.state
        if state is not None and (saved := state.load()) is not None:
            try:
                state.save(replace(saved, meta={**saved.meta, "held-back": True}))
            except OSError as error:
                logger.warning("%s starts afresh: its state of this run cannot be kept (%s)", self.party.name, error)
                state.remove()  # needs no room on the disk

    def _table(self, reply: StoredReply, instruction: Instruction, public: Shown) -> Table:
        """Return a reply as a table, read back from its bytes; None for one that no table shows."""
        party, rows, base = self.party, self.asked_rows(instruction), dict(self._base(instruction))
        if "answered" in base:
            base["answered"] = base["answered"][rows]
        try:
            columns = answer_columns(
                reply.arrays,
                public=party.spec.rows(len(rows)),
                classes=party.public.schema.classes,
                server_round=instruction.server_round,
                base=base,
                students=getattr(instruction.config, "students", 1),
            )
        except PayloadError as error:  # changes to an answer that is not kept any more
            logger.warning("%s: this reply cannot be shown as a table: %s", party.name, error)
            return None
        return answer_table(rows, public, columns) if columns else None

    def asked_rows(self, instruction: Instruction) -> NDArray[np.int64]:
        """Return the numbers of the public rows that a reply speaks of, in the order in which it does."""
        return np.arange(self.num_rows(instruction))

    def _paid(self, instruction: Instruction, charge: Charge | None) -> StoredReply | None:
        """Return the reply this request has been charged for: the same bytes, and nothing is asked or spent again."""
        ledger = self.party.ledger
        if charge is None or ledger is None:
            return None
        return ledger.answered(self.party.run_id, instruction.server_round)

    def _ask(self, instruction: Instruction, charge: Charge | None) -> None:
        """Let the budget refuse before anything is learnt."""
        party, ledger = self.party, self.party.ledger
        if charge is None or ledger is None:
            return
        last_round = instruction.last_round
        runs = (party.run_id, *instruction.earlier)
        if last_round and not any(ledger.entries(run, last_round) for run in runs):
            way_out = "Mount the state-dir this party had then; an empty one has forgotten what was spent."
            rule = f"hold the charge of round {last_round}, which the server has the labels of"
            message = explain(f"ledger {ledger.path}", rule, "no such entry", way_out)
            raise DataError(message, code=Code.LEDGER_LOST)
        rounds = 1 if charge.once else instruction.rounds_left
        ledger.ask(charge.events, party.budget, run_id=party.run_id, rounds=rounds, continues=instruction.earlier)

    def _kept(self, instruction: Instruction, charge: Charge | None) -> StoredReply | None:
        """Return the reply that was kept for this request: a repeated one, or one the process ended before charging."""
        saved = instruction.saved
        if saved is None or saved.server_round != instruction.server_round:
            return None
        if saved.meta.get("data") != self.party.rows_digest:
            return None  # made from rows that are not held any more
        if saved.meta.get("charge", "") != _named(charge):
            return None  # made under another claim: it is not this instruction's answer, nor covered by its charge
        arrays = {name: saved.arrays[f"payload.{name}"] for name in saved.meta["payload"]}
        return self._charged(StoredReply(arrays=arrays, metrics=dict(saved.meta["reply"])), instruction, charge)

    def _say(self, instruction: Instruction, charge: Charge | None) -> StoredReply:
        """Learn, make private, keep state, charge: only then may the reply leave."""
        party = self.party
        self._before_rows(instruction, charge is not None, final=False)
        answer, values, arrays = self._made(instruction, charge)
        metrics = signed(party.name, payload=",".join(arrays))
        if answer.failure and party.simulated:
            metrics["failure"] = answer.failure
        if answer.notes and (charge is None or party.simulated):
            metrics["notes"] = ",".join(answer.notes)
        if "accuracy" in self._leaving(charge is not None):
            metrics |= answer.metrics
        reply = StoredReply(arrays=arrays, metrics=metrics)
        if party.state is not None:
            # the exact reply is durable before it leaves: a repeated request gets the same bytes
            kept = {f"kept.{name}": array for name, array in answer.kept.items()}
            kept |= {f"value.{name}": array for name, array in values.items()}
            kept |= {f"payload.{name}": array for name, array in arrays.items()}
            party.state.save(
                Saved(
                    server_round=instruction.server_round,
                    arrays=kept,
                    model=dump(answer.model) if answer.model is not None else b"",
                    meta={
                        **answer.meta,
                        "algorithm": self.card.name,
                        "data": self.party.rows_digest,
                        "reply": metrics,
                        "values": list(values),
                        "payload": list(arrays),
                        "charge": _named(charge),
                        "run": instruction.mark,
                    },
                )
            )
        return self._charged(reply, instruction, charge)

    def _before_rows(self, instruction: Instruction, private: bool, *, final: bool) -> None:
        """Refuse what may be refused; beside a claim, rows that cannot be used are not among it."""
        self.check(instruction, final=final)
        self._require_rows(private)
        if self.party.fault is not None:
            logger.error(
                "%s: %d of its %d rows can be used: %s The server is not told: it gets the usual answer, made from "
                "those rows.",
                self.party.name,
                len(self.party.y),
                self.party.num_rows,
                self.party.fault,
            )

    def _made(
        self, instruction: Instruction, charge: Charge | None
    ) -> tuple[Answer, Mapping[str, NDArray[Any]], dict[str, NDArray[Any]]]:
        """Return what was learnt, what leaves of it, and its wire arrays."""
        base = self._base(instruction)

        def say(answer: Answer) -> tuple[Answer, Mapping[str, NDArray[Any]], dict[str, NDArray[Any]]]:
            values = self.release(answer, instruction)
            return answer, values, self.encode(values, instruction, base)

        if charge is None:
            return say(self._learnt_apart(instruction))
        try:
            return say(self._learnt_apart(instruction))
        except Exception as error:  # private rows may have caused it
            words = "%s: it learnt nothing; a fixed answer goes through the mechanism, is charged and sent"
            logger.exception(words, self.party.name)
            fixed = self.fixed(instruction)
            failure = short_cause(error)
            return say(replace(fixed, notes=[*fixed.notes, Note.FIXED_ANSWER], failure=failure))

    def _charged(self, reply: StoredReply, instruction: Instruction, charge: Charge | None) -> StoredReply:
        ledger = self.party.ledger
        if charge is None or ledger is None:
            return reply
        return ledger.charge(
            run_id=self.party.run_id,
            server_round=instruction.server_round,
            algorithm=self.card.name,
            mechanism=charge.mechanism,
            unit=charge.unit,
            adversary=charge.adversary,
            neighbouring_relation=charge.neighbouring_relation,
            events=charge.events,
            reply=reply,
            budget=self.party.budget,
        )

    def _base(self, instruction: Instruction) -> Mapping[str, NDArray[Any]]:
        """Return what this party kept for replies of changes, if it is what the server says it holds."""
        saved, named = instruction.saved, instruction.base
        if saved is None or not named or saved.meta.get("held-back"):
            return {}
        if saved.meta.get("charge") and not self._left(saved):
            return {}  # whether a guess at what never left is right must not show
        values = self.referable(saved, instruction)
        return values if digests(values.values()) == named else {}

    def _left(self, saved: Saved) -> bool:
        """Tell whether this very answer was charged: not where that was refused, or another process was faster."""
        ledger = self.party.ledger
        if ledger is None:
            return True
        sent = ledger.answered(self.party.run_id, saved.server_round)
        return sent is not None and all(
            np.array_equal(array, saved.arrays[f"payload.{name}"]) for name, array in sent.arrays.items()
        )

    def referable(self, saved: Saved, instruction: Instruction) -> Mapping[str, NDArray[Any]]:
        """Return what a reply of changes may refer to: here the values of the last reply, but what is said once."""
        once = RULES[instruction.rule].once if instruction.rule else ()
        names = (name for name in saved.meta["values"] if name not in once)
        return {name: saved.arrays[f"value.{name}"] for name in names}

    def _claimed(self, instruction: Instruction) -> bool:
        """Tell whether an earlier reply of this run came with a claim."""
        party, saved = self.party, instruction.saved
        if saved is not None and saved.meta.get("charge"):
            return True
        if party.ledger is None:
            return False
        of_run = party.ledger.entries(party.run_id)
        return any(event["kind"] != "non-private" for entry in of_run for event, _ in entry.events)

    def _leaving(self, private: bool) -> Collection[str]:
        """Return the names of the metrics that may leave: none beside a claim."""
        return () if private and not self.party.simulated else self.party.share_metrics

    def _refusal(self, error: Exception, config: Mapping[str, Scalar]) -> dict[str, Scalar]:
        code = code_of(error, withheld=withholds(self.party, self.card, config))
        if code in TELLING:  # no claim here, and private rows may have decided it: a later budget must know
            try:
                self._note_no_noise()
            except Exception:
                logger.exception("%s: that a code leaves could not be written down: it is withheld", self.party.name)
                code = Code.WITHHELD
        return refusal(self.party.name, error, code, simulated=self.party.simulated, door=self.party.door)

    def _entered(self, parameters: list[NDArray[Any]], config: dict[str, Scalar]) -> Instruction:
        """Open an instruction that may be answered: whatever is kept from here on can be found again."""
        own = self.party.state
        instruction = self._open(parameters, config)
        note_where_it_is_kept(self.party, own)
        return instruction

    def _open(self, parameters: list[NDArray[Any]], config: dict[str, Scalar]) -> Instruction:
        self.party, instruction = opened(self.party, self.card, parameters, config, heard=self.heard)
        return instruction


def _named(charge: Charge | None) -> str:
    """Return a digest that tells one charge from another, "" for none."""
    if charge is None:
        return ""
    return sha256(canonical([charge.mechanism, charge.unit, plain_events(charge.events)])).hexdigest()


_LEAST_LEFT = 1e-3  # of a budget: where not even this is left, it is spent
_TRIED = 64  # public rows that a rehearsal tries a model on

"""The exchange of hard labels on all public rows: what FedKT, FedCT and PATE have in common at the server.

down   the consensus so far, with abstentions         up   one or more label arrays a party
"""

from __future__ import annotations

import hashlib
import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from logging import INFO
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord
from flwr.common import log
from numpy.typing import NDArray

from fedkd_flwr.algorithms.exchange import VoteFacts, VotersConfig
from fedkd_flwr.errors import PayloadError, explain
from fedkd_flwr.labels import ABSTAIN, Consensus, ConsensusRule, Labels, agreement, check_labels, is_informative
from fedkd_flwr.labels.known import KnownRows, draw_known, judged_consensus
from fedkd_flwr.labels.rules import RULES, rule_for
from fedkd_flwr.labels.trust import NEARLY_ALL, nearly_alike
from fedkd_flwr.labels.voting import share_right
from fedkd_flwr.record.notes import Note, NoteCode
from fedkd_flwr.record.run_record import PartyRecord, RoundRecord
from fedkd_flwr.strategies.exchange import Arrays, Exchange, PartyAnswer, Stage
from fedkd_flwr.strategies.vote_notes import advice, compared_rules, disagreeing_parties, idle_parties, swapping_parties
from fedkd_flwr.wire.label_codec import decode_answer, encode_labels
from fedkd_flwr.wire.records import Reply, Room, Scalar
from fedkd_flwr.wire.score_codec import encode_scores

__all__ = ["LabelExchange", "PartyLabels"]


@dataclass(frozen=True, kw_only=True)
class PartyLabels(PartyAnswer):
    """One party's labels of one round."""

    # (num_arrays, num_public), int16: Its label arrays; (1, num_public * num_classes) zeros and ones where it sent one-
    # hot bits
    labels: Labels
    changed_share: float | None = None  # share of labels it changed since its last valid answer
    # what it sent beside them for the run's rule, by payload name
    beside: Mapping[str, NDArray[Any]] = field(default_factory=dict)


_OTHER = {"labels": ("bits",), "bits": ("labels",)}  # what is not counted where the other is
_SOFT_BITS = 4  # of a probability that goes down
_NAMED = 5  # lost classes; further ones are counted
_LEAST_MEASURED = 30  # public rows: of fewer a share says next to nothing


class LabelExchange(Exchange[PartyLabels]):
    """Base of the exchanges of labels. Subclasses say how labels become a consensus: `combine`.

    Parameters as in `Exchange`. ``consensus`` is the last one, int16 labels of shape (num_public,).
    """

    config: VotersConfig
    keeps = ("_said_once", "choice", "probs")

    def __init__(self, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.consensus: Labels = np.full(self.spec.num_public, ABSTAIN, dtype=np.int16)
        self.vote: Labels | None = None  # raw vote; None unless `consensus` holds model predictions
        target, drawn = self.public.schema.target, self.public.schema.class_shares
        self.config = self.config.on_drawn_rows() if drawn and target is None else self.config
        self.rule: ConsensusRule = rule_for(self.config.vote_rule, target, drawn=drawn)
        self.choice = ("", "")  # the rule that the answers chose, and why; "" where the run names one on labels
        self._said_once: dict[str, dict[str, NDArray[Any]]] = {}  # by party, and payload name
        self._trusts: dict[str, float] = {}  # of this round's answers, by party
        self.probs: NDArray[np.float64] | None = None  # of each class in each row, where the consensus came with them
        self._by_votes = True  # whether votes made this round's consensus

    def restore(self, result: Arrays, kept: Mapping[str, Any]) -> None:
        """Take up the consensus, what was said once, and the rule."""
        super().restore(result, kept)
        self.consensus = np.asarray(result["labels"])
        self._take(*self.choice)

    def plan(self, num_rounds: int) -> None:
        """Take the number of rounds; refuse, before anybody is waited for, known rows that cannot be drawn."""
        _ = self.known
        super().plan(num_rounds)

    @abstractmethod
    def combine(self, server_round: int, answers: Sequence[PartyLabels], this: RoundRecord) -> Labels:
        """Turn the valid answers of a round, in party-name order, into the consensus."""

    @property
    def arrays_per_party(self) -> int:
        """How many label arrays a reply holds."""
        return 1

    @property
    def payload(self) -> str:
        """What a reply carries: ``labels``, or ``bits`` (labels as one-hot bits)."""
        return "labels"

    @property
    def room(self) -> Room:
        """The most that an honest answer may hold: 2 bytes for each label of each array besides."""
        more = 2 * self.arrays_per_party * self.spec.num_public
        return replace(super().room, num_bytes=super().room.num_bytes + more)

    def outgoing(self, stage: Stage, server_round: int) -> dict[str, NDArray[Any]]:
        """Return the consensus, once there is one; at the end with each class's probability, where that is known."""
        soft: dict[str, NDArray[Any]] = {}
        if stage == "evaluate" and self.probs is not None:
            at, spec = server_round, self.spec
            soft["probs"] = encode_scores(self.probs, public=spec, server_round=at, kind="probs", bits=_SOFT_BITS)
        if (self.consensus != ABSTAIN).any() or stage == "evaluate" or server_round > 1:
            return {"labels": encode_labels(self.consensus, public=self.spec, server_round=server_round), **soft}
        return {}

    def read(self, reply: Reply, server_round: int) -> PartyLabels:
        """Return the label arrays of a reply, and what came beside them."""
        held, rule = self.held.get(reply.party, {}), RULES.get(self.asks)
        once = () if rule is None else rule.once
        values = decode_answer(
            {name: array for name, array in reply.arrays.items() if name not in _OTHER[self.payload]},
            public=self.spec,
            server_round=server_round,
            base=held,
            num_arrays=self.arrays_per_party,
            rule=rule,
        )
        labels = values[self.payload]
        if (self.payload == "bits" or self.config.privacy == "party") and (labels == ABSTAIN).any():
            words = "be 0 or 1" if self.payload == "bits" else "name a class in every row beside noise"
            raise PayloadError(explain(self.payload, words, ABSTAIN), reason="class-out-of-range")
        first = self._said_once.get(reply.party, {})
        beside = {name: array for name, array in values.items() if name != self.payload}
        if beside:  # what is said once binds for the whole run, now that the whole reply can be counted
            first = {name: beside[name] for name in once if name in beside} | first
            if missing := [name for name in once if name not in first]:
                raise PayloadError(explain("reply", f"bring {missing[0]} in the first answer", "none"))
            self._said_once[reply.party] = first
            beside |= first
        changed = float((labels != held[self.payload]).mean()) if self.payload in held else None
        self.held[reply.party] = {name: array for name, array in values.items() if name not in once}
        return PartyLabels(party=reply.party, labels=labels, changed_share=changed, beside=beside)

    # ---------------------------------------------------------------- the vote rule

    @property
    def asks(self) -> str:
        """The rule whose needs parties are asked for; "" for labels alone, also once a rule on labels is settled."""
        return self.config.asked if self.rule.asks else ""

    def told(self, node: int, server_round: int) -> Mapping[str, Scalar]:
        """Return the base the server holds of a node's answers, and which rule's needs it is asked for."""
        told = dict(super().told(node, server_round))
        return {**told, "rule": self.asks} if self.asks else told

    def _take(self, name: str, reason: str) -> None:
        """Go on by the rule that the answers chose: one on labels stays, for parties are asked for no more then."""
        self.choice = name, reason
        if name and not RULES[name].needs:
            self.rule = RULES[name]

    def settled(self, found: Consensus, facts: VoteFacts, answers: Sequence[PartyLabels]) -> Consensus:
        """Return what a rule found, after it is written into the record."""
        if found.rule:
            self._take_reason(found.rule, found.reason, new=self.record.consensus_rule != found.rule)
            self._take(found.rule, found.reason)
        for name, told in found.of_party.items():
            vars(self.record.party(name)).update(told)
        names = [answer.party for answer in answers]
        trusts = None if facts.trusts is None else dict(zip(names, facts.trusts.tolist(), strict=True))
        self._trusts = dict((trusts if found.by_votes else found.trusts) or {})
        for name in (name for name in names if name in self._trusts):  # the least that it counted for in any round
            party = self.record.party(name)
            party.trust = min(self._trusts[name], 1.0 if party.trust is None else party.trust)
        self._by_votes, self.probs = found.by_votes, found.probs
        return found

    def _take_reason(self, rule: str, reason: str, *, new: bool) -> None:
        if new:
            log(INFO, "\tconsensus: %s. %s", rule, reason)
        self.record.consensus_rule, self.record.consensus_reason = rule, reason

    # ---------------------------------------------------------------- known rows

    @cached_property
    def known(self) -> KnownRows | None:
        """The public rows whose labels judge parties and rules; None without the setting."""
        if not self.config.known_rows:
            return None
        truth = self.public.truth
        # the labels themselves are in the stream's name, so that a party that guesses the seed cannot repeat the draw
        rng = self.rng("known-rows", hashlib.sha256(truth.tobytes()).hexdigest())
        return draw_known(truth, self.config.known_rows, num_classes=self.spec.num_classes, rng=rng)

    @cached_property
    def _own_labels(self) -> Labels | None:
        """What a forest of the server's own says of the public rows; None without known rows, and of texts."""
        if self.known is None or self.public.X.dtype == object:
            return None
        from fedkd_flwr.models.taught import labels_from_known

        return labels_from_known(self.public.X, *self.known, seed=int(self.rng("known-rows-forest").integers(2**31)))

    def judged(self, server_round: int, answers: Sequence[PartyLabels], found: Consensus) -> Labels:
        """Return the consensus that the known rows find best; that of ``found`` where it is, or where none are known.

        The record gets its rule and reason, and what known rows tell of the parties.
        """
        rule, reason = self.choice
        if self.known is None or not rule:
            return found.labels
        self.probs = None  # known rows judge labels
        best = judged_consensus(
            found.labels,
            [_named(answer, RULES[self.config.asked]) for answer in answers],
            self.known,
            rule=rule,
            own=self._own_labels,
            num_classes=self.spec.num_classes,
            ties=self.config.ties,
            rng=self.rng("ties", server_round),
        )
        names, count = [answer.party for answer in answers], len(self.known.rows)
        reason = f"{compared_rules(best, num_known=count)} Without them: {reason}"
        self._take_reason(best.rule, reason, new=(self.record.consensus_rule, server_round) != (best.rule, 1))
        for name, doubt in swapping_parties(names, best.vote, num_known=count).items():
            self.record.party(name).doubt(doubt)
        for note in idle_parties(names, best, num_known=count) if server_round == 1 else ():
            self.note(note)
        return best.labels

    def combine_answers(self, server_round: int, answers: Sequence[PartyLabels], this: RoundRecord) -> ArrayRecord:
        """Form the consensus, describe it in the record, and return it as plain labels."""
        previous = self.consensus
        sizes: dict[str, Any] = {"num_rows": self.spec.num_public, "num_classes": self.spec.num_classes}
        self.consensus = check_labels(self.combine(server_round, answers, this), **sizes, name="consensus")
        self._describe(this, answers)
        if self.converged(previous, answers, this):
            self.finished_round = server_round
            rounds = {"server_round": server_round, "num_rounds": self.num_rounds}
            self.note(Note(NoteCode.CONVERGED, rounds), level=INFO)
        return ArrayRecord({"labels": Array(self.consensus)})

    def _describe(self, this: RoundRecord, answers: Sequence[PartyLabels]) -> None:
        vote = self.vote if self.vote is not None else self.consensus
        labelled = vote != ABSTAIN
        this.labelled_share = float(labelled.mean())
        if not labelled.any():
            self.note(Note(NoteCode.NO_LABELS, {"server_round": this.server_round, **self.way_to_labels()}))
        elif self.payload == "labels" and answers:
            shares = [agreement(labels, vote) for a in answers for labels in a.labels]
            this.agreement = float(np.mean(shares))
            if self.config.privacy != "server":  # there, labels without noise are nobody's but the server's
                self._name_who_disagrees(answers, vote)
        changed = [a.changed_share for a in answers if a.changed_share is not None]
        this.changed_share = float(np.mean(changed)) if changed else None
        this.consensus_accuracy = share_right(self._unknown(vote), self.public.truth)

    def _unknown(self, vote: Labels) -> Labels:
        """Return the vote without the known rows, which chose it; without any where too few others have a truth."""
        if self.known is None or self.public.y is None:
            return vote
        measured = np.where(self.public.y == ABSTAIN, ABSTAIN, vote).astype(np.int16)
        measured[self.known.rows] = ABSTAIN
        return measured if (measured != ABSTAIN).sum() >= _LEAST_MEASURED else np.full_like(vote, ABSTAIN)

    def _name_who_disagrees(self, answers: Sequence[PartyLabels], vote: Labels) -> None:
        """Write down how far each party's labels are the consensus, and who is not confirmed by the others."""
        classes = range(self.spec.num_classes)
        won = np.bincount(vote[vote != ABSTAIN], minlength=self.spec.num_classes)
        present = []
        for answer in answers:
            party, agreed = self.record.party(answer.party), answer.labels == vote
            share = float(np.mean([agreement(labels, vote) for labels in answer.labels]))
            present.append(PartyRecord(name=answer.party, agreement=share, trust=self._trusts.get(answer.party)))
            if party.agreement is None or share < party.agreement:  # from round 2 on, it may repeat what it was told
                party.agreement = share
                party.class_agreement = [float(agreed[:, vote == c].mean()) if won[c] else math.nan for c in classes]
        # labels that are all alike have a note of their own (`note_votes`), and honest parties give them too
        alike = {a.party for a in answers if self._by_votes and not is_informative(a.labels)}
        for name, doubt in disagreeing_parties(present, passed_over=alike).items():
            self.record.party(name).doubt(doubt)

    def note_votes(
        self, facts: VoteFacts, answers: Sequence[PartyLabels], vote: Labels, rows: NDArray[np.int64] | None = None
    ) -> None:
        """Say who casts less than a full vote, and which classes the ``vote`` loses on the ``rows`` that were asked.

        Under the parties' noise each gives every class, and there is nothing to say.
        """
        if facts.class_voters is None:
            return
        classes, labels = self.public.schema.classes, {answer.party: answer.labels for answer in answers}
        if facts.discounted:
            weighed = facts.trusts is not None
            for note in uninformative_parties(labels, config=self.config, classes=classes, weighed=weighed):
                self.note(note)
        if facts.steadied:
            self.note(nearly_uninformative_parties(labels, classes=classes))
        if not (vote != ABSTAIN).any():
            return  # it lost all classes, and `_describe` says so
        asked = slice(None) if rows is None else rows
        lost = list(lost_classes({p: one[:, asked] for p, one in labels.items()}, vote[asked], classes=classes))
        for note in [*lost, *(advice(self.config) if lost else ())]:
            self.note(note)

    def way_to_labels(self) -> dict[str, float]:
        """Return the settings to change where a vote labels no row; overridden where settings may be the cause."""
        return {}

    def converged(self, previous: Labels, answers: Sequence[PartyLabels], this: RoundRecord) -> bool:
        """Tell whether another round can change nothing; overridden where that can be known."""
        return False


def _named(answer: PartyLabels, rule: ConsensusRule) -> Labels:
    """Return a party's label arrays, with what it says beside them as one more where that names classes."""
    also = rule.also_named(answer.beside) if answer.beside else None
    return answer.labels if also is None else np.concatenate((answer.labels, also[None]))


def uninformative_parties(
    labels: Mapping[str, Labels], *, config: VotersConfig, classes: Sequence[str], weighed: bool = False
) -> Iterator[Note]:
    """Yield a note on the parties that give every public row one class; none where their votes count like all others.

    ``weighed``: trust weighed this vote, and then all such parties together have a bound.
    """
    blind = {name: int(arrays.max()) for name, arrays in labels.items() if not is_informative(arrays)}
    if config.voters_rule == "count" or not blind:
        return
    parties = {name: None if c == ABSTAIN else classes[c] for name, c in blind.items()}
    if len(blind) == len(labels) and config.privacy != "server":
        yield Note(NoteCode.ALL_ONE_CLASS, {"parties": parties})
        return
    out = config.voters_rule == "leave-out"
    cast = {"weight": 0.0 if out else 0.5, "bounded": weighed and not out}
    yield Note(NoteCode.ONE_CLASS_VOTES, {"parties": parties, "of": len(labels), **cast})


def nearly_uninformative_parties(labels: Mapping[str, Labels], *, classes: Sequence[str]) -> Note:
    """Return a note on the parties that give nearly all rows one class, where they therefore cast less together."""
    cast = {name: arrays[arrays != ABSTAIN] for name, arrays in labels.items() if nearly_alike(arrays)}
    parties = {name: classes[int(np.bincount(one).argmax())] if one.size else None for name, one in cast.items()}
    return Note(NoteCode.NEARLY_ONE_CLASS, {"parties": parties, "of": len(labels), "share": NEARLY_ALL})


def lost_classes(labels: Mapping[str, Labels], vote: Labels, *, classes: Sequence[str]) -> Iterator[Note]:
    """Yield notes on classes that no party predicts, that the vote gives no row, or that one party alone predicts."""
    unknown, notes = [], []
    for c, name in enumerate(classes):
        gave = {party: rows for party, arrays in labels.items() if (rows := (arrays == c).any(axis=0)).any()}
        won = vote == c
        if not gave and not won.any():
            unknown.append(name)
            continue
        rows = np.any(list(gave.values()), axis=0) if gave else won
        count, kept = int(rows.sum()), int((rows & won).sum())
        said = {"class": name, "rows": count}
        if len(gave) == 1 and kept < count / 2:
            whose = {"party": next(iter(gave)), "kept": kept if won.any() else None}
            notes.append(Note(NoteCode.CLASS_OF_ONE_PARTY, {**said, **whose}))
        elif not won.any():
            notes.append(Note(NoteCode.LOST_CLASS, {**said, "parties": len(gave), "of": len(labels)}))
    if unknown:
        yield Note(NoteCode.UNKNOWN_CLASSES, {"classes": unknown})
    yield from notes[:_NAMED]
    if len(notes) > _NAMED:
        yield Note(NoteCode.MORE_LOST_CLASSES, {"count": len(notes) - _NAMED})

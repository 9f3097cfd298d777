"""The exchange of hard labels on all public rows: what FedKT, FedCT and PATE have in common at the server.

down   the consensus so far, with abstentions         up   one or more label arrays a party
"""

from __future__ import annotations

import hashlib
import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from logging import INFO
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord
from flwr.common import log
from flwr.serverapp import Grid
from numpy.typing import NDArray

from fedkd_flwr.algorithms.density_vote import DENSITY_RATIO, Choice, PartyRatios, choose
from fedkd_flwr.algorithms.exchange import VoteFacts, VotersConfig
from fedkd_flwr.errors import PayloadError, explain
from fedkd_flwr.labels import ABSTAIN, Labels, agreement, check_labels, is_informative
from fedkd_flwr.labels.known import OWN_FOREST, KnownRows, draw_known, judged_consensus
from fedkd_flwr.record.run_record import PartyRecord, RoundRecord
from fedkd_flwr.strategies.base import ExchangeStrategy, Stage
from fedkd_flwr.strategies.reception import PartyAnswer, notes_of
from fedkd_flwr.strategies.vote_notes import (
    DISAGREES,
    advice,
    compared_rules,
    disagreeing_parties,
    idle_parties,
    lost_classes,
    nearly_uninformative_parties,
    swapping_parties,
    uninformative_parties,
)
from fedkd_flwr.wire.label_codec import decode_labels, encode_labels
from fedkd_flwr.wire.ratio_codec import decode_ratios
from fedkd_flwr.wire.records import Reply, Room, Scalar

__all__ = ["LabelExchange", "PartyLabels"]


@dataclass(frozen=True, kw_only=True)
class PartyLabels(PartyAnswer):
    """One party's labels of one round.

    Parameters
    ----------
    labels : ndarray of shape (num_arrays, num_public), int16
        Its label arrays; (1, num_public * num_classes) zeros and ones where it sent one-hot bits.
    changed_share : float or None
        Share of labels it changed since its last valid answer.
    ratios : PartyRatios, optional
        Its density ratios.
    """

    labels: Labels
    changed_share: float | None = None
    ratios: PartyRatios | None = None


_LEAST_MEASURED = 30  # public rows: of fewer a share says next to nothing


def _said(answer: PartyLabels) -> Labels:
    """Return a party's label arrays, with the classes that its ratios name as one more."""
    return answer.labels if answer.ratios is None else np.concatenate((answer.labels, answer.ratios.labels[None]))


class LabelExchange(ExchangeStrategy[PartyLabels]):
    """Base of the strategies that exchange labels. Subclasses say how labels become a consensus: `combine`.

    Parameters as in `ExchangeStrategy`.

    Attributes
    ----------
    consensus : ndarray of shape (num_public,), int16
        The last consensus.
    """

    config: VotersConfig

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self.consensus: Labels = np.full(self.spec.num_public, ABSTAIN, dtype=np.int16)
        self.vote: Labels | None = None  # raw vote; None unless `consensus` holds model predictions
        self.choice: Choice | None = None  # of a rule, from the answers so far
        self._class_counts: dict[str, NDArray[np.int64]] = {}
        self._trusts: dict[str, float] = {}  # of this round's answers, by party

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return the class counts that came with ratios, and the rule that the answers chose."""
        counts = {f"class-counts.{i}": array for i, array in enumerate(self._class_counts.values())}
        choice = None if self.choice is None else {"rule": self.choice.rule, "reason": self.choice.reason}
        return counts, {"counted": list(self._class_counts), "choice": choice}

    def restore(
        self, result: Mapping[str, NDArray[Any]], arrays: Mapping[str, NDArray[Any]], plain: Mapping[str, Any]
    ) -> None:
        """Take up the consensus, class counts and rule."""
        self.consensus = np.asarray(result["labels"])
        self._class_counts = {party: arrays[f"class-counts.{i}"] for i, party in enumerate(plain["counted"])}
        # whatever else there was of the choice was that round's: ratios are chosen from anew in each
        self.choice = None if plain["choice"] is None else Choice(**plain["choice"])

    def prepare(self, grid: Grid, num_rounds: int) -> None:
        """Wait for the nodes; the first round may follow."""
        _ = self.known  # rows that cannot be drawn are refused before anybody is waited for
        super().prepare(grid, num_rounds)

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
        """Return the consensus, once there is one."""
        if (self.consensus != ABSTAIN).any() or stage == "evaluate" or server_round > 1:
            return {"labels": encode_labels(self.consensus, public=self.spec, server_round=server_round)}
        return {}

    def read(self, reply: Reply, server_round: int) -> PartyLabels:
        """Return the label arrays of a reply."""
        held = self._held.get(reply.party, {})
        ratios, labels = None, None
        if "ratios" in reply.arrays and self.asks_ratios:
            ratios, labels = self._ratios(reply, server_round, held)
        if labels is None or self.arrays_per_party > len(labels):
            labels = self._labels(reply, server_round, labels, held)
        if ratios is not None:  # only now that the whole reply can be counted: they bind for the whole run
            self._class_counts[reply.party] = ratios.class_counts
            self.record.party(reply.party).class_counts = ratios.class_counts.tolist()
        changed = float((labels != held[self.payload]).mean()) if self.payload in held else None
        self._held[reply.party] = {self.payload: labels} | ({} if ratios is None else {"ratios": ratios.codes})
        return PartyLabels(
            party=reply.party, labels=labels, changed_share=changed, notes=notes_of(reply), ratios=ratios
        )

    def _labels(
        self, reply: Reply, server_round: int, first: Labels | None, held: Mapping[str, NDArray[Any]]
    ) -> Labels:
        """Return a reply's label arrays; ``first`` is the one that came with its ratios."""
        if self.payload not in reply.arrays:
            raise PayloadError(f"no {self.payload} in the reply")
        count = self.arrays_per_party - (first is not None)
        labels = decode_labels(
            reply.arrays[self.payload],
            public=self.spec.bits if self.payload == "bits" else self.spec,
            server_round=server_round,
            num_arrays=count,
            base=held.get(self.payload) if first is None else np.repeat(first, count, axis=0),
        )
        if (self.payload == "bits" or self.config.privacy == "party") and (labels == ABSTAIN).any():
            rule = "be 0 or 1" if self.payload == "bits" else "name a class in every row beside noise"
            raise PayloadError(explain(self.payload, rule, ABSTAIN), reason="class-out-of-range")
        return labels if first is None else np.concatenate((first, labels))

    # ---------------------------------------------------------------- density ratios

    @property
    def asks_ratios(self) -> bool:
        """Whether parties are asked for density ratios: until a rule on labels is settled."""
        return self.config.asks_ratios and (self.choice is None or self.choice.rule == DENSITY_RATIO)

    def told(self, node: int) -> Mapping[str, Scalar]:
        """Return the base the server holds of a node's answers, and whether it is asked for ratios."""
        told = dict(super().told(node))
        return {**told, "ratios": True} if self.asks_ratios else told

    def _ratios(self, reply: Reply, server_round: int, held: Mapping[str, NDArray[Any]]) -> tuple[PartyRatios, Labels]:
        """Return a party's ratios and its first label array; class counts are those that it sent first."""
        base = (held["ratios"], held["labels"][0]) if "ratios" in held else None
        said = decode_ratios(reply.arrays["ratios"], public=self.spec, server_round=server_round, base=base)
        counts = self._class_counts.get(reply.party, said.class_counts)
        if counts is None:
            raise PayloadError(explain("ratios", "come with class counts in the first answer", "none"))
        return PartyRatios(codes=said.codes, class_counts=counts), said.labels[None]

    def chosen(self, answers: Sequence[PartyLabels], *, may_estimate: bool) -> Choice | None:
        """Return the rule that the answers support, and write it into the record; None where a rule was asked for.

        A rule on labels is chosen once, for parties send no more ratios then.
        """
        if not self.asks_ratios:
            return self.choice
        cast = np.concatenate([answer.labels.reshape(-1) for answer in answers])
        self.choice = choose(
            {answer.party: answer.ratios for answer in answers if answer.ratios is not None},
            num_parties=len(answers),
            votes=np.bincount(cast[cast != ABSTAIN], minlength=self.spec.num_classes),
            may_estimate=may_estimate,
            demanded=self.config.demands_ratios,
            robust=self.config.robust_sum,
        )
        if self.record.consensus_rule != self.choice.rule:
            log(INFO, "\tconsensus: %s. %s", self.choice.rule, self.choice.reason)
        self.record.consensus_rule, self.record.consensus_reason = self.choice.rule, self.choice.reason
        for party, fit in self.choice.public_fit.items():
            self.record.party(party).public_fit = fit
        self.note_trusts(answers, None if self.choice.labels is None else self.choice.trust)
        return self.choice

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
        from fedkd_flwr.models.known_rows import labels_from_known

        return labels_from_known(self.public.X, *self.known, seed=int(self.rng("known-rows-forest").integers(2**31)))

    def judged(self, server_round: int, answers: Sequence[PartyLabels], found: Labels, choice: Choice | None) -> Labels:
        """Return the consensus that the known rows find best; ``found`` itself where it is, or where none are known.

        The record gets its rule and reason, and what known rows tell of the parties.
        """
        if self.known is None or choice is None:
            return found
        best = judged_consensus(
            found,
            [_said(answer) for answer in answers],
            self.known,
            rule=choice.rule,
            own=self._own_labels,
            num_classes=self.spec.num_classes,
            ties=self.config.ties,
            rng=self.rng("ties", server_round),
        )
        names, count = [answer.party for answer in answers], len(self.known.rows)
        reason = f"{compared_rules(best, num_known=count)} Without them: {choice.reason}"
        if (self.record.consensus_rule, server_round) != (best.rule, 1):
            log(INFO, "\tconsensus: %s. %s", best.rule, reason)
        self.record.consensus_rule, self.record.consensus_reason = best.rule, reason
        for name, text in swapping_parties(names, best.vote, num_known=count).items():
            party = self.record.party(name)
            party.notes = [*(note for note in party.notes if not note.startswith(DISAGREES)), text]
        if server_round == 1:
            if text := idle_parties(names, best.vote, num_known=count):
                self.note(text)
            if best.rule == OWN_FOREST:
                share = "share" if best.class_shares is None else "share in each class, averaged over the classes,"
                self.note(
                    f"A forest of the server's own, taught by {count:,} known rows, is better than the parties' votes"
                    f" by the {share} of known rows labelled right: parties get its labels."
                )
        return best.labels

    def note_facts(self, facts: VoteFacts, answers: Sequence[PartyLabels]) -> None:
        """Write down what each party's labels counted for in a vote."""
        names = [answer.party for answer in answers]
        self.note_trusts(
            answers, None if facts.trusts is None else dict(zip(names, facts.trusts.tolist(), strict=True))
        )

    def note_trusts(self, answers: Sequence[PartyLabels], trusts: Mapping[str, float] | None) -> None:
        """Write down the least that each party's answers counted for in any round; None where others could not tell."""
        self._trusts = dict(trusts or {})
        for answer in answers:
            if (trust := self._trusts.get(answer.party)) is not None:
                party = self.record.party(answer.party)
                party.trust = trust if party.trust is None else min(trust, party.trust)

    def combine_answers(self, server_round: int, answers: Sequence[PartyLabels], this: RoundRecord) -> ArrayRecord:
        """Form the consensus, describe it in the record, and return it as plain labels."""
        previous = self.consensus
        self.consensus = check_labels(
            self.combine(server_round, answers, this),
            num_public=self.spec.num_public,
            num_classes=self.spec.num_classes,
            name="consensus",
        )
        self._describe(this, answers)
        if self.converged(previous, answers, this):
            self.finished_round = server_round
            note = f"converged in round {server_round} of {self.num_rounds}: no label changes any more."
            self.record.notes.append(note)
            log(INFO, "%s", note)
        return ArrayRecord({"labels": Array(self.consensus)})

    def _describe(self, this: RoundRecord, answers: Sequence[PartyLabels]) -> None:
        vote = self.vote if self.vote is not None else self.consensus
        labelled = vote != ABSTAIN
        this.labelled_share = float(labelled.mean())
        if not labelled.any():
            self.note(f"The vote of round {this.server_round} labels no public row. {self.way_to_labels()}".rstrip())
        elif self.payload == "labels" and answers:
            shares = [agreement(labels, vote) for a in answers for labels in a.labels]
            this.agreement = float(np.mean(shares))
            if self.config.privacy != "server":  # there, labels without noise are nobody's but the server's
                self._name_who_disagrees(answers, vote)
        changed = [a.changed_share for a in answers if a.changed_share is not None]
        this.changed_share = float(np.mean(changed)) if changed else None
        this.consensus_accuracy = self.public.share_right(self._unknown(vote))

    def _unknown(self, vote: Labels) -> Labels:
        """Return the vote without the known rows, which chose it; without any where too few others have a truth."""
        if self.known is None or self.public.y is None:
            return vote
        measured = np.where(self.public.y == ABSTAIN, ABSTAIN, vote).astype(np.int16)
        measured[self.known.rows] = ABSTAIN
        return measured if (measured != ABSTAIN).sum() >= _LEAST_MEASURED else np.full_like(vote, ABSTAIN)

    def _name_who_disagrees(self, answers: Sequence[PartyLabels], vote: Labels) -> None:
        """Write down how far each party's labels are the consensus, and a note on those that the others do not confirm.

        Beside noise at the parties this is post-processing of what they released.
        """
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
        by_labels = self.choice is None or self.choice.labels is None
        alike = {a.party for a in answers if by_labels and not is_informative(a.labels)}
        for name, text in disagreeing_parties(present, passed_over=alike).items():
            party = self.record.party(name)
            party.notes = [*(note for note in party.notes if not note.startswith(DISAGREES)), text]

    def note_votes(
        self, facts: VoteFacts, answers: Sequence[PartyLabels], vote: Labels, rows: NDArray[np.int64] | None = None
    ) -> None:
        """Say who casts less than a full vote, and which classes the vote loses.

        Parameters
        ----------
        facts : VoteFacts
            Of this vote. Under the parties' noise each gives every class, and there is nothing to say.
        answers : sequence of PartyLabels
            What was counted.
        vote : ndarray of shape (num_public,), int16
            What the vote made of it.
        rows : ndarray of shape (num_asked,), int64, optional
            The public rows that were asked; all by default.
        """
        if facts.class_voters is None:
            return
        classes, labels = self.public.schema.classes, {answer.party: answer.labels for answer in answers}
        if facts.discounted:
            weighed = facts.trusts is not None
            self.note(uninformative_parties(labels, config=self.config, classes=classes, weighed=weighed))
        if facts.steadied:
            self.note(nearly_uninformative_parties(labels, classes=classes))
        if not (vote != ABSTAIN).any():
            return  # it lost all classes, and `_describe` says so
        asked = slice(None) if rows is None else rows
        lost = list(lost_classes({p: one[:, asked] for p, one in labels.items()}, vote[asked], classes=classes))
        for text in lost:
            self.note(text)
        if lost and (way_out := advice(self.config, self.spec.num_classes)):
            self.note(way_out)

    def way_to_labels(self) -> str:
        """Return what to change where a vote labels no row; overridden where settings may be the cause."""
        return ""

    def converged(self, previous: Labels, answers: Sequence[PartyLabels], this: RoundRecord) -> bool:
        """Tell whether another round can change nothing; overridden where that can be known."""
        return False

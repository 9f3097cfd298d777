"""The exchange of hard labels on all public rows: what FedKT, FedCT and PATE have in common at the server.

down   the consensus so far, with abstentions         up   one or more label arrays a party
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from logging import INFO
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord
from flwr.common import log
from numpy.typing import NDArray

from fedkd_flwr.algorithms.density_vote import DENSITY_RATIO, PartyRatios, choose, density_consensus
from fedkd_flwr.algorithms.exchange import VoteFacts, VotersConfig
from fedkd_flwr.errors import PayloadError, explain
from fedkd_flwr.labels import ABSTAIN, Labels, agreement, check_labels
from fedkd_flwr.run_record import RoundRecord
from fedkd_flwr.strategies.base import ExchangeStrategy, Stage
from fedkd_flwr.strategies.reception import PartyAnswer, notes_of
from fedkd_flwr.wire.label_codec import decode_labels, encode_labels
from fedkd_flwr.wire.ratio_codec import decode_ratios
from fedkd_flwr.wire.records import Reply, Scalar

__all__ = ["LabelExchange", "PartyLabels"]


@dataclass(frozen=True, kw_only=True)
class PartyLabels(PartyAnswer):
    """One party's labels of one round.

    Parameters
    ----------
    labels : ndarray of shape (num_arrays, num_public), int16
        Its label arrays; (1, num_public * num_classes) zeros and ones where it sent one-hot bits; (0, num_public) where
        it was asked for ratios alone.
    changed_share : float or None
        Share of labels, or of rows' ratios, it changed since its last valid answer.
    ratios : PartyRatios, optional
        Its density ratios.
    """

    labels: Labels
    changed_share: float | None = None
    ratios: PartyRatios | None = None


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
        self.settled = ""  # the rule that was chosen from the first answers; "" before, and where nothing is chosen
        self.far_off: frozenset[str] = frozenset()  # parties whose ratios do not count
        self._class_counts: dict[str, NDArray[np.int64]] = {}

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

    def outgoing(self, stage: Stage, server_round: int) -> dict[str, NDArray[Any]]:
        """Return the consensus, once there is one."""
        if (self.consensus != ABSTAIN).any() or stage == "evaluate" or server_round > 1:
            return {"labels": encode_labels(self.consensus, public=self.spec, server_round=server_round)}
        return {}

    def read(self, reply: Reply, server_round: int) -> PartyLabels:
        """Return the label arrays of a reply."""
        wants, held = self.wants(reply.party), self._held.get(reply.party, {})
        values: dict[str, NDArray[Any]] = {}
        labels: Labels = np.empty((0, self.spec.num_public), dtype=np.int16)
        if "labels" in wants:
            if self.payload not in reply.arrays:
                raise PayloadError(f"no {self.payload} in the reply")
            spec = self.spec.bits if self.payload == "bits" else self.spec
            labels = values[self.payload] = decode_labels(
                reply.arrays[self.payload],
                public=spec,
                server_round=server_round,
                num_arrays=self.arrays_per_party,
                base=held.get(self.payload),
            )
            if self.payload == "bits" and (labels == ABSTAIN).any():
                raise PayloadError(explain("bits", "be 0 or 1", ABSTAIN), reason="class-out-of-range")
        ratios = None
        if "ratios" in wants and "ratios" in reply.arrays:
            ratios = self._ratios(reply, server_round, held.get("ratios"))
            values["ratios"] = ratios.codes
        elif "labels" not in wants:
            raise PayloadError("no ratios in the reply")
        name, now = next(iter(values.items()))
        changed = float((now != held[name]).mean()) if name in held else None
        self._held[reply.party] = values
        return PartyLabels(
            party=reply.party, labels=labels, changed_share=changed, notes=notes_of(reply), ratios=ratios
        )

    # ---------------------------------------------------------------- density ratios

    def wants(self, party: str) -> frozenset[str]:
        """Return what this party's next reply is to hold.

        Until a rule is settled, labels and ratios; then what the rule counts.
        """
        if not self.config.asks_ratios or self.settled not in ("", DENSITY_RATIO):
            return frozenset({"labels"})
        return frozenset({"ratios"} if self.settled and party in self._class_counts else {"labels", "ratios"})

    def told(self, node: int) -> Mapping[str, Scalar]:
        """Return the base the server holds of a node's answers, and what its next one is to hold."""
        wants = self.wants(self._reception.party_of.get(node, ""))
        return super().told(node) | ({} if wants == {"labels"} else {"wants": ",".join(sorted(wants))})

    def _ratios(self, reply: Reply, server_round: int, base: NDArray[np.uint8] | None) -> PartyRatios:
        """Return a party's ratios, with the class counts that it sent with its first ones."""
        said = decode_ratios(reply.arrays["ratios"], public=self.spec, server_round=server_round, base=base)
        counts = self._class_counts.get(reply.party, said.class_counts)
        if counts is None:
            raise PayloadError(explain("ratios", "come with class counts in the first answer", "none"))
        self._class_counts[reply.party] = counts
        return PartyRatios(codes=said.codes, bits=said.bits, class_counts=counts)

    def settle(self, answers: Sequence[PartyLabels], *, otherwise: str) -> str:
        """Return the rule that the answers' consensus is formed by: chosen once, and written into the record."""
        if self.settled or not self.config.asks_ratios:
            return self.settled or otherwise
        choice = choose(
            {answer.party: answer.ratios for answer in answers},
            wanted=getattr(self.config, "consensus", "auto"),
            num_classes=self.spec.num_classes,
            otherwise=otherwise,
        )
        self.settled, self.far_off = choice.rule, frozenset(choice.left_out)
        self.record.consensus_rule, self.record.consensus_reason = choice.rule, choice.reason
        log(INFO, "\tconsensus: %s. %s", choice.rule, choice.reason)
        for party, fit in choice.public_fit.items():
            self.record.party(party).public_fit = fit
        return self.settled

    def by_ratios(self, answers: Sequence[PartyLabels]) -> Labels:
        """Return the density-ratio consensus of the parties that the public rows resemble."""
        sent = [a.ratios for a in answers if a.ratios is not None and a.party not in self.far_off]
        labels, _ = density_consensus(sent)
        return labels

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
            way_out = "Lower the quorum, or use majority or dawid-skene."
            text = explain("consensus", "label at least one public row", f"none in round {this.server_round}", way_out)
            self.note(text)
        elif self.payload == "labels":
            shares = [agreement(labels, vote) for a in answers for labels in a.labels]
            this.agreement = float(np.mean(shares)) if shares else None
        changed = [a.changed_share for a in answers if a.changed_share is not None]
        this.changed_share = float(np.mean(changed)) if changed else None
        if self.public.y is not None and labelled.any():
            this.consensus_accuracy = float((vote[labelled] == self.public.y[labelled]).mean())

    def note_votes(self, facts: VoteFacts, num_parties: int) -> None:
        """Say how many parties cast less than a full vote, and which classes no party, or one alone, ever gave."""
        if facts.discounted:
            share = "half their votes" if self.config.voters_rule == "half" else "no vote"
            self.note(f"{facts.discounted} of {num_parties} parties label every public row alike and cast {share}.")
        if facts.class_voters is None:
            return
        for c, voters in enumerate(facts.class_voters):
            rule, name = "be given by >= 2 parties", f"class {self.public.schema.classes[c]!r}"
            if voters == 0:
                self.note(explain(name, rule, 0, "Nothing learnt from this vote can know it."))
            elif voters == 1 and facts.class_voters.max() > 1:
                self.note(explain(name, rule, 1, "A majority outvotes that party; dawid-skene may not."))

    def converged(self, previous: Labels, answers: Sequence[PartyLabels], this: RoundRecord) -> bool:
        """Tell whether another round can change nothing; overridden where that can be known."""
        return False

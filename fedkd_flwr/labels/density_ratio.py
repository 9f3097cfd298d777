"""Density ratios: a party also says how much each public row looks like its rows of each class; and the rule "auto".

What it says is `fedkd_flwr.labels.ratios`, how that is added up `fedkd_flwr.labels.density`; here stands which answers
count, and what votes where the public rows do not look like the parties' own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.labels.choice import choose_rule, label_skew
from fedkd_flwr.labels.dawid_skene import DawidSkene
from fedkd_flwr.labels.density import DensityVote, most_probable
from fedkd_flwr.labels.ratios import public_fit, ratios_of
from fedkd_flwr.labels.voting import (
    ABSTAIN,
    Ballot,
    Consensus,
    ConsensusRule,
    Labels,
    Majority,
    is_informative,
    majority,
)

__all__ = ["Auto", "DensityRatio"]

_ESTIMATE_FROM = 3  # parties that tell classes apart: a confusion matrix needs them


@dataclass(frozen=True)
class DensityRatio(ConsensusRule):
    """The class that is densest at each public row among all private rows, where the public rows allow it."""

    name: ClassVar[str] = "density-ratio"
    asks: ClassVar[str] = "density-ratio"
    needs: ClassVar[tuple[str, ...]] = ("ratios", "class-counts")
    once: ClassVar[tuple[str, ...]] = ("class-counts",)
    speaker: ClassVar[str] = "fedkd_flwr.clients.rule_answers:say_ratios"
    codec: ClassVar[str] = "fedkd_flwr.wire.ratio_codec"
    demanded: bool = True  # wherever the public rows look like private ones, not only where they are better than labels
    otherwise: ConsensusRule = field(default_factory=Majority)  # of an order: where classes are bins or grades

    def combine(self, ballot: Ballot, *, config: Any, rng: np.random.Generator) -> Consensus:
        """Return the consensus of the ratios, or of labels where they cannot vote; the reason says why."""
        num_public, num_classes = ballot.votes.shape
        vote = DensityVote(num_public=num_public, num_classes=num_classes, robust=config.robust_sum)
        of_party: dict[str, dict[str, Any]] = {}
        for party, said in ballot.beside.items():
            ratios, counts = ratios_of(said["ratios"]), said["class-counts"]
            vote.add(ratios, counts)
            of_party[party] = {"public_fit": public_fit(ratios, counts), "class_counts": counts.tolist()}
        sent, num_parties = len(of_party), len(ballot.parties)
        enough = sent > 0 and 2 * sent >= num_parties
        held = np.array([said["class-counts"] for said in ballot.beside.values()]) if enough else None
        informative = sum(is_informative(labels) for labels in ballot.labels)
        rule, reason, with_votes = choose_rule(
            num_classes=num_classes,
            class_counts=_cast(ballot.labels, num_classes) if held is None else held.sum(axis=0),
            skew=None if held is None or self.demanded else label_skew(held, bins=self.otherwise.of_order),
            coverage=vote.coverage() if enough else None,
            may_estimate=not ballot.last and informative >= _ESTIMATE_FROM and not self.otherwise.of_order,
            bins=self.otherwise.of_order,
            some_ratios=sent > 0,
        )
        if silent := num_parties - sent:
            reason += (
                f" {silent} of {num_parties} parties sent no density ratios: a node's allow-vote-rules must name "
                "density-ratio."
            )
        told: dict[str, Any] = {"rule": rule, "reason": reason, "of_party": of_party}
        if rule == self.name:
            trusts = dict(zip(of_party, vote.trusts().tolist(), strict=True))
            probs = vote.probabilities()
            labels = most_probable(probs)
            if with_votes:
                cast = ballot.votes.sum(axis=1, keepdims=True)
                probs = np.where(cast > 0, (probs + ballot.votes / np.maximum(cast, 1)) / 2, probs)
                both = majority(probs, ties=config.ties, rng=rng)
                labels = np.where((cast[:, 0] == 0) & (labels == ABSTAIN), ABSTAIN, both).astype(np.int16)
            return Consensus(labels, by_votes=False, trusts=trusts, probs=probs, **told)
        other = DawidSkene() if rule == DawidSkene.name else self.otherwise
        found, told["rule"] = other.combine(ballot, config=config, rng=rng), other.name
        return replace(found, **told) if other.of_order else Consensus(found.labels, **told)

    def also_named(self, beside: Mapping[str, NDArray[Any]]) -> Labels | None:
        """Return the class that each public row most looks like, ``ABSTAIN`` where it looks like none."""
        codes = beside["ratios"]
        return np.where(codes.any(axis=1), codes.argmax(axis=1), ABSTAIN).astype(np.int16)


@dataclass(frozen=True)
class Auto(ConsensusRule):
    """The rule that a round's answers support; beside noise that of labels, for which alone a claim counts votes.

    ``of_labels``: what votes where density ratios do not. ``demanded``: as of `DensityRatio`.
    """

    name: ClassVar[str] = "auto"
    asks: ClassVar[str] = DensityRatio.name
    of_labels: ConsensusRule = field(default_factory=Majority)
    demanded: bool = False

    def combine(self, ballot: Ballot, *, config: Any, rng: np.random.Generator) -> Consensus:
        """Return the consensus of the rule that the answers support, and why."""
        if config.noisy:
            return self.of_labels.combine(ballot, config=config, rng=rng)
        return DensityRatio(self.demanded, self.of_labels).combine(ballot, config=config, rng=rng)


def _cast(labels: Any, num_classes: int) -> NDArray[np.int64]:
    """Return how often all parties together gave each class: what is known of class shares without their counts."""
    cast = np.concatenate([arrays.reshape(-1) for arrays in labels])
    return np.bincount(cast[cast != ABSTAIN], minlength=num_classes)

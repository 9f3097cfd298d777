"""FedCT: the consensus of label arrays by majority, qualified majority or Dawid-Skene; and its card.

Abourayya et al., "Little is Enough: Boosting Privacy by Sharing Only Hard Labels in Federated Semi-Supervised
Learning", AAAI 2025, Algorithm 1. The whole round is told in `fedkd_flwr.strategies.fedct`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.algorithms.card import PAPER, Card, Privacy, setting
from fedkd_flwr.algorithms.exchange import (
    LabelNoiseConfig,
    StepsConfig,
    VoteFacts,
    VotersConfig,
    steps_on_pooled,
    tally,
)
from fedkd_flwr.errors import ConfigError, explain
from fedkd_flwr.labels.rules import RULES, RuleName
from fedkd_flwr.labels.voting import Ballot, Consensus, ConsensusRule, Labels, Uninformative, VoteCounter, voter_weights
from fedkd_flwr.privacy.noise.labels import BitFlip, LabelNoise, kept_share
from fedkd_flwr.privacy.noise.none import NoNoise

__all__ = ["CARD", "FedCTConfig", "aggregate", "train_as_long"]


class FedCTConfig(VotersConfig, LabelNoiseConfig, StepsConfig):
    """Settings of FedCT."""

    section: ClassVar[str] = "fedct"
    usual_rule: ClassVar[Uninformative] = "leave-out"

    consensus: RuleName = setting("auto", section="", first=True)
    """How answers become the consensus; FedKT and PATE know auto, majority and density-ratio. density-ratio needs the
    parties' ratios and class counts, which a node sends only if its allow-vote-rules names it. Dawid-Skene needs more
    than two classes to help. auto: density-ratio where public rows resemble the parties' own, else the best rule on
    labels; majority beside noise. With known-rows these choose between that, the vote by known rows and the server's
    own forest."""
    quorum: float = setting(0.9, ge=0, le=1, only={"consensus": ("qualified-majority",)})
    """With consensus qualified-majority: share of the answering parties that must agree on a row; other rows stay
    unlabelled in that round."""
    stop_when_converged: bool = setting(True, section=PAPER)
    """FedCT stops once all parties answered, the consensus repeats, and all reproduce it or none changed a label. Never
    with a label-mechanism: labels may not decide the rounds that a claim counts."""

    @property
    def privacy(self) -> Privacy:
        """Parties privatise their labels, or nobody does."""
        return "none" if self.label_mechanism == "none" else "party"

    def check(self) -> None:
        """Refuse a noise without a strength, and a rule that needs labels where noise makes bits of them."""
        super().check()
        self.check_given()
        if RULES[self.consensus].reads_labels and self.label_mechanism not in ("none", "randomized-response"):
            way_out = 'Use label-mechanism "randomized-response" with it, or another consensus.'
            raise ConfigError(explain("consensus", f"work with {self.label_mechanism}", self.consensus, way_out))

    def mechanism(self, *, num_classes: int, num_public: int = 1, num_rounds: int = 1) -> LabelNoise:
        """Return what a party does to each label."""
        return self.label_noise(num_classes=num_classes, num_labels=num_public * num_rounds)

    def resolved(self, *, num_classes: int, num_public: int, num_rounds: int) -> Self:
        """Return these settings with the noise found: what parties are told."""
        found = self.mechanism(num_classes=num_classes, num_public=num_public, num_rounds=num_rounds)
        if isinstance(found, NoNoise):
            return self
        name = "xor" if isinstance(found, BitFlip) else "randomized-response"
        return self.changed(label_mechanism=name, noise_strength=found.epsilon, epsilon=0.0)


def aggregate(
    answers: Sequence[Labels],
    *,
    config: FedCTConfig,
    num_classes: int,
    rng: np.random.Generator,
    rule: ConsensusRule | None = None,
    parties: Sequence[str] = (),
    beside: Mapping[str, Mapping[str, NDArray[Any]]] | None = None,
) -> tuple[Consensus, VoteFacts]:
    """Return the consensus of a round.

    ``answers`` are each party's labels, (num_public,) int16, in party-name order; 0 or 1 of shape (num_public *
    num_classes,) where ``xor`` made them one-hot bits. The noise of ``config`` is found (`FedCTConfig.resolved`);
    ``rule`` stands in place of the one it names; ``parties`` and ``beside`` are as in `Ballot`, parties numbered where
    they have no names.

    Three parties, four rows; the third labels every row alike and has no vote:

    >>> answers = [np.array(labels, np.int16) for labels in ([0, 1, 1, 0], [0, 1, 0, 0], [1, 1, 1, 1])]
    >>> rng = np.random.default_rng(1)
    >>> config = FedCTConfig(consensus="qualified-majority", quorum=1.0)
    >>> consensus, facts = aggregate(answers, config=config, num_classes=2, rng=rng)
    >>> consensus.labels.tolist(), facts.discounted
    ([0, 1, -1, 0], 1)
    """
    each = [labels[None] for labels in answers]
    if config.noisy:
        votes, facts = _count_noisy(answers, config, num_classes)
    else:
        votes, facts = tally(each, config=config, num_classes=num_classes)
    rule_of_voters = "count" if config.noisy else config.voters_rule  # after noise every party tells classes apart
    ballot = Ballot(
        parties=parties or [str(i) for i in range(len(answers))],
        labels=each,
        votes=votes,
        true_votes=config.mechanism(num_classes=num_classes).debias(votes, len(answers)),
        num_votes=facts.num_votes,
        counted=[weight > 0 for weight in voter_weights(answers, uninformative=rule_of_voters)],
        beside=beside or {},
    )
    return (rule or RULES[config.vote_rule]).combine(ballot, config=config, rng=rng), facts


def _count_noisy(answers: Sequence[Labels], config: FedCTConfig, num_classes: int) -> tuple[NDArray[Any], VoteFacts]:
    """Count privatised answers, one vote a party."""
    mechanism = config.mechanism(num_classes=num_classes)
    facts = VoteFacts(kept_share=kept_share(mechanism), num_votes=len(answers))
    if isinstance(mechanism, BitFlip):
        sums = np.zeros((len(answers[0]) // num_classes, num_classes), dtype=np.int64)
        for bits in answers:
            sums += bits.reshape(sums.shape)
        return sums, facts
    counter = VoteCounter(num_public=len(answers[0]), num_classes=num_classes)
    for labels in answers:
        counter.add(labels)
    return counter.votes, facts


def train_as_long(
    model: Any, X: NDArray[Any], y: NDArray[Any], *, config: FedCTConfig, rounds: int, num_public: int
) -> object:
    """Train a model on rows alone for as long as a party trains its own in so many rounds, and at the end.

    Nets take as many steps, other learners that continue make as many passes (``partial_fit``), all others fit once.
    """
    if model.takes_steps or not model.continues:
        return steps_on_pooled(model, X, y, config=config, rounds=rounds, num_public=num_public)
    for _ in range(rounds + 1):
        model.update(X, y)
    return model


CARD = Card(
    name="fedct",
    title="FedCT",
    paper='Abourayya et al., "Little is Enough: Boosting Privacy by Sharing Only Hard Labels", AAAI 2025',
    config=FedCTConfig,
    strategy="fedkd_flwr.strategies.fedct:FedCT",
    client="fedkd_flwr.clients.fedct:FedCTClient",
    sends="labels",
    default_rounds=5,
    noise=("party",),
    allowed=True,
    train_pooled=train_as_long,
)

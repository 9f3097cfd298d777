"""FedCT: parties co-train through the consensus of their labels; each keeps its own model.

Abourayya et al., "Little is Enough: Boosting Privacy by Sharing Only Hard Labels in Federated Semi-Supervised
Learning", AAAI 2025, Algorithm 1. The whole round:

    server   consensus of the last round (nothing in round 1)           -> every party
    party    train on private rows + labelled public rows; label all public rows -> labels
    server   majority | qualified majority | Dawid-Skene                -> consensus

DP-FedCT: the party privatises each label (C-ary randomised response, or XOR on one-hot bits) before it leaves; the
server takes the mechanism's bias out of the votes. A round releases a label on every public row, and the labels of all
rounds compose.

A "round" here is one exchange; the paper counts minibatch steps (10-50 of them to one exchange). Fewer, longer
rounds do as well. Learners that reproduce what they were trained on (trees, forests, boosting) change nothing
after one exchange: that is detected, and the run stops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.errors import ConfigError, explain
from fedkd_flwr.labels import (
    ABSTAIN,
    HALF,
    Labels,
    Uninformative,
    VoteCounter,
    dawid_skene,
    majority,
    qualified_majority,
    voter_weights,
)
from fedkd_flwr.privacy.claims.claim import PrivacyClaim, label_privacy
from fedkd_flwr.privacy.noise.labels import BitFlip, RandomizedResponse, kept_share, label_mechanism
from fedkd_flwr.run_record import RoundRecord
from fedkd_flwr.strategies.base import ExchangeConfig
from fedkd_flwr.strategies.label_exchange import LabelStrategy, PartyLabels
from fedkd_flwr.wire.records import Scalar

__all__ = ["FedCT", "FedCTConfig"]

Consensus = Literal["majority", "qualified-majority", "dawid-skene"]
LabelMechanism = Literal["none", "auto", "randomized-response", "xor"]
Sensitivity = Literal["worst-case", "assumed", "estimated"]


@dataclass(frozen=True, kw_only=True)
class FedCTConfig(ExchangeConfig):
    """Settings of FedCT.

    Parameters
    ----------
    consensus : {"majority", "qualified-majority", "dawid-skene"}
        How labels become the consensus. Dawid-Skene needs more than two classes to help.
    quorum : float
        For the qualified majority: share of the answering parties that must agree, within [0, 1].
    confidence : float
        For Dawid-Skene: rows whose most probable class is less probable than this stay unlabelled this round, within
        [0, 1]. Parties learn from the sure rows first and label the others better in the next round.
    steps_per_round : int
        Minibatch steps of gradient learners between two exchanges.
    informative_voters_only : bool
        Leave parties out of the vote that give one class to every public row: off reproduces the paper.
    uninformative_voters : {"leave-out", "half"}
        What becomes of them: no vote, or half a vote.
    stop_when_converged : bool
        Stop once all parties answered, the consensus repeats, and all reproduce it or none changed a label.
    label_mechanism : {"none", "auto", "randomized-response", "xor"}
        What parties do to each label; ``auto`` takes whichever leaves less noise in the votes.
    label_epsilon : float
        Epsilon of one label. 0: found from ``epsilon``.
    epsilon : float
        What the labels of all rounds may cost together, at ``delta``. 0: ``label_epsilon`` is given.
    calibration : {"exact", "paper"}
        Of XOR: the paper's condition asks for sqrt(C) times the needed noise.
    sensitivity : {"worst-case", "assumed", "estimated"}
        How many of a party's labels another data set may change. Only the worst case, all of them, is proven.
    sensitivity_labels : int
        That many, where it is assumed or estimated.
    """

    consensus: Consensus = "majority"
    quorum: float = 0.9
    confidence: float = 0.9999
    steps_per_round: int = 200
    informative_voters_only: bool = True
    uninformative_voters: Literal["leave-out", "half"] = "leave-out"
    stop_when_converged: bool = True
    label_mechanism: LabelMechanism = "none"
    label_epsilon: float = 0.0
    epsilon: float = 0.0
    calibration: Literal["exact", "paper"] = "exact"
    sensitivity: Sensitivity = "worst-case"
    sensitivity_labels: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        known = ("majority", "qualified-majority", "dawid-skene")
        if self.consensus not in known:
            raise ConfigError(explain("consensus", f"be one of {', '.join(known)}", self.consensus))
        if not 0.0 <= self.quorum <= 1.0:
            raise ConfigError(explain("quorum", "be within [0, 1]", self.quorum, "Use 0.9 for nine of ten parties."))
        if not 0.0 <= self.confidence <= 1.0:
            raise ConfigError(explain("confidence", "be within [0, 1]", self.confidence, "0 labels every row."))
        if not self.steps_per_round >= 1:
            raise ConfigError(explain("steps_per_round", "be >= 1", self.steps_per_round))
        self._check_privacy()

    def _check_privacy(self) -> None:
        words: dict[str, tuple[str, ...]] = {
            "uninformative_voters": ("leave-out", "half"),
            "label_mechanism": ("none", "auto", "randomized-response", "xor"),
            "calibration": ("exact", "paper"),
            "sensitivity": ("worst-case", "assumed", "estimated"),
        }
        for name, choices in words.items():
            if getattr(self, name) not in choices:
                raise ConfigError(explain(name, f"be one of {', '.join(choices)}", getattr(self, name)))
        for name in ("label_epsilon", "epsilon"):
            if not 0.0 <= getattr(self, name) < float("inf"):
                raise ConfigError(explain(name, "be finite and >= 0", getattr(self, name)))
        private, given = self.label_mechanism != "none", (self.label_epsilon > 0) + (self.epsilon > 0)
        if given != private:
            way_out = "epsilon is for the whole run, label-epsilon for one label."
            seen = f"{given} of them with label_mechanism {self.label_mechanism!r}"
            rule = "be given, one of them," if private else "be 0"
            raise ConfigError(explain("epsilon or label_epsilon", rule + " for this mechanism", seen, way_out))
        if (self.sensitivity == "worst-case") != (self.sensitivity_labels == 0):
            way_out = "Give the number of labels with assumed or estimated sensitivity, and only then."
            raise ConfigError(
                explain("sensitivity_labels", f"fit sensitivity {self.sensitivity!r}", self.sensitivity_labels, way_out)
            )
        if private and self.consensus == "dawid-skene" and self.label_mechanism != "randomized-response":
            way_out = 'Use label-mechanism "randomized-response" with it, or another consensus.'
            raise ConfigError(explain("consensus", f"work with {self.label_mechanism}", self.consensus, way_out))


class FedCT(LabelStrategy):
    """Federated co-training with hard labels. Parameters as in `LabelStrategy`.

    After `start`: ``record``, and ``consensus``: the final labels of the public rows.
    """

    algorithm: ClassVar[str] = "fedct"

    def __init__(self, *args: Any, config: FedCTConfig | None = None, **keywords: Any) -> None:
        self.config = config if config is not None else FedCTConfig()
        super().__init__(*args, config=self.config, **keywords)

    @property
    def privacy(self) -> Literal["none", "server", "party"]:
        """Parties privatise their labels, or nobody does."""
        return "none" if self.config.label_mechanism == "none" else "party"

    @cached_property
    def mechanism(self) -> RandomizedResponse | BitFlip | None:
        """What parties do to each label, found before the first round."""
        config, name = self.config, self.config.label_mechanism
        if name == "none":
            return None
        if config.label_epsilon:
            return label_mechanism(
                name,
                epsilon=config.label_epsilon,
                num_classes=self.spec.num_classes,
                calibration=config.calibration,
            )
        from fedkd_flwr.privacy.cost.calibration import calibrate_labels

        return calibrate_labels(
            name,
            num_labels=self._sensitive_labels * self.num_rounds,
            epsilon=config.epsilon,
            delta=config.delta,
            num_classes=self.spec.num_classes,
            calibration=config.calibration,
        )

    @property
    def _sensitive_labels(self) -> int:
        labels = self.config.sensitivity_labels or self.spec.num_public
        if not 0 < labels <= self.spec.num_public:
            rule = f"be at most {self.spec.num_public} (public rows)"
            raise ConfigError(explain("sensitivity_labels", rule, labels, "That is the worst case."))
        return labels

    @property
    def payload(self) -> str:
        """One-hot bits with XOR, else labels."""
        return "bits" if isinstance(self.mechanism, BitFlip) else "labels"

    def instruction(self, server_round: int) -> Mapping[str, Scalar]:
        """Return the number of local steps, and what to do to each label."""
        settings: dict[str, Scalar] = {"steps-per-round": self.config.steps_per_round}
        if (mechanism := self.mechanism) is not None:
            settings |= {
                "label-mechanism": "xor" if isinstance(mechanism, BitFlip) else "randomized-response",
                "label-epsilon": mechanism.epsilon,
                "calibration": self.config.calibration,
            }
        return settings

    def combine(self, server_round: int, answers: Sequence[PartyLabels]) -> Labels:
        """Form the consensus of the parties' labels."""
        votes, voters = self._count(server_round, answers)
        if self.config.consensus == "dawid-skene":
            # few iterations and equal classes: EM run to its end fits the first votes' mistakes under label skew
            labels, probs = dawid_skene(
                [answers[i].labels[0] for i in range(len(answers)) if voters[i]],
                num_classes=self.spec.num_classes,
                max_iterations=5,
                tolerance=0.0,
                class_prior="uniform",
            )
            sure = (labels != ABSTAIN) & (probs.max(axis=1) >= self.config.confidence)
            # equal up to rounding is a tie like any other
            picked = majority(np.round(probs, 9), ties=self.config.ties, rng=self.rng("ties", server_round))
            return np.where(sure, picked, ABSTAIN).astype(np.int16)
        quorum = self.config.quorum if self.config.consensus == "qualified-majority" else 0.0
        return qualified_majority(
            votes,
            quorum=quorum,
            num_voters=int(voters.sum()),
            ties=self.config.ties,
            rng=self.rng("ties", server_round),
        )

    def _count(self, server_round: int, answers: Sequence[PartyLabels]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return the votes, their bias taken out, and each party's weight in them (in half votes, or 1)."""
        rows, classes = self.spec.num_public, self.spec.num_classes
        mechanism = self.mechanism
        if mechanism is not None:
            self.record.rounds[-1].kept_share = kept_share(mechanism)
            weights = np.ones(len(answers), dtype=np.int64)  # after noise every party tells classes apart
            if isinstance(mechanism, BitFlip):
                sums = np.zeros((rows, classes), dtype=np.int64)
                for answer in answers:
                    sums += answer.labels.reshape(rows, classes)
                return mechanism.debias(sums, len(answers)), weights
            counter = VoteCounter(num_public=rows, num_classes=classes)
            for answer in answers:
                counter.add(answer.labels[0])
            return mechanism.debias(counter.votes, len(answers)), weights
        rule: Uninformative = self.config.uninformative_voters if self.config.informative_voters_only else "count"
        weights = np.array(voter_weights([a.labels for a in answers], uninformative=rule))
        discounted = int((weights < HALF).sum())
        if discounted and server_round == 1:
            share = "half their vote" if rule == "half" else "no vote"
            self.note(f"{discounted} of {len(answers)} parties label every public row alike and cast {share}.")
        if not weights.any():
            weights[:] = HALF  # nobody tells classes apart
        if rule != "half":
            weights //= HALF
        counter = VoteCounter(num_public=rows, num_classes=classes)
        for answer, weight in zip(answers, weights, strict=True):
            if weight:
                counter.add(answer.labels[0], weight=int(weight))
        if server_round == 1:
            self.note_classes(counter.class_voters)
        return counter.votes, weights

    def claim(self) -> list[PrivacyClaim]:
        """Return the claim of the privatised labels, over all rounds of the party asked most often."""
        rounds = max(self.times_asked.values(), default=0)
        if self.mechanism is None or not rounds:
            return []
        worst = self.config.sensitivity == "worst-case"
        return [
            label_privacy(
                self.mechanism,
                num_labels=self.spec.num_public,
                rounds=rounds,
                delta=self.config.delta,
                sensitivity=self.config.sensitivity,
                changed_labels=None if worst else self._sensitive_labels,
                num_parties=len(self.times_asked),
            )
        ]

    def _converged(self, previous: Labels, answers: Sequence[PartyLabels], this: RoundRecord) -> bool:
        if not self.config.stop_when_converged or this.server_round == 1:
            return False
        if len(answers) < len(self._nodes) or not np.array_equal(previous, self.consensus):
            return False  # whoever is missing may come back with other labels
        reproduced = this.labelled_share == 1.0 and this.agreement == 1.0
        return reproduced or all(a.changed_share == 0.0 for a in answers)

"""FedCT: parties co-train through the consensus of their labels; each keeps its own model.

Abourayya et al., "Little is Enough: Boosting Privacy by Sharing Only Hard Labels in Federated Semi-Supervised
Learning", AAAI 2025, Algorithm 1. The whole round:

    server   consensus of the last round (nothing in round 1)           -> every party
    party    train on private rows + labelled public rows; label all public rows -> labels
    server   majority | qualified majority | Dawid-Skene                -> consensus

A "round" here is one exchange; the paper counts minibatch steps (10-50 of them to one exchange). Fewer, longer
rounds do as well. Learners that reproduce what they were trained on (trees, forests, boosting) change nothing
after one exchange: that is detected, and the run stops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from fedkd_flwr.errors import ConfigError, explain
from fedkd_flwr.labels import ABSTAIN, Labels, VoteCounter, dawid_skene, is_informative, majority, qualified_majority
from fedkd_flwr.payloads import Scalar
from fedkd_flwr.run_record import RoundRecord
from fedkd_flwr.strategies.base import ExchangeConfig, LabelStrategy
from fedkd_flwr.strategies.reception import PartyLabels

__all__ = ["FedCT", "FedCTConfig"]

Consensus = Literal["majority", "qualified-majority", "dawid-skene"]


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
    stop_when_converged : bool
        Stop once all parties answered, the consensus repeats, and all reproduce it or none changed a label.
    """

    consensus: Consensus = "majority"
    quorum: float = 0.9
    confidence: float = 0.9999
    steps_per_round: int = 200
    informative_voters_only: bool = True
    stop_when_converged: bool = True

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


class FedCT(LabelStrategy):
    """Federated co-training with hard labels. Parameters as in `LabelStrategy`.

    After `start`: ``record``, and ``consensus``: the final labels of the public rows.
    """

    algorithm: ClassVar[str] = "fedct"

    def __init__(self, *args: Any, config: FedCTConfig | None = None, **keywords: Any) -> None:
        self.config = config if config is not None else FedCTConfig()
        super().__init__(*args, config=self.config, **keywords)

    def instruction(self, server_round: int) -> Mapping[str, Scalar]:
        """Return the number of local steps."""
        return {"steps-per-round": self.config.steps_per_round}

    def combine(self, server_round: int, answers: Sequence[PartyLabels]) -> Labels:
        """Form the consensus of the parties' labels."""
        voters = [a.labels[0] for a in answers]
        if self.config.informative_voters_only:
            voters = [labels for labels in voters if is_informative(labels)] or voters
            if len(voters) < len(answers) and server_round == 1:
                left_out = len(answers) - len(voters)
                self._note(f"{left_out} of {len(answers)} parties label every public row alike and cast no vote.")
        counter = VoteCounter(num_public=self.spec.num_public, num_classes=self.spec.num_classes)
        for labels in voters:
            counter.add(labels)
        if server_round == 1:
            self._note_classes(counter.class_voters)
        if self.config.consensus == "dawid-skene":
            # few iterations and equal classes: EM run to its end fits the first votes' mistakes under label skew
            labels, probs = dawid_skene(
                voters, num_classes=self.spec.num_classes, max_iterations=5, tolerance=0.0, class_prior="uniform"
            )
            sure = (labels != ABSTAIN) & (probs.max(axis=1) >= self.config.confidence)
            # equal up to rounding is a tie like any other
            picked = majority(np.round(probs, 9), ties=self.config.ties, rng=self.rng("ties", server_round))
            return np.where(sure, picked, ABSTAIN).astype(np.int16)
        quorum = self.config.quorum if self.config.consensus == "qualified-majority" else 0.0
        return qualified_majority(
            counter.votes,
            quorum=quorum,
            num_voters=len(voters),
            ties=self.config.ties,
            rng=self.rng("ties", server_round),
        )

    def _converged(self, previous: Labels, answers: Sequence[PartyLabels], this: RoundRecord) -> bool:
        if not self.config.stop_when_converged or this.server_round == 1:
            return False
        if len(answers) < len(self._nodes) or not np.array_equal(previous, self.consensus):
            return False  # whoever is missing may come back with other labels
        reproduced = this.labelled_share == 1.0 and this.agreement == 1.0
        return reproduced or all(a.changed_share == 0.0 for a in answers)

"""FedCT: parties co-train through the consensus of their labels; each keeps its own model.

Abourayya et al., AAAI 2025, Algorithm 1. The whole round:

    server   consensus of the last round (nothing in round 1)           -> every party
    party    train on private rows + labelled public rows; label all public rows (DP-FedCT: make each private) -> labels
    server   density ratios | (qualified) majority | Dawid-Skene, less the noise's bias -> consensus
             (where the server knows the labels of some public rows, they choose: `LabelExchange.judged`)

A round releases a label on every public row, and noisy labels of all rounds compose. What departs from the paper, and
when a run stops early, is in docs/understand/algorithms/fedct.md; the arithmetic is `fedkd_flwr.algorithms.fedct`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from fedkd_flwr.algorithms.fedct import CARD, FedCTConfig, aggregate
from fedkd_flwr.labels import Labels
from fedkd_flwr.privacy.claims.claim import PrivacyClaim, label_privacy
from fedkd_flwr.privacy.noise.labels import LabelNoise
from fedkd_flwr.record.run_record import RoundRecord
from fedkd_flwr.strategies.label_exchange import LabelExchange, PartyLabels
from fedkd_flwr.strategies.loop import ExchangeStrategy

__all__ = ["FedCT", "FedCTExchange"]


class FedCTExchange(LabelExchange):
    """The exchange of FedCT. Parameters as in `LabelExchange`, with ``config`` a `FedCTConfig`."""

    card = CARD
    config: FedCTConfig
    told_config: FedCTConfig

    @cached_property
    def mechanism(self) -> LabelNoise:
        """What parties do to each label."""
        return self.told_config.mechanism(num_classes=self.spec.num_classes)

    @property
    def payload(self) -> str:
        """One-hot bits with XOR, else labels."""
        return self.mechanism.payload

    def combine(self, server_round: int, answers: Sequence[PartyLabels], this: RoundRecord) -> Labels:
        """Form the consensus by the run's rule."""
        found, facts = aggregate(
            [answer.labels[0] for answer in answers],
            config=self.told_config,
            num_classes=self.spec.num_classes,
            rng=self.rng("ties", server_round),
            rule=self.rule,
            parties=[answer.party for answer in answers],
            beside={answer.party: answer.beside for answer in answers if answer.beside},
        )
        this.kept_share = facts.kept_share
        found = self.settled(found, facts, answers)
        judged = self.judged(server_round, answers, found)
        if server_round == 1 and found.by_votes and judged is found.labels:
            self.note_votes(facts, answers, judged)
        return judged

    def way_to_labels(self) -> dict[str, float]:
        """Return the setting that leaves rows unlabelled."""
        return {"quorum": self.config.quorum} if self.config.consensus == "qualified-majority" else {}

    def claim(self) -> list[PrivacyClaim]:
        """Return the claim of the privatised labels, over all rounds of the party asked most often."""
        rounds, config = self.roster.asked.most, self.config
        if not rounds or not config.noisy:
            return []
        return [
            label_privacy(
                self.mechanism,
                num_labels=self.spec.num_public,
                rounds=rounds,
                delta=config.delta,
                num_parties=self.roster.num_asked,
            )
        ]

    def converged(self, previous: Labels, answers: Sequence[PartyLabels], this: RoundRecord) -> bool:
        """Tell whether all parties answered, the consensus repeats, and all reproduce it or none changed a label.

        Never under the parties' noise: a number of rounds that the labels decide has no epsilon at one delta, and a
        claim would have to count every round that might have been asked.
        """
        if not self.config.stop_when_converged or self.config.noisy or this.server_round == 1:
            return False
        if len(answers) < len(self.roster.nodes) or not np.array_equal(previous, self.consensus):
            return False  # whoever is missing may come back with other labels
        reproduced = this.labelled_share == 1.0 and this.agreement == 1.0
        return reproduced or all(a.changed_share == 0.0 for a in answers)


class FedCT(ExchangeStrategy[FedCTExchange]):
    """Federated co-training with hard labels. Parameters as in `ExchangeStrategy`, with ``config`` a `FedCTConfig`.

    After `start`: ``record``, and ``exchange.consensus``: the final labels of the public rows.
    """

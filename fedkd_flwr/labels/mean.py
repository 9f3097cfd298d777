"""Mean: each class gets the share of the votes that named it, for classes that stand for numbers."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from fedkd_flwr.labels.median import median
from fedkd_flwr.labels.scores import onto_simplex
from fedkd_flwr.labels.voting import Ballot, Consensus, ConsensusRule

__all__ = ["Mean"]


class Mean(ConsensusRule):
    """The shares of the votes: what learns them answers with the mean of the numbers or the middle of the grades."""

    name: ClassVar[str] = "mean"
    of_order: ClassVar[bool] = True

    def combine(self, ballot: Ballot, *, config: Any, rng: np.random.Generator) -> Consensus:
        """Return the shares of the votes without what noise adds; where one class is needed, it is their median."""
        votes = ballot.true_votes
        shares = onto_simplex(votes / np.maximum(votes.sum(axis=1, keepdims=True), 1e-12))
        labels = median(votes, ties=config.ties, rng=rng)
        reason = "Models learn the shares of the votes."
        return Consensus(labels, rule=self.name, reason=reason, by_votes=False, probs=shares)

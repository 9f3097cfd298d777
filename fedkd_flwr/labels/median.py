"""Median and mean of the votes, for classes with an order: grades, and bins of a number."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.labels.scores import onto_simplex
from fedkd_flwr.labels.voting import ABSTAIN, Ballot, Consensus, ConsensusRule, Labels, Ties

__all__ = ["Mean", "Median", "median"]


def median(votes: NDArray[Any], *, ties: Ties = "random", rng: np.random.Generator | None = None) -> Labels:
    """Return the median of each row's votes, (num_public,) int16; ``ABSTAIN`` where a row has none.

    Half of the votes are for this class or a lower one, and half for it or a higher one. Where two classes are so, the
    middle between them is taken; of two in the middle the lower one, or with ``ties`` "random" one of them by ``rng``.
    ``votes``, (num_public, num_classes), are of classes in their order; estimates of counts may be negative.

    >>> median(np.array([[2, 0, 1], [1, 0, 2], [0, 0, 0], [1, 0, 1]]), ties="lowest").tolist()
    [0, 2, -1, 1]
    """
    below, total = np.cumsum(votes, axis=1), votes.sum(axis=1, keepdims=True)
    lower, upper = (2 * below >= total).argmax(axis=1), (2 * below > total).argmax(axis=1)
    up = 0 if ties == "lowest" or rng is None else rng.integers(2, size=len(votes))
    labels: Labels = ((lower + upper + up) // 2).astype(np.int16)
    labels[total[:, 0] <= 0] = ABSTAIN
    return labels


class Median(ConsensusRule):
    """The class in the middle of the votes: one grade too high and one too low leave the true one."""

    name: ClassVar[str] = "median"
    of_order: ClassVar[bool] = True

    def combine(self, ballot: Ballot, *, config: Any, rng: np.random.Generator) -> Consensus:
        """Return the median of the votes without what noise adds."""
        reason = "Half of the votes are for this class or a lower one, half for it or a higher one."
        labels = median(ballot.true_votes, ties=config.ties, rng=rng)
        return Consensus(labels, rule=self.name, reason=reason)


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

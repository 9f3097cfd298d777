"""Median: the class in the middle of the votes, for classes with an order such as grades and bins of a number."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.labels.voting import ABSTAIN, Ballot, Consensus, ConsensusRule, Labels, Ties

__all__ = ["Median", "median"]


def median(votes: NDArray[Any], *, ties: Ties = "random", rng: np.random.Generator | None = None) -> Labels:
    """Return the median of each row's votes, (num_public,) int16; ``ABSTAIN`` where a row has none.

    Half of the votes are for this class or a lower one, and half for it or a higher one. Where two classes are so, the
    middle between them is taken; of two in the middle the lower one, or one of them at random.

    Parameters
    ----------
    votes : ndarray of shape (num_public, num_classes)
        Vote counts of classes in their order; estimates of counts may be negative.
    ties : {"random", "lowest"}
        With "random" ``rng`` decides between two classes in the middle.

    Examples
    --------
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

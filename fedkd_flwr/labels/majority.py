"""Majority: the class with most votes. Ties are broken by a named policy, never by a silent argmax."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.errors import ConfigError, explain
from fedkd_flwr.labels.rule import Ballot, Consensus, ConsensusRule
from fedkd_flwr.labels.voting import ABSTAIN, Labels

__all__ = ["Majority", "Ties", "majority"]

Ties = Literal["random", "lowest"]


def majority(votes: NDArray[Any], *, ties: Ties = "random", rng: np.random.Generator | None = None) -> Labels:
    """Return the class with most votes for each row, (num_public,) int16; ``ABSTAIN`` where a row has no votes.

    ``votes``, (num_public, num_classes), are counts, or any scores >= 0. Ties are broken at random with ``rng``, or by
    the lowest class index, as published codes do.

    >>> majority(np.array([[2, 1], [0, 3], [0, 0], [1, 1]]), ties="lowest").tolist()
    [0, 1, -1, 0]
    """
    top = votes.max(axis=1)
    labels: Labels = votes.argmax(axis=1).astype(np.int16)
    if ties == "random":
        if rng is None:
            raise ConfigError(explain("rng", "be a numpy Generator for random ties", rng, 'Or use ties="lowest".'))
        is_top = votes == top[:, None]
        tied = np.flatnonzero(is_top.sum(axis=1) > 1)
        # among tied classes the one with the largest uniform draw wins: each is equally likely
        draws = rng.random((tied.size, votes.shape[1]))
        labels[tied] = np.where(is_top[tied], draws, -1.0).argmax(axis=1)
    elif ties != "lowest":
        raise ConfigError(explain("ties", 'be "random" or "lowest"', ties))
    labels[top <= 0] = ABSTAIN
    return labels


class Majority(ConsensusRule):
    """The class with most votes, of whatever number. Noise adds the same to all classes, so it decides nothing here."""

    name: ClassVar[str] = "majority"

    def combine(self, ballot: Ballot, *, config: Any, rng: np.random.Generator) -> Consensus:
        """Return the majority of the votes as they came."""
        return Consensus(majority(ballot.votes, ties=config.ties, rng=rng))

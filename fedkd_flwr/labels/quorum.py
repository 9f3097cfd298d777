"""Qualified majority: the class with most votes, where enough parties gave it (FedCT)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from fedkd_flwr.labels.voting import ABSTAIN, Ballot, Consensus, ConsensusRule, majority

__all__ = ["QualifiedMajority"]


class QualifiedMajority(ConsensusRule):
    """The majority where a quorum of the parties that count agrees; other rows wait for the next round.

    Quorum 0 is plain majority; a row without votes stays unlabelled also then.
    """

    name: ClassVar[str] = "qualified-majority"
    abstains: ClassVar[bool] = True

    def combine(self, ballot: Ballot, *, config: Any, rng: np.random.Generator) -> Consensus:
        """Return the majority of the votes as they came, where as many votes as the quorum asks are truly there."""
        labels = majority(ballot.votes, ties=config.ties, rng=rng)
        # 0.9 * 10 is 9.000000000000002 in floats on some ways to compute it: do not ask for a tenth party
        needed = np.ceil(config.quorum * ballot.num_votes - 1e-9)
        labels[ballot.true_votes.max(axis=1) < needed] = ABSTAIN
        return Consensus(labels)

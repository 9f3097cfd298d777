"""Qualified majority: the class with most votes, where enough parties gave it (FedCT)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.errors import ConfigError, explain
from fedkd_flwr.labels.voting import ABSTAIN, Ballot, Consensus, ConsensusRule, Labels, Ties, majority

__all__ = ["QualifiedMajority", "qualified_majority"]


def qualified_majority(
    votes: NDArray[Any],
    *,
    quorum: float,
    num_voters: int,
    true_votes: NDArray[Any] | None = None,
    ties: Ties = "random",
    rng: np.random.Generator | None = None,
) -> Labels:
    """Return the majority label where it has at least ``ceil(quorum * num_voters)`` votes (FedCT (QM)).

    ``votes`` are counts, (num_public, num_classes); ``quorum`` is the share of the ``num_voters`` parties with a valid
    reply that must agree, within [0, 1]: 0 is plain majority, and a row without votes stays unlabelled also then.
    ``true_votes``, where noise is in ``votes``, are estimates without it, which alone count against the quorum.

    >>> votes = np.array([[9, 1], [5, 5], [2, 8]])
    >>> qualified_majority(votes, quorum=0.9, num_voters=10, ties="lowest").tolist()
    [0, -1, -1]
    """
    if not 0.0 <= quorum <= 1.0:
        raise ConfigError(explain("quorum", "be within [0, 1]", quorum, "Use 0.9 for nine of ten parties."))
    labels = majority(votes, ties=ties, rng=rng)
    # 0.9 * 10 is 9.000000000000002 in floats on some ways to compute it: do not ask for a tenth party
    enough = (votes if true_votes is None else true_votes).max(axis=1) >= np.ceil(quorum * num_voters - 1e-9)
    labels[~enough] = ABSTAIN
    return labels


class QualifiedMajority(ConsensusRule):
    """The majority where a quorum of the parties that count agrees; other rows wait for the next round."""

    name: ClassVar[str] = "qualified-majority"
    abstains: ClassVar[bool] = True

    def combine(self, ballot: Ballot, *, config: Any, rng: np.random.Generator) -> Consensus:
        """Return the majority of the votes as they came, where as many votes as the quorum asks are truly there."""
        voters, true = ballot.num_votes, ballot.true_votes
        return Consensus(
            qualified_majority(
                ballot.votes, quorum=config.quorum, num_voters=voters, true_votes=true, ties=config.ties, rng=rng
            )
        )

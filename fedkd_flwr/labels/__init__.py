"""What label arrays and votes mean. NumPy only (SciPy for Dawid-Skene); knows no Flower.

Here are the names that a rule or a strategy of one's own needs.
"""

from fedkd_flwr.labels.voting import (
    ABSTAIN,
    Ballot,
    Consensus,
    ConsensusRule,
    Labels,
    VoteCounter,
    agreement,
    check_labels,
    consistent_labels,
    is_informative,
    majority,
)

__all__ = [
    "ABSTAIN",
    "Ballot",
    "Consensus",
    "ConsensusRule",
    "Labels",
    "VoteCounter",
    "agreement",
    "check_labels",
    "consistent_labels",
    "is_informative",
    "majority",
]

"""What label arrays and votes mean. NumPy only (SciPy for Dawid-Skene); knows no Flower."""

from fedkd_flwr.labels.consensus import Ties, agreement, dawid_skene, majority, qualified_majority
from fedkd_flwr.labels.voting import (
    ABSTAIN,
    HALF,
    Labels,
    Uninformative,
    VoteCounter,
    check_labels,
    consistent_labels,
    is_informative,
    voter_weights,
)

__all__ = [
    "ABSTAIN",
    "HALF",
    "Labels",
    "Ties",
    "Uninformative",
    "VoteCounter",
    "agreement",
    "check_labels",
    "consistent_labels",
    "dawid_skene",
    "is_informative",
    "majority",
    "qualified_majority",
    "voter_weights",
]

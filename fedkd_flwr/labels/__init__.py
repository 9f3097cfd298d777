"""What label arrays and votes mean. NumPy only (SciPy for Dawid-Skene); knows no Flower."""

from fedkd_flwr.labels.consensus import Ties, agreement, dawid_skene, majority, qualified_majority
from fedkd_flwr.labels.density import OTHER_FLOOR, DensityVote, density_ratios, ratio_codes, ratios_of
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
    "OTHER_FLOOR",
    "DensityVote",
    "Labels",
    "Ties",
    "Uninformative",
    "VoteCounter",
    "agreement",
    "check_labels",
    "consistent_labels",
    "dawid_skene",
    "density_ratios",
    "is_informative",
    "majority",
    "qualified_majority",
    "ratio_codes",
    "ratios_of",
    "voter_weights",
]

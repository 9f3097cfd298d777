"""What label arrays and votes mean. NumPy only (SciPy for Dawid-Skene); knows no Flower."""

from fedkd_flwr.labels.auto import MIN_COVERAGE, RuleChoice, RuleName, choose_rule
from fedkd_flwr.labels.consensus import Ties, agreement, dawid_skene, majority, qualified_majority
from fedkd_flwr.labels.density import (
    OTHER_FLOOR,
    DensityVote,
    Robust,
    default_ratio_bits,
    density_ratios,
    public_fit,
    ratio_codes,
    ratios_of,
    steady_codes,
    with_classes_of,
)
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
    "MIN_COVERAGE",
    "OTHER_FLOOR",
    "DensityVote",
    "Labels",
    "Robust",
    "RuleChoice",
    "RuleName",
    "Ties",
    "Uninformative",
    "VoteCounter",
    "agreement",
    "check_labels",
    "choose_rule",
    "consistent_labels",
    "dawid_skene",
    "default_ratio_bits",
    "density_ratios",
    "is_informative",
    "majority",
    "public_fit",
    "qualified_majority",
    "ratio_codes",
    "ratios_of",
    "steady_codes",
    "voter_weights",
    "with_classes_of",
]

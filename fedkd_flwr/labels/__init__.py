"""What label arrays and votes mean. NumPy only (SciPy for Dawid-Skene); knows no Flower."""

from fedkd_flwr.labels.choice import MIN_COVERAGE, RuleChoice, choose_rule
from fedkd_flwr.labels.dawid_skene import dawid_skene
from fedkd_flwr.labels.density import DensityVote, Robust
from fedkd_flwr.labels.quorum import qualified_majority
from fedkd_flwr.labels.ratios import (
    OTHER_FLOOR,
    density_ratios,
    public_fit,
    ratio_bits,
    ratio_codes,
    ratios_of,
    steady_codes,
    with_classes_of,
)
from fedkd_flwr.labels.voting import (
    ABSTAIN,
    HALF,
    Ballot,
    Consensus,
    ConsensusRule,
    Labels,
    Ties,
    Uninformative,
    VoteCounter,
    agreement,
    check_labels,
    consistent_labels,
    is_informative,
    majority,
    voter_weights,
)

__all__ = [
    "ABSTAIN",
    "HALF",
    "MIN_COVERAGE",
    "OTHER_FLOOR",
    "Ballot",
    "Consensus",
    "ConsensusRule",
    "DensityVote",
    "Labels",
    "Robust",
    "RuleChoice",
    "Ties",
    "Uninformative",
    "VoteCounter",
    "agreement",
    "check_labels",
    "choose_rule",
    "consistent_labels",
    "dawid_skene",
    "density_ratios",
    "is_informative",
    "majority",
    "public_fit",
    "qualified_majority",
    "ratio_bits",
    "ratio_codes",
    "ratios_of",
    "steady_codes",
    "voter_weights",
    "with_classes_of",
]

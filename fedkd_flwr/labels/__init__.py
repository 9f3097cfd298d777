"""What label arrays and votes mean. NumPy only (SciPy for Dawid-Skene); knows no Flower."""

from fedkd_flwr.labels.codec import PublicSpec, bits_per_label, decode_labels, digest, encode_labels
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
    "PublicSpec",
    "Ties",
    "Uninformative",
    "VoteCounter",
    "agreement",
    "bits_per_label",
    "check_labels",
    "consistent_labels",
    "dawid_skene",
    "decode_labels",
    "digest",
    "encode_labels",
    "is_informative",
    "majority",
    "qualified_majority",
    "voter_weights",
]

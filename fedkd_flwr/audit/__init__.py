"""Attacks on what a run really sent: who was a member, and how much epsilon an attacker can prove.

An attack gives a *lower* bound of what leaks: another attacker may do better. Only a claim bounds it from above.
"""

from fedkd_flwr.audit.bounds import one_run_epsilon, repeated_epsilon
from fedkd_flwr.audit.membership import Answers, likelihood_ratios
from fedkd_flwr.audit.roc import Estimate, attack_auc, detection_rate, roc_points

__all__ = [
    "Answers",
    "Estimate",
    "attack_auc",
    "detection_rate",
    "likelihood_ratios",
    "one_run_epsilon",
    "repeated_epsilon",
    "roc_points",
]

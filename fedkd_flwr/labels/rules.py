"""The vote rules by name: a new one is a line here, and a file beside this one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from fedkd_flwr.labels.auto import Auto
from fedkd_flwr.labels.dawid_skene import DawidSkene
from fedkd_flwr.labels.density_ratio import DensityRatio
from fedkd_flwr.labels.majority import Majority
from fedkd_flwr.labels.probabilities import Probabilities
from fedkd_flwr.labels.quorum import QualifiedMajority
from fedkd_flwr.labels.rule import ConsensusRule

__all__ = ["RULES", "LastRuleName", "RuleName"]

RULES: dict[str, ConsensusRule] = {
    rule.name: rule for rule in (Auto(), Majority(), QualifiedMajority(), DawidSkene(), DensityRatio(), Probabilities())
}

if TYPE_CHECKING:
    RuleName = str
    LastRuleName = str
else:
    RuleName = Literal[tuple(name for name, rule in RULES.items() if not rule.by_send)]
    """The rules that a run config may name."""
    LastRuleName = Literal[tuple(name for name, rule in RULES.items() if not (rule.abstains or rule.by_send))]
    """Those of algorithms in which no round follows."""

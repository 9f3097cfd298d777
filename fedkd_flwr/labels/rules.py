"""The vote rules by name: a new one is a line here, and a file beside this one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from fedkd_flwr.errors import ConfigError, explain
from fedkd_flwr.labels.dawid_skene import DawidSkene
from fedkd_flwr.labels.density_ratio import Auto, DensityRatio
from fedkd_flwr.labels.median import Mean, Median
from fedkd_flwr.labels.probabilities import Probabilities
from fedkd_flwr.labels.quorum import QualifiedMajority
from fedkd_flwr.labels.target import Target
from fedkd_flwr.labels.voting import ConsensusRule, Majority

__all__ = ["RULES", "LastRuleName", "RuleName", "rule_for"]

RULES: dict[str, ConsensusRule] = {
    rule.name: rule
    for rule in (
        Auto(),
        Majority(),
        QualifiedMajority(),
        Median(),
        Mean(),
        DawidSkene(),
        DensityRatio(),
        Probabilities(),
    )
}

if TYPE_CHECKING:
    RuleName = str
    LastRuleName = str
else:
    RuleName = Literal[tuple(name for name, rule in RULES.items() if not rule.by_send)]
    """The rules that a run config may name."""
    LastRuleName = Literal[tuple(name for name, rule in RULES.items() if not (rule.abstains or rule.by_send))]
    """Those of algorithms in which no round follows."""


def rule_for(name: str, target: Target | None, *, drawn: tuple[float, ...] = ()) -> ConsensusRule:
    """Return the rule of a name for what classes stand for: auto's rule on labels is the mean for numbers and grades.

    ``drawn``: the class shares with which public rows were drawn, column by column: they are too unlike private ones
    for density ratios, so that auto takes labels alone, and probabilities are sharpened.

    Raises `ConfigError` if the rule needs an order that the classes do not have.
    """
    if RULES[name].of_order and target is None:
        way_out = "Say what the label is, in simulation target=grades or number, at silos in schema.toml; or drop it."
        raise ConfigError(explain("consensus", "be given for classes with an order", name, way_out))
    if name == Auto.name:
        labels = Majority() if target is None else Mean()
        return labels if drawn else Auto(labels, demanded=target is not None and not target.is_number)
    return Probabilities(shares=drawn) if name == Probabilities.name else RULES[name]

"""The vote rules by name, and which of them a run may take."""

from __future__ import annotations

from fedkd_flwr.labels.rules import RULES
from fedkd_flwr.strategies import FedCTConfig, FedKTConfig, PATEConfig


def test_every_rule_has_its_own_name_and_one_round_takes_those_that_leave_no_row_for_another():
    assert list(RULES) == [rule.name for rule in RULES.values()]
    named = [name for name, rule in RULES.items() if not rule.by_send]
    assert FedCTConfig.rule("consensus") == ", ".join(named)
    assert FedCTConfig.rule("send") == ", ".join(["labels", *(name for name in RULES if name not in named)])
    for config in (FedKTConfig, PATEConfig):
        assert config.rule("consensus") == "auto, majority, median, mean, density-ratio"

"""The vote rules by name, and which of them a run may take."""

from __future__ import annotations

import pytest

from fedkd_flwr.errors import ConfigError
from fedkd_flwr.labels.rules import RULES, rule_for
from fedkd_flwr.labels.target import Target
from fedkd_flwr.strategies import FedCTConfig, FedKTConfig, PATEConfig


def test_every_rule_has_its_own_name_and_one_round_takes_those_that_leave_no_row_for_another():
    assert list(RULES) == [rule.name for rule in RULES.values()]
    named = [name for name, rule in RULES.items() if not rule.by_send]
    assert FedCTConfig.rule("consensus") == ", ".join(named)
    assert FedCTConfig.rule("send") == ", ".join(["auto", "labels", *(name for name in RULES if name not in named)])
    for config in (FedKTConfig, PATEConfig):
        assert config.rule("consensus") == "auto, majority, median, mean, density-ratio"


def test_auto_has_the_mean_for_numbers_and_grades_where_labels_vote():
    number, grades = Target(values=(1.0, 2.0), edges=(0.0, 1.5, 3.0)), Target(values=(1.0, 2.0, 3.0))
    assert [rule_for("auto", of).of_labels.name for of in (grades, number, None)] == ["mean", "mean", "majority"]
    assert [rule_for("auto", of).demanded for of in (grades, number, None)] == [True, False, False]
    drawn = (0.3, 0.7)
    assert [rule_for("auto", of, drawn=drawn).name for of in (grades, number, None)] == ["mean", "mean", "majority"]
    assert rule_for("density-ratio", None, drawn=drawn).name == "density-ratio"  # a run may ask for it all the same
    assert [rule_for("probabilities", None, drawn=of).shares for of in (drawn, ())] == [drawn, ()]
    assert rule_for("majority", grades) is RULES["majority"]


@pytest.mark.parametrize("name", ["median", "mean"])
def test_classes_without_an_order_have_neither_median_nor_mean(name):
    with pytest.raises(ConfigError, match="consensus must be given for classes with an order"):
        rule_for(name, None)

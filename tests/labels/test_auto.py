"""The rule that auto takes, and the sentence that says why."""

from __future__ import annotations

import numpy as np
import pytest

from fedkd_flwr.errors import ConfigError
from fedkd_flwr.labels import MIN_COVERAGE, choose_rule


def test_auto_takes_ratios_where_public_rows_fit_and_else_what_the_class_shares_allow():
    equal, rare = np.array([50, 50, 50]), np.array([950, 500, 50])
    assert choose_rule(num_classes=3, class_counts=rare, coverage=MIN_COVERAGE).rule == "density-ratio"
    assert choose_rule(num_classes=3, class_counts=equal, coverage=0.1).rule == "dawid-skene"
    assert choose_rule(num_classes=3, class_counts=rare, coverage=0.1).rule == "majority"
    assert choose_rule(num_classes=2, class_counts=equal[:2], coverage=0.1).rule == "majority"
    assert choose_rule(num_classes=3, class_counts=None, coverage=None).rule == "majority"


def test_the_reason_names_the_figure_that_decided():
    assert "Only 12 % of the public rows" in choose_rule(num_classes=3, class_counts=None, coverage=0.12).reason
    assert "sent labels alone" in choose_rule(num_classes=3, class_counts=np.ones(3), coverage=None).reason
    assert choose_rule(num_classes=3, class_counts=None, coverage=0.93).reason.startswith("93")


def test_a_coverage_that_is_no_share_is_refused():
    with pytest.raises(ConfigError, match="coverage must"):
        choose_rule(num_classes=3, class_counts=None, coverage=1.2)

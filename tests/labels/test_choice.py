"""The rule that auto takes, and the sentence that says why."""

from __future__ import annotations

import numpy as np
import pytest

from fedkd_flwr.labels.choice import MIN_COVERAGE, RuleChoice, choose_rule, label_skew


def test_auto_takes_ratios_where_public_rows_fit_and_else_what_the_class_shares_allow():
    equal, rare = np.array([50, 50, 50]), np.array([950, 500, 50])
    assert choose_rule(num_classes=3, class_counts=rare, coverage=MIN_COVERAGE).rule == "density-ratio"
    assert choose_rule(num_classes=3, class_counts=equal, coverage=0.1).rule == "dawid-skene"
    assert choose_rule(num_classes=3, class_counts=rare, coverage=0.1).rule == "majority"
    assert choose_rule(num_classes=2, class_counts=equal[:2], coverage=0.1).rule == "majority"
    assert choose_rule(num_classes=3, class_counts=None, coverage=None).rule == "majority"


def test_each_way_to_the_majority_says_its_own_reason():
    no_ratios = "The parties sent labels alone"
    alone = choose_rule(num_classes=3, class_counts=np.array([5, 5, 5]), coverage=None, may_estimate=False)
    assert alone == RuleChoice("majority", f"{no_ratios}, so the majority of the labels counts.")
    two = choose_rule(num_classes=2, class_counts=np.array([5, 5]), coverage=None)
    assert two == RuleChoice("majority", f"{no_ratios}, and for two classes the majority of the labels is safer.")
    unequal = choose_rule(num_classes=3, class_counts=np.array([9, 9, 1]), coverage=0.25)
    far = "Only 25 % of the public rows look like private rows of a party"
    needed = "(50 % are needed for density ratios; parties of few rows cannot tell)"
    text = f"{far} {needed}, and for classes of unequal size the majority of the labels is safer."
    assert unequal == RuleChoice("majority", text)
    assert choose_rule(num_classes=3, class_counts=None, coverage=0.93).reason.startswith("93")
    at_the_border = choose_rule(num_classes=3, class_counts=np.array([1, 2, 2]), coverage=None)
    assert at_the_border.rule == "dawid-skene"  # the rarest has .6 of an equal share


@pytest.mark.parametrize(
    ("num_classes", "shares", "skew", "with_votes"),
    [
        (2, [76, 24], 0.049, True),
        (2, [76, 24], 0.05, False),
        (2, [76, 24], None, False),
        (2, [5, 1], 0.0, True),  # a third of an equal share
        (2, [51, 10], 0.0, False),  # less: labels find none of the rare class
        (3, [1, 1, 1], 0.0, False),
    ],
)
def test_labels_count_where_parties_hold_two_classes_alike_unless_one_is_rare(num_classes, shares, skew, with_votes):
    found = choose_rule(num_classes=num_classes, class_counts=np.array(shares), coverage=0.9, skew=skew)
    assert (found.rule, found.with_votes) == ("density-ratio", with_votes)
    assert ("about the same shares" in found.reason) == with_votes


def test_a_minority_of_liars_hardly_moves_the_skew():
    honest = np.array([[70, 30], [72, 28], [68, 32], [71, 29], [69, 31], [70, 30], [73, 27]])
    liars = np.array([[0, 10**9]] * 3)
    assert label_skew(honest) == pytest.approx(0.01)
    assert label_skew(np.concatenate((honest, liars))) < 0.03
    assert label_skew(np.eye(10, dtype=int)) == 1
    assert label_skew(np.array([[9, 1, 10]] * 3)) == 1  # a rare class is with few parties
    assert label_skew(np.array([[9, 1, 10]] * 3), bins=True) == 0  # a small bin is no such class


def test_most_parties_of_one_class_are_not_taken_for_parties_that_hold_two_classes_alike():
    """Six small parties hold class 1 alone, four large ones class 0: a party's median distance is 0."""
    counts = np.array([[0, 100]] * 6 + [[450, 0]] * 4)
    chosen = choose_rule(num_classes=2, class_counts=counts.sum(axis=0), coverage=1.0, skew=label_skew(counts))
    assert chosen.rule == "density-ratio"

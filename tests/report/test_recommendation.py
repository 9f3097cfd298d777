import math
from dataclasses import replace

import pytest
from measured import record_of

from fedkd_flwr.metrics import Metrics
from fedkd_flwr.record.run_record import PartyRecord
from fedkd_flwr.report.recommendation import advice, difference, losers_warning, own_rows_finding


def _party(alone, after):
    return PartyRecord(name="a", solo={"own": alone}, federated={"own": after})


def _classes(n, recall):
    support, mean = [n] * len(recall), sum(recall) / len(recall)
    return Metrics(n=sum(support), accuracy=mean, balanced_accuracy=mean, recall=list(recall), support=support)


@pytest.mark.parametrize(
    ("n", "alone", "after", "better"),
    [
        (200, 0.9, 0.78, "stay alone"),
        (200, 0.78, 0.9, "federated"),
        (20, 0.9, 0.8, ""),
        (200, 0.9, 0.9, ""),
        (9, 1.0, 0.1, ""),  # a share of nine rows proves nothing, however it looks
        (40, 0.95, 0.025, "stay alone"),
    ],
)
def test_nothing_is_advised_from_noise(n, alone, after, better):
    found = advice(_party(Metrics(n=n, accuracy=alone), Metrics(n=n, accuracy=after)))
    assert found[0] == better
    assert found[1].endswith(f"on {n} rows")


@pytest.mark.parametrize("rare", [1, 9])
@pytest.mark.parametrize(("alone", "after"), [(0.0, 1.0), (1.0, 0.0)])
def test_nothing_is_advised_from_a_few_rows_of_the_rarest_class(rare, alone, after):
    """In balanced accuracy one row of two is a quarter: with 106 others the rule for all rows said "federated"."""
    two = [
        Metrics(n=106 + rare, accuracy=0.99, balanced_accuracy=sum(s) / 2, recall=s, f1=s, support=[106, rare])
        for s in ([1.0, alone], [1.0, after])
    ]
    better, evidence = advice(_party(*two), "balanced_accuracy")
    assert better == ""
    assert f"on {106 + rare} rows, {rare} of them of the rarest class" in evidence


def test_the_standard_error_is_agresti_and_caffo_s_by_hand():
    found = difference(Metrics(n=8, accuracy=1.0), Metrics(n=8, accuracy=0.5))
    p, q = 9 / 10, 5 / 10
    assert found.error == pytest.approx(math.sqrt((p * (1 - p) + q * (1 - q)) / 10))
    assert found.value == -0.5
    assert found.margin() == pytest.approx(1.959964 * found.error)


@pytest.mark.parametrize(("comparisons", "z"), [(1, 1.95996), (2, 2.24140), (5, 2.57583), (10, 2.80703)])
def test_for_several_comparisons_the_level_of_each_is_divided_by_their_number(comparisons, z):
    """The normal distribution's quantiles at 1 - .05 / 2 / comparisons: of .975, .9875, .995 and .9975."""
    found = difference(Metrics(n=100, accuracy=0.5), Metrics(n=100, accuracy=0.6))
    assert found.margin(comparisons) == pytest.approx(z * found.error, rel=1e-5)


def test_balanced_accuracy_has_the_error_of_the_mean_recall():
    found = difference(_classes(8, [1.0, 0.5]), _classes(8, [0.5, 1.0]), "balanced_accuracy")
    one = difference(Metrics(n=8, accuracy=1.0), Metrics(n=8, accuracy=0.5)).error
    assert found.error == pytest.approx(one * math.sqrt(2) / 2)
    held_back = Metrics(n=16, accuracy=0.5, balanced_accuracy=0.5)
    assert difference(held_back, held_back, "balanced_accuracy") is None
    known = _classes(8, [1.0, 0.5])
    partly = replace(known, support=[8, None])
    assert difference(partly, partly, "balanced_accuracy") is None  # the mean of some recalls is another figure


def test_test_rows_of_one_class_advise_nothing_because_a_constant_model_is_perfect_there():
    for support, better in (([0, 384], ""), ([None, 384], "stay alone"), ([384], "stay alone")):
        two = [Metrics(n=384, accuracy=a, recall=[0, a], f1=[0, a], support=support) for a in (1.0, 0.9)]
        assert advice(_party(*two))[0] == better


def test_without_both_models_measured_at_home_there_is_none():
    assert advice(PartyRecord(name="a", solo={"own": Metrics(n=3, accuracy=1.0)})) == ("", "")
    assert advice(_party(Metrics(n=3), Metrics(n=3))) == ("", "")
    assert difference(Metrics(n=3, accuracy=1.0), Metrics(n=4, accuracy=1.0)) is None  # not the same rows


def _record(*pairs, n=400):
    return record_of(*([Metrics(n=n, accuracy=pair[side]) for pair in pairs] for side in (0, 1)), rows="own")


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        ([(0.9, 0.8), (0.9, 0.7)], "at home, on their own rows, all lose: accuracy 0.90 alone, 0.75 with it"),
        ([(0.9, 0.8), (0.7, 0.7)], "1 of 2 lose"),
        ([(0.7, 0.8), (0.7, 0.7)], "none loses"),
    ],
)
def test_the_finding_says_how_many_lose(pairs, said):
    assert said in own_rows_finding(_record(*pairs))
    assert own_rows_finding(_record()) == ""


def test_the_warning_names_those_who_lose_by_more_than_noise_the_largest_loss_first():
    text = losers_warning(_record((0.9, 0.8), (0.95, 0.025), (0.9, 0.89), (0.5, 0.9)))
    assert "2 of 4 parties lose by the federation" in text
    assert "p1 0.950 to 0.025 (400 rows), p0 0.900 to 0.800 (400 rows)." in text


def test_among_many_parties_a_loss_that_chance_makes_is_no_warning():
    one = _record((0.9, 0.85))
    assert losers_warning(one)
    assert losers_warning(_record((0.9, 0.85), *[(0.9, 0.9)] * 49)) == ""
    assert losers_warning(_record((0.9, 0.75), *[(0.9, 0.9)] * 49))


def test_the_finding_names_its_figure_since_that_on_common_rows_may_be_another():
    rare = Metrics(n=400, accuracy=0.99, balanced_accuracy=0.6, recall=[1.0, 0.2], support=[396, 4])
    found = own_rows_finding(record_of([rare], [rare], rows="own"))
    # 0.50 is what says how little 0.60 is; a party with rows of one class has 1 by whatever always gives it
    assert found.endswith("balanced accuracy 0.60 alone, 0.60 with it (one fixed answer 0.50)")


def test_the_finding_counts_losses_of_r2_too():
    one, other = (Metrics(n=400, accuracy=0.5, r2=r2) for r2 in (0.08, -0.53))
    assert own_rows_finding(record_of([one], [other], rows="own")).endswith(
        "1 of 1 loses: R2 0.08 alone, -0.53 with it"
    )


def test_a_loss_on_four_rows_of_a_class_is_too_few_to_say_however_many_the_others_are():
    one, other = (
        Metrics(n=400, accuracy=0.99, balanced_accuracy=sum(r) / 2, recall=r, support=[396, 4])
        for r in ([1.0, 1.0], [1.0, 0.0])
    )
    assert losers_warning(record_of([one], [other], rows="own")) == ""

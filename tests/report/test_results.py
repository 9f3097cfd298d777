from dataclasses import replace

import pytest
from measured import record_of

from fedkd_flwr.metrics import Metrics
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.report import results


def of_parties(*supports, rows="common", **figures):
    return record_of([Metrics(n=sum(n or 0 for n in one) or 9, support=one, **figures) for one in supports], rows=rows)


@pytest.mark.parametrize(
    ("supports", "figure"),
    [
        ([[500, 500]], "accuracy"),
        ([[760, 240]], "accuracy"),  # Adult
        ([[840, 160]], "balanced_accuracy"),
        ([[11_940, 60]], "balanced_accuracy"),
        ([[100, 100, 33]], "accuracy"),
        ([[100, 100, 20]], "balanced_accuracy"),
        ([[50, 50, 0]], "accuracy"),  # a class without test rows cannot matter
        ([[50, 0], [0, 50]], "accuracy"),  # together the parties' rows are balanced
        ([[90, 4], [90, 4]], "balanced_accuracy"),
        ([[None, None]], "accuracy"),  # not shared
        ([[]], "accuracy"),
    ],
)
def test_balanced_accuracy_leads_where_the_rarest_class_has_less_than_a_third_of_an_equal_share(supports, figure):
    record = of_parties(*supports, rows="own", accuracy=0.9, balanced_accuracy=0.8)
    assert results.figure_used(record, "own") == figure
    assert results.figure_used(record, "common") == "accuracy"


def test_what_is_known_leads_where_the_other_is_not_shared():
    assert results.figure_used(of_parties([5, 5], balanced_accuracy=0.8), "common") == "balanced_accuracy"
    assert results.figure_used(of_parties([99, 1], accuracy=0.8), "common") == "accuracy"


def test_one_party_that_reports_on_other_rows_or_by_another_figure_hides_no_other_party():
    record = of_parties([50, 50], [60, 40], [40, 60], rows="own", accuracy=0.9)
    record.parties[0].solo = {"common": Metrics(n=2**31, accuracy=0.1)}
    assert results.rows_used(record) == "own"
    odd = Metrics(n=1001, accuracy=0.9, balanced_accuracy=0.1, recall=[0.1, 0.1], support=[1000, 1])
    record.parties[0].solo = {"own": odd}
    assert results.figure_used(record, "own") == "accuracy"
    record = of_parties([50, 50], [60, 40], [40, 60], rows="own", balanced_accuracy=0.9)
    record.parties[0].solo = {"own": Metrics(n=100, accuracy=0.1)}
    assert results.figure_used(record, "own") == "balanced_accuracy"


def test_figures_are_means_with_the_rows_behind_them():
    record = of_parties([5, 5], [7, 3], accuracy=0.9, brier=0.2)
    record.parties[1].solo["common"] = Metrics(n=10, accuracy=0.5)
    record.server["own"] = Metrics(n=30, macro_f1=0.6)
    alone, server = results.figures(record)
    assert (alone.who, alone.rows, alone.n, alone.means) == ("alone", "common", 10, {"accuracy": 0.7, "brier": 0.2})
    assert (server.who, server.rows, server.n, server.means) == ("server", "own", 30, {"macro_f1": 0.6})
    own = of_parties([5, 5], [7, 3], rows="own", accuracy=0.9)
    assert results.figures(own)[0].n == 20


def test_a_figure_that_some_models_lack_says_of_how_many_it_is():
    record = of_parties([5, 5], [9, 0], rows="own", accuracy=0.9, roc_auc=0.8)
    record.parties[1].solo["own"] = Metrics(n=9, accuracy=0.7)
    (alone,) = results.figures(record)
    assert alone.n == 19
    assert alone.means == {"accuracy": pytest.approx(0.8), "roc_auc": 0.8}
    assert (alone.text("roc_auc"), alone.text("accuracy")) == ("0.800 (of 1)", "0.800")


def test_what_is_no_finite_number_is_no_figure():
    assert results.spread([0.5, None, float("nan"), 0.1, float("inf"), True, 0.3]).text() == "0.300 (0.100 to 0.500)"
    assert results.spread([None]) is None
    assert results.known({"own": Metrics(n=3, accuracy=float("nan"))}, "own") is None


def test_parties_are_paired_by_what_they_have_alone_and_with_the_federation_the_lowest_alone_first():
    accuracies = {"c": (0.5, 0.9), "b": (0.4, 0.8), "a": (0.5, 0.7), "d": (0.1, None), "e": (None, 0.1)}
    record = RunRecord(run_id="1", algorithm="fedct")
    for name, (alone, after) in accuracies.items():
        record.party(name).solo = {"own": Metrics(n=9, accuracy=alone)}
        record.party(name).federated = {"own": Metrics(n=9, accuracy=after)}
    both = results.pairs(record, "own")
    found = [(party.name, alone, after) for party, alone, after in both]
    assert found == [("b", 0.4, 0.8), ("a", 0.5, 0.7), ("c", 0.5, 0.9)]
    assert results.means(both) == (pytest.approx(1.4 / 3), pytest.approx(0.8))


def test_fixed_answers_are_the_commonest_class_s_share_and_one_over_the_classes_that_occur():
    record = of_parties([6, 4, 0], [9, 0, 0], rows="own")
    for party, share in zip(record.parties, (0.6, 1.0), strict=True):
        party.solo["own"] = replace(party.solo["own"], baseline=share)
    assert results.baseline(record, "own") == pytest.approx(0.8)
    assert results.fixed_answer(record, "own") == pytest.approx((1 / 2 + 1) / 2)
    assert results.baseline(record, "common") is results.fixed_answer(record, "common") is None
    assert results.fixed_answer(of_parties([6, None], rows="own"), "own") is None


def test_the_rarest_class_is_counted_once_on_common_rows_and_over_all_parties_on_their_own():
    assert results.rarest_class(of_parties([60, 0, 7], [60, 0, 7]), "common") == (2, 7)
    assert results.rarest_class(of_parties([60, 5, 0], [2, 5, 30], rows="own"), "own") == (1, 10)
    assert results.rarest_class(of_parties([60, 5], [60, None], rows="own"), "own") is None
    assert results.rarest_class(of_parties(), "own") is None


def test_accuracies_are_said_to_be_known_in_simulation_only_where_the_server_may_not_see_the_labels():
    for simulation, adversary, said in ((True, "server", True), (True, "everyone", False), (False, "server", False)):
        record = RunRecord(run_id="1", algorithm="x", simulation=simulation, claims=[{"adversary": adversary}])
        assert results.simulation_only(record) is said
    assert not results.simulation_only(RunRecord(run_id="1", algorithm="x", simulation=True))

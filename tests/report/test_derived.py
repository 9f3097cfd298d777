import pytest

from fedkd_flwr.metrics import Metrics
from fedkd_flwr.report import derived
from fedkd_flwr.run_record import PartyRecord, RunRecord


def of_parties(*supports, rows="common", **figures):
    parties = [
        PartyRecord(name=str(i), solo={rows: Metrics(n=sum(n or 0 for n in one) or 9, support=one, **figures)})
        for i, one in enumerate(supports)
    ]
    return RunRecord(run_id="1", algorithm="fedct", parties=parties)


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
    assert derived.figure_used(record, "own") == figure
    assert derived.figure_used(record, "common") == "accuracy"


def test_what_is_known_leads_where_the_other_is_not_shared():
    assert derived.figure_used(of_parties([5, 5], balanced_accuracy=0.8), "common") == "balanced_accuracy"
    assert derived.figure_used(of_parties([99, 1], accuracy=0.8), "common") == "accuracy"


def test_one_party_that_reports_on_other_rows_or_by_another_figure_hides_no_other_party():
    record = of_parties([50, 50], [60, 40], [40, 60], rows="own", accuracy=0.9)
    record.parties[0].solo = {"common": Metrics(n=2**31, accuracy=0.1)}
    assert derived.rows_used(record) == "own"
    odd = Metrics(n=1001, accuracy=0.9, balanced_accuracy=0.1, recall=[0.1, 0.1], support=[1000, 1])
    record.parties[0].solo = {"own": odd}
    assert derived.figure_used(record, "own") == "accuracy"
    record = of_parties([50, 50], [60, 40], [40, 60], rows="own", balanced_accuracy=0.9)
    record.parties[0].solo = {"own": Metrics(n=100, accuracy=0.1)}
    assert derived.figure_used(record, "own") == "balanced_accuracy"


def test_common_rows_come_first_where_each_party_was_tested_on_both_or_on_none():
    record = of_parties([5, 5], accuracy=0.8)
    record.parties[0].solo["own"] = Metrics(n=9, accuracy=0.7)
    assert derived.rows_used(record) == derived.rows_used(of_parties()) == "common"


def test_figures_are_means_with_the_rows_behind_them():
    record = of_parties([5, 5], [7, 3], accuracy=0.9, brier=0.2)
    record.parties[1].solo["common"] = Metrics(n=10, accuracy=0.5)
    record.server["own"] = Metrics(n=30, macro_f1=0.6)
    alone, server = derived.figures(record)
    assert (alone.who, alone.rows, alone.n, alone.means) == ("alone", "common", 10, {"accuracy": 0.7, "brier": 0.2})
    assert (server.who, server.rows, server.n, server.means) == ("server", "own", 30, {"macro_f1": 0.6})
    own = of_parties([5, 5], [7, 3], rows="own", accuracy=0.9)
    assert derived.figures(own)[0].n == 20


def test_fedavg_cannot_average_different_models(make_record):
    record = make_record(2, 1, model="mlp")
    assert derived.model_sharing(record) == (2_600_000, True)
    record.parties[1].model = "cnn"
    assert derived.model_sharing(record) == (2_600_000, False)


def test_bytes_are_per_party_and_round(make_record):
    sent = derived.traffic(make_record(4, 3))
    assert (sent.up_first, sent.up_later) == (5_130, 590)
    assert sent.down == 2 * 5_040 / 3


def test_a_record_without_sizes_has_no_traffic():
    assert derived.traffic(RunRecord(run_id="7", algorithm="fedct")).up is None


def test_a_party_is_listed_once_per_reason(make_record, failed_record):
    first = failed_record.rounds[0]
    failed_record.rounds.append(make_record(5, 2).rounds[1])
    failed_record.rounds[1].rejected = first.rejected[:1]
    found = derived.left_out(failed_record)
    assert [(entry.who, entry.rounds) for entry in found[:2]] == [("party-001", [1, 2]), ("party-002", [1])]
    assert found[-1].who == f"node {'9' * 19} (its party is not known)"

from dataclasses import replace

from fedkd_flwr.metrics import Metrics
from fedkd_flwr.record.run_record import PartyRecord, RunRecord
from fedkd_flwr.report.home import changes, home_finding, home_warning


def _record(*pairs, n=400):
    record = RunRecord(run_id="7", algorithm="fedct")
    for i, (alone, after) in enumerate(pairs):
        party = PartyRecord(name=f"p{i}", solo={"own": Metrics(n=n, accuracy=alone)})
        party.federated["own"] = Metrics(n=n, accuracy=after)
        record.parties.append(party)
    return record


def test_the_finding_says_how_many_lose():
    assert home_finding(_record()) == ""
    two = _record((0.9, 0.8), (0.9, 0.7))
    assert home_finding(two) == "at home, on their own rows, all lose: accuracy 0.90 alone, 0.75 with it"
    assert "1 of 2 lose" in home_finding(_record((0.9, 0.8), (0.7, 0.7)))
    assert "none loses" in home_finding(_record((0.7, 0.8), (0.7, 0.7)))


def test_the_warning_names_those_who_lose_by_more_than_noise_the_largest_loss_first():
    text = home_warning(_record((0.9, 0.8), (0.95, 0.025), (0.9, 0.89), (0.5, 0.9)))
    assert "2 of 4 parties lose by the federation" in text
    assert "p1 0.950 to 0.025 (400 rows), p0 0.900 to 0.800 (400 rows)." in text
    assert "1 more party loses within noise, which is judged for all parties together." in text
    assert "p1 and p0 are better off with the model that they trained alone." in text


def test_who_is_better_off_alone_is_named_so_that_nobody_within_noise_is_meant():
    text = home_warning(_record((0.9, 0.5), (0.9, 0.89), (0.9, 0.88)))
    assert "p0 is better off with the model that it trained alone. 2 more parties lose within noise" in text


def test_among_many_parties_a_loss_that_chance_makes_is_no_warning():
    one = _record((0.9, 0.85))
    assert home_warning(one)
    assert home_warning(_record((0.9, 0.85), *[(0.9, 0.9)] * 49)) == ""
    assert home_warning(_record((0.9, 0.75), *[(0.9, 0.9)] * 49))


def test_a_party_whose_test_rows_are_of_one_class_is_not_told_to_stay_alone():
    record = _record((1.0, 0.8), (0.9, 0.8))
    for measured in (record.parties[0].solo, record.parties[0].federated):
        measured["own"] = replace(measured["own"], support=[0, 400])
    text = home_warning(record)
    assert "p1 is better off with the model that it trained alone." in text
    assert "All own test rows of p0 are of one class" in text
    record.parties.pop()
    assert "better off" not in home_warning(record)


def test_losses_within_noise_are_no_warning():
    assert home_warning(_record((0.9, 0.8), n=10)) == ""


def test_of_many_losers_some_are_counted():
    text = home_warning(_record(*[(0.9, 0.5)] * 9))
    assert text.count("0.900 to 0.500") == 6
    assert "and 3 more." in text


def test_changes_come_with_the_largest_loss_first():
    assert [p.name for p, _ in changes(_record((0.5, 0.9), (0.9, 0.5)))] == ["p1", "p0"]


def test_the_finding_names_its_figure_since_that_on_common_rows_may_be_another():
    record = _record((0.9, 0.8))
    for measured in (record.parties[0].solo, record.parties[0].federated):
        measured["own"] = Metrics(n=400, accuracy=0.99, balanced_accuracy=0.6, recall=[1.0, 0.2], support=[396, 4])
    found = home_finding(record)
    # 0.50 is what says how little 0.60 is; a party with rows of one class has 1 by whatever always gives it
    assert found.endswith("balanced accuracy 0.60 alone, 0.60 with it (one fixed answer 0.50)")


def test_a_loss_on_four_rows_of_a_class_is_too_few_to_say_however_many_the_others_are():
    record = _record((0.9, 0.8))
    for measured, recall in ((record.parties[0].solo, [1.0, 1.0]), (record.parties[0].federated, [1.0, 0.0])):
        balanced = sum(recall) / 2
        measured["own"] = Metrics(n=400, accuracy=0.99, balanced_accuracy=balanced, recall=recall, support=[396, 4])
    assert home_warning(record) == ""


def test_a_party_of_few_rows_does_not_lose_within_noise_but_on_too_few_rows(make_record):
    record = make_record(2, 1)
    for party, n in zip(record.parties, (500, 3), strict=True):
        party.solo["own"], party.federated["own"] = Metrics(n=n, accuracy=1.0), Metrics(n=n, accuracy=0.0)
    text = home_warning(record)
    assert text.endswith(" 1 more party has fewer than 10 rows: too few to say.")
    assert "within noise" not in text

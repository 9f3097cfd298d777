"""What a reader must see first: models that find nothing of a class, or are no better than one fixed answer."""

import numpy as np

from fedkd_flwr.metrics import measure
from fedkd_flwr.record.run_record import PartyRecord, RunRecord
from fedkd_flwr.report.model_warnings import kinds_of_warnings, model_warnings
from fedkd_flwr.report.table import summary_table

FRAUD = np.repeat([0, 1], [1990, 10])


def metrics(labels, y=FRAUD, num_classes=2):
    return measure(y, np.asarray(labels), None, num_classes=num_classes)


NOTHING, HALF, ALL = metrics(np.zeros(2000, int)), metrics(np.repeat([0, 1], [1995, 5])), metrics(FRAUD)


def record(server=None, federated=(), solo=()):
    made = RunRecord(run_id="1", algorithm="fedkt", status="completed", classes=["legit", "fraud"], num_classes=2)
    if server:
        made.server["common"] = server
    for i in range(max(len(federated), len(solo))):
        party = PartyRecord(name=f"party-{i:03d}")
        party.federated = {"common": federated[i]} if federated else {}
        party.solo = {"common": solo[i]} if solo else {}
        made.parties.append(party)
    return made


def test_a_fraud_model_that_flags_nothing_is_called_useless_in_the_first_lines_of_the_table():
    first, second, third, fourth, *_ = summary_table(record(NOTHING)).splitlines()[1:]
    assert first == "fedkt, run 1: completed"
    assert f"{second} {third.strip()}" == (
        "WARNING: The server's model is useless: it gives class 'legit' to all 2,000 common test rows and finds none "
        "of class 'fraud' (10 rows). An accuracy of 0.995 comes from that alone."
    )
    assert fourth.startswith("─")


def test_a_model_that_finds_something_of_every_class_is_not_warned_of():
    assert model_warnings(record(HALF, [HALF, ALL])) == []


def test_a_class_of_several_that_is_never_found_is_named_with_its_rows():
    y = np.repeat([0, 1, 2], [50, 40, 10])
    made = record(metrics(np.where(y == 2, 0, y), y, 3))
    assert model_warnings(made) == ["The server's model finds none of the common test rows of class 2 (10 rows)."]


def test_accuracy_that_is_not_above_one_fixed_answer_is_said():
    y = np.repeat([0, 1], [60, 40])
    labels = np.where(np.arange(100) % 2, y, 1 - y)
    assert model_warnings(record(metrics(labels, y))) == [
        "The server's model's accuracy 0.500 is not above that of always answering the commonest class (0.600)."
    ]


def test_a_model_that_finds_all_of_a_rare_class_is_not_judged_by_accuracy_alone():
    alarms = metrics(np.where(np.arange(2000) < 1900, 0, 1))  # finds all 10 frauds, with 90 false alarms
    balanced = " Balanced accuracy, which leads here because a class is rare: 0.977, of one fixed answer 0.500"
    balanced += " (by 10 test rows of the rarest class)."
    server, parties = model_warnings(record(alarms, [alarms, alarms]))
    assert server.endswith(f"always answering the commonest class (0.995).{balanced}")
    assert parties.endswith(f"commonest class alone (0.995).{balanced}")


def test_parties_are_counted():
    assert model_warnings(record(None, [NOTHING, NOTHING, ALL])) == [
        "2 of 3 models with the federation, on common test rows: useless, one class is given to all rows."
    ]


def test_a_class_that_at_least_half_of_the_parties_do_not_find_is_named():
    y = np.repeat([0, 1, 2], [50, 40, 10])
    misses, finds = metrics(np.where(y == 2, 0, y), y, 3), metrics(y, y, 3)
    sentence = "Models with the federation, on common test rows find no row of class 2 (2 of 4 models)."
    assert model_warnings(record(None, [misses, misses, finds, finds])) == [sentence]
    assert model_warnings(record(None, [misses, finds, finds, finds])) == []


def test_models_alone_are_judged_only_where_there_are_no_others():
    (text,) = model_warnings(record(None, (), [NOTHING, ALL, ALL]))
    assert text.startswith("1 of 3 models alone")
    assert model_warnings(record(None, [ALL] * 3, [NOTHING] * 3)) == []


def test_what_a_silo_did_not_share_is_not_judged():
    shared = NOTHING.shared(["accuracy"])
    assert model_warnings(record(shared, [shared])) == []
    held = NOTHING.shared(["recall", "precision"], min_support=20)
    assert model_warnings(record(held, [held])) == []


def test_a_warning_of_runs_with_other_seeds_is_of_one_kind_whatever_its_numbers_are_but_not_its_class():
    def kinds(*parties, server=None):
        return [kind for kind, _ in kinds_of_warnings(record(server, parties))]

    y = np.repeat([0, 1, 2], [50, 40, 10])
    misses, other = (metrics(np.where(y == c, 0, y), y, 3) for c in (1, 2))
    assert kinds(NOTHING, NOTHING, ALL) == kinds(NOTHING, ALL, ALL) == ["useless"]
    assert kinds(misses, misses, misses) == kinds(misses, misses) != kinds(other, other)
    assert kinds(server=misses) != kinds(server=other)
    assert kinds(server=NOTHING) != kinds(NOTHING)

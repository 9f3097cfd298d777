"""What a reader must see first: models that find nothing of a class, or are no better than one fixed answer."""

import numpy as np
import pytest
from measured import record_of

from fedkd_flwr.metrics import measure
from fedkd_flwr.report.model_warnings import kinds_of_warnings, model_warnings
from fedkd_flwr.report.table import summary_table

FRAUD, THREE = np.repeat([0, 1], [1990, 10]), np.repeat([0, 1, 2], [50, 40, 10])


def metrics(labels, y=FRAUD, num_classes=2):
    return measure(y, np.asarray(labels), None, num_classes=num_classes)


NOTHING, HALF, ALL = metrics(np.zeros(2000, int)), metrics(np.repeat([0, 1], [1995, 5])), metrics(FRAUD)
MISSES, OTHER, FINDS = (metrics(np.where(c == THREE, 0, THREE), THREE, 3) for c in (2, 1, 0))


def record(server=None, federated=(), solo=()):
    fields = {"algorithm": "fedkt", "status": "completed", "classes": ["legit", "fraud"], "num_classes": 2}
    return record_of(solo, federated, **fields, server={"common": server} if server else {})


def test_a_fraud_model_that_flags_nothing_is_called_useless_in_the_first_lines_of_the_table():
    first, *lines = summary_table(record(NOTHING)).splitlines()[1:]
    assert first == "fedkt, run 7: completed"
    assert " ".join(line.strip() for line in lines[:2]) == (
        "WARNING: The server's model, on common test rows: useless, class 'legit' is given to all rows. An accuracy of "
        "0.995 comes from that alone."
    )
    assert lines[2].startswith("─")


PARTIES = "Models with the federation, on common test rows"


@pytest.mark.parametrize(
    ("server", "federated", "solo", "said"),
    [
        (HALF, [HALF, ALL], (), []),  # something is found of every class
        (MISSES, (), (), ["The server's model, on common test rows: no row is found of class 2 (10 rows)."]),
        (
            None, [NOTHING, NOTHING, ALL], (),
            [f"{PARTIES}: 2 of 3 models useless, class 'legit' is given to all rows. An accuracy of 0.995 comes from "
             "that alone."],
        ),
        (None, [MISSES, MISSES, FINDS, FINDS], (), [f"{PARTIES}: no row is found of class 2 (2 of 4 models)."]),
        (None, [MISSES, FINDS, FINDS, FINDS], (), []),
        (None, [ALL] * 3, [NOTHING] * 3, []),  # models alone are judged only where there are no others
        (
            None, (), [NOTHING, ALL, ALL],
            ["Models alone, on common test rows: 1 of 3 models useless, class 'legit' is given to all rows. An "
             "accuracy of 0.995 comes from that alone."],
        ),
        (NOTHING.shared(["accuracy"]), [NOTHING.shared(["accuracy"])], (), []),  # what a silo did not share
        (None, [NOTHING.shared(["recall", "precision"], min_support=20)], (), []),
    ],
)  # fmt: skip
def test_what_models_miss_is_said_of_one_model_and_of_many(server, federated, solo, said):
    assert model_warnings(record(server, federated, solo)) == said


def test_accuracy_that_is_not_above_one_fixed_answer_is_said():
    y = np.repeat([0, 1], [60, 40])
    labels = np.where(np.arange(100) % 2, y, 1 - y)
    assert model_warnings(record(metrics(labels, y))) == [
        "The server's model, on common test rows: accuracy 0.500, not above that of always answering the commonest "
        "class (0.600)."
    ]


def test_a_model_that_finds_all_of_a_rare_class_is_not_judged_by_accuracy_alone():
    alarms = metrics(np.where(np.arange(2000) < 1900, 0, 1))  # finds all 10 frauds, with 90 false alarms
    balanced = " Balanced accuracy, which leads here because a class is rare: 0.977, of one fixed answer 0.500"
    balanced += " (by 10 test rows of the rarest class)."
    for text in model_warnings(record(alarms, [alarms, alarms])):
        assert text.endswith(f"always answering the commonest class (0.995).{balanced}")


def test_balanced_accuracy_that_a_moved_threshold_gains_is_said_to_be_none_of_better_models():
    scores = np.linspace(0, 0.4, 2000)[:, None] * [-1, 1] + [1, 0]  # alone: all rows in order, below one half
    shuffled = np.random.default_rng(0).permutation(scores)
    alone, noise = (measure(FRAUD, labels, probs, num_classes=2) for labels, probs in (
        (np.zeros(2000, int), scores), (np.repeat([0, 1, 0, 1], [1000, 990, 2, 8]), shuffled)))  # fmt: skip
    (text,) = model_warnings(record(None, [noise] * 2, [alone] * 2))
    assert text.endswith(f"Rows are ranked worse than alone: ROC AUC {noise.roc_auc:.3f}, alone 1.000.")
    assert "ranked" not in model_warnings(record(None, [noise] * 2, [noise] * 2))[0]


def test_a_warning_of_runs_with_other_seeds_is_of_one_kind_whatever_its_numbers_are_but_not_its_class():
    def kinds(*parties, server=None):
        return [kind for kind, _ in kinds_of_warnings(record(server, parties))]

    assert kinds(NOTHING, NOTHING, ALL) == kinds(NOTHING, ALL, ALL)
    assert kinds(MISSES, MISSES, MISSES) == kinds(MISSES, MISSES) != kinds(OTHER, OTHER)
    assert kinds(server=MISSES) != kinds(server=OTHER)
    assert kinds(server=NOTHING) != kinds(NOTHING)

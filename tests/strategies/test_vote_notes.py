import numpy as np
import pytest

from fedkd_flwr.algorithms.exchange import VotersConfig
from fedkd_flwr.algorithms.fedct import FedCTConfig
from fedkd_flwr.algorithms.fedkt import FedKTConfig
from fedkd_flwr.algorithms.pate import PATEConfig
from fedkd_flwr.labels import ABSTAIN
from fedkd_flwr.strategies.vote_notes import (
    advice,
    lost_classes,
    nearly_uninformative_parties,
    uninformative_parties,
)

CLASSES = ("flu", "cold", "sepsis")


def _labels(*arrays):
    return {f"party-{i:03d}": np.atleast_2d(np.array(one, np.int16)) for i, one in enumerate(arrays)}


def _lost(vote, *arrays):
    return list(lost_classes(_labels(*arrays), np.array(vote, np.int16), classes=CLASSES))


@pytest.mark.parametrize(
    ("arrays", "vote", "notes"),
    [
        (
            ([0, 1, 2, 2], [0, 1, 0, 0], [0, 1, 0, 0]),
            [0, 1, 0, 0],
            ["Only party-000 ever predicts 'sepsis' (2 public rows): the vote loses it."],
        ),
        (
            ([0, 2, 2, 2], [0, 1, 0, 0], [0, 1, 0, 2]),
            [0, 1, 0, 0],
            ["2 of 3 parties predict 'sepsis' (3 public rows): the vote loses it."],
        ),
        (
            ([2, 1, 2, 2], [0, 1, 0, 1], [0, 1, 0, 0]),
            [0, 1, 0, 2],
            ["Only party-000 ever predicts 'sepsis' (3 public rows): the vote keeps 1 of them."],
        ),
        (([2, 1, 2, 0], [0, 1, 0, 0], [0, 1, 0, 0]), [2, 1, 0, 0], []),  # half of them are kept
        (
            ([0, 1, 0, 1], [0, 1, 1, 0]),
            [0, 1, 0, ABSTAIN],
            ["No party predicts 'sepsis' on any public row: nothing learnt from this vote can know it."],
        ),
        (([0, 1, 0, 1], [0, 1, 1, 0]), [0, 1, 2, 0], []),  # a rule that is no vote may find a class nobody gave
    ],
    ids=["one party, lost", "two parties, lost", "outvoted", "kept", "unknown", "found"],
)
def test_a_note_says_what_became_of_a_class(arrays, vote, notes):
    assert _lost(vote, *arrays) == notes


def test_of_many_lost_classes_the_first_are_named():
    labels = _labels(range(9), [0] * 9, [0] * 9)
    notes = list(lost_classes(labels, np.zeros(9, np.int16), classes=[f"class {c}" for c in range(9)]))
    assert len(notes) == 6
    assert notes[-1] == "3 more classes are lost in the vote, or are known to one party that it outvotes."


def test_either_student_of_a_party_may_predict_a_class():
    assert _lost([0, 1], [[0, 1], [2, 1]], [[0, 1], [0, 1]]) == [
        "Only party-000 ever predicts 'sepsis' (1 public row): the vote loses it."
    ]


def test_parties_that_give_one_class_are_named_with_it():
    labels = _labels([0, 1, 2], [1, 1, 1], [[2, 2, 2], [2, 2, 2]])
    half = uninformative_parties(labels, config=FedKTConfig(), classes=CLASSES)
    assert half == (
        "2 of 3 parties give every public row one class, and cast half a vote each: "
        "party-001 ('cold'), party-002 ('sepsis')."
    )
    none = uninformative_parties(labels, config=FedCTConfig(), classes=CLASSES)
    assert "and cast no vote: party-001" in none
    assert uninformative_parties(labels, config=VotersConfig(informative_voters_only=False), classes=CLASSES) == ""


def test_where_nobody_tells_classes_apart_nobody_is_said_to_cast_no_vote():
    labels = _labels([1, 1], [1, 1])
    for config in (FedCTConfig(), FedKTConfig(), FedKTConfig(uninformative_voters="leave-out")):
        text = uninformative_parties(labels, config=config, classes=CLASSES)
        assert text.startswith("Every party gives all public rows one class: party-000 ('cold'), party-001 ('cold').")
        assert text.endswith("Their votes count alike: none tells classes apart.")
    noisy = PATEConfig(noise="laplace", gamma=0.1, uninformative_voters="leave-out")
    assert "cast no vote" in uninformative_parties(labels, config=noisy, classes=CLASSES)  # and the noise decides


def test_advice_fits_the_algorithm_the_noise_and_the_number_of_classes():
    for config in (FedCTConfig(consensus="majority"), FedCTConfig(consensus="qualified-majority")):
        for num_classes in (2, 3):
            text = advice(config, num_classes)
            assert num_classes > 2 or "dawid-skene" not in text
    assert advice(FedCTConfig(consensus="majority"), 3).startswith(
        'fedct.consensus="density-ratio" '
    )  # as it is written
    assert advice(FedKTConfig(consensus="majority"), 3).startswith('consensus="density-ratio" ')
    assert advice(FedCTConfig(), 3) == ""  # auto has chosen already
    assert advice(FedCTConfig(label_mechanism="randomized-response", label_epsilon=1.0), 3) == ""
    assert "dawid-skene" not in advice(FedCTConfig(consensus="dawid-skene"), 3)
    assert "dawid-skene" not in advice(FedKTConfig(), 10)
    assert "dawid-skene" not in advice(PATEConfig(), 10)


def test_the_note_says_what_parties_that_label_all_rows_alike_cast_where_trust_weighs():
    labels = {"a": np.array([[0, 1]], np.int16), "b": np.array([[1, 1]], np.int16)}
    told = uninformative_parties(labels, config=VotersConfig(), classes=CLASSES, weighed=True)
    assert "casts half a vote, and all such parties together a tenth of the others' votes at most: b" in told


def test_parties_of_nearly_one_class_are_named_with_it_where_they_cast_less_together():
    mixed, nearly = np.tile(np.array([0, 1], np.int16), 50)[None], np.array([[1] * 97 + [0, 0, ABSTAIN]], np.int16)
    note = nearly_uninformative_parties({"a": mixed, "b": nearly, "c": nearly, "d": 0 * mixed}, classes=["no", "yes"])
    assert note == (
        "3 of 4 parties give at least 94 % of the public rows one class, and together cast half of the others' votes "
        "at most: b ('yes'), c ('yes'), d ('no'). Agreement cannot tell whether their labels are wrong."
    )

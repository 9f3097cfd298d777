import numpy as np
import pytest

from fedkd_flwr.algorithms.exchange import VotersConfig
from fedkd_flwr.algorithms.fedct import FedCTConfig
from fedkd_flwr.algorithms.fedkt import FedKTConfig
from fedkd_flwr.algorithms.pate import PATEConfig
from fedkd_flwr.labels import ABSTAIN
from fedkd_flwr.record.notes import Note, NoteCode
from fedkd_flwr.strategies.label_exchange import lost_classes, nearly_uninformative_parties, uninformative_parties
from fedkd_flwr.strategies.vote_notes import advice

CLASSES = ("flu", "cold", "sepsis")


def _labels(*arrays):
    return {f"party-{i:03d}": np.atleast_2d(np.array(one, np.int16)) for i, one in enumerate(arrays)}


LOST = Note(NoteCode.LOST_CLASS, {"class": "sepsis", "rows": 3, "parties": 2, "of": 3})


def _of_one_party(**said):
    return Note(NoteCode.CLASS_OF_ONE_PARTY, {"class": "sepsis", "party": "party-000", **said})


@pytest.mark.parametrize(
    ("arrays", "vote", "notes"),
    [
        (([0, 1, 2, 2], [0, 1, 0, 0], [0, 1, 0, 0]), [0, 1, 0, 0], [_of_one_party(rows=2, kept=None)]),
        (([0, 2, 2, 2], [0, 1, 0, 0], [0, 1, 0, 2]), [0, 1, 0, 0], [LOST]),
        (([2, 1, 2, 2], [0, 1, 0, 1], [0, 1, 0, 0]), [0, 1, 0, 2], [_of_one_party(rows=3, kept=1)]),
        (([2, 1, 2, 0], [0, 1, 0, 0], [0, 1, 0, 0]), [2, 1, 0, 0], []),  # half of them are kept
        (([0, 1, 0, 1], [0, 1, 1, 0]), [0, 1, 0, ABSTAIN], [Note(NoteCode.UNKNOWN_CLASSES, {"classes": ["sepsis"]})]),
        (([0, 1, 0, 1], [0, 1, 1, 0]), [0, 1, 2, 0], []),  # a rule that is no vote may find a class nobody gave
    ],
    ids=["one party, lost", "two parties, lost", "outvoted", "kept", "unknown", "found"],
)
def test_a_note_says_what_became_of_a_class(arrays, vote, notes):
    assert list(lost_classes(_labels(*arrays), np.array(vote, np.int16), classes=CLASSES)) == notes


def test_of_many_lost_classes_the_first_are_named():
    labels = _labels(range(9), [0] * 9, [0] * 9)
    notes = list(lost_classes(labels, np.zeros(9, np.int16), classes=[f"class {c}" for c in range(9)]))
    assert len(notes) == 6
    assert notes[-1] == Note(NoteCode.MORE_LOST_CLASSES, {"count": 3})


def test_parties_that_give_one_class_are_named_with_it():
    labels = _labels([0, 1, 2], [1, 1, 1], [[2, 2, 2], [2, 2, 2]])
    said = {"parties": {"party-001": "cold", "party-002": "sepsis"}, "of": 3}
    (half,) = uninformative_parties(labels, config=FedKTConfig(), classes=CLASSES)
    assert half == Note(NoteCode.ONE_CLASS_VOTES, {**said, "weight": 0.5, "bounded": False})
    (none,) = uninformative_parties(labels, config=FedCTConfig(), classes=CLASSES, weighed=True)
    assert none == Note(NoteCode.ONE_CLASS_VOTES, {**said, "weight": 0.0, "bounded": False})  # no vote has no bound
    (bounded,) = uninformative_parties(labels, config=FedKTConfig(), classes=CLASSES, weighed=True)
    assert bounded.values["bounded"]
    assert not [*uninformative_parties(labels, config=VotersConfig(one_class_voters="count"), classes=CLASSES)]


def test_where_nobody_tells_classes_apart_nobody_is_said_to_cast_no_vote():
    labels = _labels([1, 1], [1, 1])
    for config in (FedCTConfig(), FedKTConfig(), FedKTConfig(one_class_voters="leave-out")):
        (note,) = uninformative_parties(labels, config=config, classes=CLASSES)
        assert note == Note(NoteCode.ALL_ONE_CLASS, {"parties": {"party-000": "cold", "party-001": "cold"}})
    noisy = PATEConfig(noise="laplace", noise_strength=0.1, one_class_voters="leave-out")
    (note,) = uninformative_parties(labels, config=noisy, classes=CLASSES)  # the noise decides
    assert (note.code, note.values["weight"]) == (NoteCode.ONE_CLASS_VOTES, 0.0)


def test_advice_fits_the_algorithm_and_the_noise():
    for config in (FedCTConfig(consensus="majority"), FedKTConfig(consensus="majority")):
        (note,) = advice(config)
        assert note.values == {"key": "consensus", "consensus": "density-ratio"}  # as it is written
    assert not [*advice(FedCTConfig())]  # auto has chosen already
    assert not [*advice(FedCTConfig(label_mechanism="randomized-response", noise_strength=1.0))]


def test_parties_of_nearly_one_class_are_named_with_it_where_they_cast_less_together():
    mixed, nearly = np.tile(np.array([0, 1], np.int16), 50)[None], np.array([[1] * 97 + [0, 0, ABSTAIN]], np.int16)
    note = nearly_uninformative_parties({"a": mixed, "b": nearly, "c": nearly, "d": 0 * mixed}, classes=["no", "yes"])
    said = {"parties": {"b": "yes", "c": "yes", "d": "no"}, "of": 4, "share": 0.94}
    assert note == Note(NoteCode.NEARLY_ONE_CLASS, said)

import numpy as np
import pytest

from fedkd_flwr.errors import PayloadError
from fedkd_flwr.labels.probabilities import BITS, Probabilities, home_labels
from fedkd_flwr.labels.scores import quantise
from fedkd_flwr.wire.label_codec import PublicSpec, decode_answer, encode_answer

RULE = Probabilities()
COUNTS = np.array([900, 100, 0])


def _said(rows=500, classes=3, seed=1):
    return quantise(np.random.default_rng(seed).dirichlet(np.ones(classes), rows), BITS)


def _spec(rows=500, classes=3):
    return PublicSpec(num_public=rows, num_classes=classes, fingerprint="ab" * 32)


def _encoded(steps, counts=COUNTS, base=None):
    values = {"labels": home_labels(steps, counts)[None], "probs": steps, "class-counts": counts}
    return encode_answer(values, public=_spec(*steps.shape), server_round=2, base=base or {}, rule=RULE)


def _decoded(arrays, shape=(500, 3), base=None, num_arrays=1):
    return decode_answer(
        arrays, public=_spec(*shape), server_round=2, base=base or {}, num_arrays=num_arrays, rule=RULE
    )


def test_probabilities_and_counts_come_back_and_labels_are_those_that_they_give():
    steps = _said()
    back = _decoded(_encoded(steps), num_arrays=2)
    assert (back["probs"] == steps).all()
    assert back["class-counts"].tolist() == COUNTS.tolist()
    assert back["labels"].shape == (2, 500)
    assert (back["labels"] == home_labels(steps, COUNTS)).all()


def test_two_classes_take_four_bits_a_row_and_an_answer_that_did_not_change_next_to_nothing():
    steps, counts = _said(8000, 2), np.array([5, 5])
    arrays = _encoded(steps, counts)
    assert len(arrays["probs"]) <= 8000 * BITS / 8 + 100
    held = _decoded(arrays, steps.shape)
    again = _encoded(steps, counts, base=held)
    assert len(again["probs"]) < 120
    assert (_decoded(again, steps.shape, base=held)["probs"] == steps).all()
    with pytest.raises(PayloadError, match="be an answer that the receiver holds"):
        _decoded(again, steps.shape)


@pytest.mark.parametrize(
    "counts",
    [np.zeros(3, int), np.array([1, -1, 2]), np.array([1.0, 2.0, 3.0]), np.array([1, 2]), np.array([2**31, 0, 0])],
)
def test_counts_that_nobody_has_are_turned_away(counts):
    arrays = {**_encoded(_said()), "class-counts": counts}
    with pytest.raises(PayloadError, match=r"class counts must be 3 whole numbers within 0\.\."):
        _decoded(arrays)


def test_probabilities_without_counts_are_turned_away():
    with pytest.raises(PayloadError, match="class counts must be 3 whole numbers"):
        _decoded({"probs": _encoded(_said())["probs"]})

"""A reply as a table: what it shows is what the bytes say, whatever they were made of."""

import numpy as np
import pytest

from fedkd_flwr.clients.answer_table import MAX_PUBLIC_COLUMNS, answer_columns, answer_table
from fedkd_flwr.errors import PayloadError
from fedkd_flwr.wire.envelope import PublicSpec
from fedkd_flwr.wire.label_codec import encode_labels
from fedkd_flwr.wire.ratio_codec import encode_ratios
from fedkd_flwr.wire.score_codec import decode_scores, encode_scores

PUBLIC = PublicSpec(num_public=4, num_classes=3, fingerprint="ab" * 32)
CLASSES = ("red", "green", "blue")
LABELS = np.array([[0, 2, 1, -1]], dtype=np.int16)


def _columns(arrays, base=None, **words):
    return answer_columns(arrays, public=PUBLIC, classes=CLASSES, server_round=1, base=base or {}, **words)


def test_labels_are_shown_by_name_and_an_abstention_as_nothing():
    arrays = {"labels": encode_labels(LABELS, public=PUBLIC, server_round=1)}
    assert _columns(arrays) == {"label": ["red", "blue", "green", ""]}
    two = np.concatenate([LABELS, LABELS[:, ::-1]])
    arrays = {"labels": encode_labels(two, public=PUBLIC, server_round=1)}
    assert list(_columns(arrays)) == ["label 1", "label 2"]


def test_changes_are_shown_as_the_whole_answer_that_the_server_makes_of_them():
    public = PublicSpec(num_public=4000, num_classes=3, fingerprint="ab" * 32)
    base = np.random.default_rng(0).integers(0, 3, (1, 4000)).astype(np.int16)
    labels = base.copy()
    labels[0, 7] = (labels[0, 7] + 1) % 3
    arrays = {"labels": encode_labels(labels, public=public, server_round=1, base=base)}
    words = {"public": public, "classes": CLASSES, "server_round": 1}
    shown = answer_columns(arrays, base={"labels": base}, **words)["label"]
    assert shown == [CLASSES[label] for label in labels[0]]
    with pytest.raises(PayloadError, match="payload base"):
        answer_columns(arrays, base={}, **words)


def test_bits_are_shown_class_by_class():
    bits = np.array([[1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 0]], dtype=np.int16)
    shown = _columns({"bits": encode_labels(bits, public=PUBLIC.bits, server_round=1)})
    assert shown == {
        "bit of red": [1, 0, 0, 1],
        "bit of green": [0, 1, 0, 1],
        "bit of blue": [0, 0, 1, 0],
    }


def test_scores_are_shown_at_the_precision_at_which_they_leave():
    probs = np.array([[0.7, 0.2, 0.1], [1.0, 0.0, 0.0], [0.1, 0.3, 0.6], [0.25, 0.25, 0.5]])
    sent = encode_scores(probs, public=PUBLIC, server_round=1, kind="probs", bits=2)
    shown = _columns({"probs": sent})
    read = decode_scores(sent, public=PUBLIC, server_round=1, kind="probs")
    assert shown["probs of red"] == read[:, 0].tolist()
    assert shown["probs of red"] != probs[:, 0].tolist()


def test_density_ratios_bring_labels_steps_and_class_counts():
    codes = np.array([[3, 0, 1], [0, 2, 0], [0, 0, 3], [1, 1, 1]], dtype=np.uint8)
    labels, counts = np.array([0, 1, 2, 0], dtype=np.int16), np.array([5, 0, 9])
    words = {"public": PUBLIC, "server_round": 1}
    arrays = {"ratios": encode_ratios(codes, labels, class_counts=counts, **words)}
    more = np.array([[1, 1, 2, 0]], dtype=np.int16)
    arrays["labels"] = encode_labels(more, base=labels[None], **words)
    shown = _columns(arrays, students=2)
    assert shown["density ratio step of red"] == [3, 0, 0, 1]
    assert shown["rows of each class"][0] == "red: 5; green: 0; blue: 9"
    assert (shown["label 1"], shown["label 2"]) == (["red", "green", "blue", "red"], ["green", "green", "blue", "red"])


def test_weights_are_no_table():
    assert _columns({"model.0": np.zeros((2, 2), np.float32)}) == {}


def test_the_table_names_the_rows_asked_and_no_more_columns_than_a_person_can_read():
    names = [f"c{i}" for i in range(MAX_PUBLIC_COLUMNS + 5)]
    values = [[f"{row}.{i}" for i in range(MAX_PUBLIC_COLUMNS)] for row in range(9)]
    header, first, _ = answer_table(np.array([7, 2]), (names, values), {"label": ["a", "b"]})
    assert header[-2:] == ["(5 more columns)", "label"]
    assert (first[:2], first[-1], len(first)) == ([7, "7.0"], "a", len(header))
    assert list(answer_table(np.array([7]), ([], []), {"label": ["a"]})) == [["public row", "label"], [7, "a"]]

"""Replies opened by the auditor say what the party sent, whatever it sent."""

import numpy as np
import pytest

from fedkd_flwr.audit.membership import log_odds
from fedkd_flwr.audit.transcript import Transcript
from fedkd_flwr.baselines.trees import NAMES
from fedkd_flwr.errors import PayloadError
from fedkd_flwr.labels import ABSTAIN
from fedkd_flwr.labels.scores import dequantise
from fedkd_flwr.wire.label_codec import PublicSpec, encode_labels
from fedkd_flwr.wire.prob_codec import encode
from fedkd_flwr.wire.ratio_codec import encode_ratios
from fedkd_flwr.wire.records import Reply
from fedkd_flwr.wire.score_codec import encode_rows, encode_scores

SPEC = PublicSpec(num_public=4, num_classes=3, fingerprint="ab" * 32)


def _said(asked=None, **arrays):
    made = Transcript(spec=SPEC)
    made.add(Reply(node_id=1, party="a", arrays=arrays), asked=asked or {}, server_round=1)
    return made


def _labels(values, **keywords):
    return encode_labels(np.array(values, dtype=np.int16), public=SPEC, **{"server_round": 1, **keywords})


def test_labels_count_as_one_vote_and_no_label_as_none_and_bits_are_read_by_row_and_class():
    bits = np.array([[1, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 0]], dtype=np.int16)
    payload = encode_labels(bits.reshape(1, -1), public=SPEC.bits, server_round=1)
    assert _said(bits=payload).answers.first.tolist() == bits.tolist()
    said = _said(labels=_labels([[0, 1, 2, ABSTAIN]]))
    assert said.kinds == {"labels"}
    assert said.answers.first.tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]]


def test_changes_are_read_from_the_round_before():
    spec = PublicSpec(num_public=400, num_classes=3, fingerprint="ab" * 32)
    one = np.random.default_rng(1).integers(3, size=(1, 400)).astype(np.int16)
    two = one.copy()
    two[0, 7] = (two[0, 7] + 1) % 3
    said = Transcript(spec=spec)
    for server_round, labels, base in ((1, one, None), (2, two, one)):
        payload = encode_labels(labels, public=spec, server_round=server_round, base=base)
        said.add(Reply(node_id=1, party="a", arrays={"labels": payload}), asked={}, server_round=server_round)
    assert payload[3] & 4  # sent as changes
    assert said.answers.last.argmax(axis=1).tolist() == two[0].tolist()
    assert said.answers.first.argmax(axis=1).tolist() == one[0].tolist()


def test_density_ratios_are_read_with_the_labels_beside_them_and_as_changes():
    rng = np.random.default_rng(1)
    codes, students = rng.integers(0, 8, (4, 3)).astype(np.uint8), np.array([[0, 1, 2, 2], [0, 1, 2, 1]], np.int16)
    sent = encode_ratios(codes, students[0], public=SPEC, server_round=1, class_counts=np.array([1, 2, 3]))
    said = _said(ratios=sent, labels=_labels(students[1:], base=students[:1]))
    assert said.kinds == {"ratios", "labels", "class-counts"}
    assert said.class_counts.tolist() == [1, 2, 3]
    assert said.ratios.first.tolist() == codes.tolist()
    assert said.answers.last.argmax(axis=1).tolist() == [0, 1, 2, 1]  # of one kind alone: labels are no steps of ratios
    assert said.answers.last.max() == 1
    spec, labels = SPEC.rows(400), np.tile(students[0], 100)
    many = rng.integers(0, 8, (400, 3)).astype(np.uint8)
    later = many.copy()
    later[2] = 0
    said = Transcript(spec=spec)
    first = encode_ratios(many, labels, public=spec, server_round=1)
    said.add(Reply(node_id=1, party="a", arrays={"ratios": first}), asked={}, server_round=1)
    changes = encode_ratios(later, labels, public=spec, server_round=2, base=(later, labels))
    with pytest.raises(PayloadError):  # a base that the party never sent
        said.add(Reply(node_id=1, party="a", arrays={"ratios": changes}), asked={}, server_round=2)
    changes = encode_ratios(later, labels, public=spec, server_round=2, base=(many, labels))
    said.add(Reply(node_id=1, party="a", arrays={"ratios": changes}), asked={}, server_round=2)
    assert said.ratios.last.tolist() == later.tolist()


def test_probabilities_are_read_with_ratios_and_counts_beside_them_and_as_changes():
    steps = np.array([[15, 0, 0], [0, 15, 0], [5, 5, 5], [0, 7, 8]], np.uint8)
    values = {"probs": steps, "ratios": np.zeros((4, 3), np.uint8), "class-counts": np.array([1, 2, 3])}
    said = _said(**encode(values, public=SPEC, server_round=1, base={}))
    assert said.kinds == {"probs", "ratios", "class-counts"}
    assert said.answers.first == pytest.approx(log_odds(dequantise(steps, 4), "probs"), abs=1e-3)
    later = {**values, "probs": steps[::-1]}
    changes = encode(later, public=SPEC, server_round=2, base=values)
    said.add(Reply(node_id=1, party="a", arrays={"probs": changes["probs"]}), asked={}, server_round=2)
    assert said.answers.last == pytest.approx(log_odds(dequantise(steps[::-1], 4), "probs"), abs=1e-3)


@pytest.mark.parametrize("kind", ["probs", "logits", "scores"])
def test_scores_belong_to_the_rows_asked(kind):
    values = np.array([[0.2, 0.3, 0.5], [0.6, 0.4, 0.0]])
    payload = encode_scores(values, public=SPEC.rows(2), server_round=1, kind=kind)
    rows = np.array([1, 3])
    said = _said({"indices": encode_rows(rows, num_public=4)}, **{kind: payload})
    assert said.answers.first[rows] == pytest.approx(log_odds(values, kind), abs=1e-3)
    assert not said.answers.first[[0, 2]].any()


def test_students_label_all_rows_where_teachers_are_asked_about_some():
    said = _said({"indices": np.array([2], dtype=np.int32)}, labels=_labels([[0, 1, 2, 2]]))
    assert said.answers.first.argmax(axis=1).tolist() == [0, 1, 2, 2]


def test_weights_are_kept_in_order_and_refusals_are_counted():
    said = _said(**{"model.0": np.zeros(2), "model.1": np.ones(3)})
    assert [w.tolist() for w in said.weights[0]] == [[0, 0], [1, 1, 1]]
    said.add(Reply(node_id=1, party="a", code="withheld"), asked={}, server_round=2)
    assert said.refused == ["withheld"]


def test_trees_are_kept_by_round():
    trees = {name: np.full(1, at) for at, name in enumerate(NAMES)}
    said = _said(**trees)
    assert said.kinds == {"trees"}
    assert said.trees == [trees]


def test_class_counts_beside_weights_are_evidence_and_what_is_not_read_is_named():
    said = _said(**{"model.0": np.zeros(2), "class-counts": np.array([4, 0, 2]), "control.0": np.zeros(2)})
    assert said.kinds == {"model", "class-counts", "control, not read"}
    assert said.class_counts.tolist() == [4, 0, 2]


def test_what_cannot_be_read_is_said():
    with pytest.raises(PayloadError, match="cannot read replies that hold 'gradients'"):
        _said(gradients=np.zeros(3, dtype=np.uint8))

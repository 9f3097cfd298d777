from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedkd_flwr.errors import DataError
from fedkd_flwr.labels import (
    ABSTAIN,
    VoteCounter,
    agreement,
    check_labels,
    consistent_labels,
    is_informative,
)

C = 4
label_matrices = st.integers(1, 6).flatmap(
    lambda parties: arrays(np.int16, (parties, 9), elements=st.integers(ABSTAIN, C - 1))
)


def _count(matrix: np.ndarray) -> VoteCounter:
    counter = VoteCounter(num_public=matrix.shape[1], num_classes=C)
    for labels in matrix:
        counter.add(labels)
    return counter


@given(label_matrices)
def test_streamed_counts_equal_counting_the_whole_matrix_at_once(matrix):
    counted, given_by = _count(matrix), matrix[:, :, None] == np.arange(C)
    assert (counted.votes == given_by.sum(axis=0)).all()
    assert counted.class_voters.tolist() == given_by.any(axis=1).sum(axis=0).tolist()  # parties, not rows


def test_many_voters_of_changing_weights_are_counted_exactly_also_where_counts_are_read_between():
    """One byte gathers 255 votes of one weight; then, and where the weight changes, they are settled."""
    rng = np.random.default_rng(3)
    counter, expected = VoteCounter(num_public=7, num_classes=C), np.zeros((7, C), dtype=np.int64)
    for k in range(700):
        weight = 1 if k < 520 else int(rng.integers(0, 3))
        labels = rng.integers(ABSTAIN, C, 7).astype(np.int16)
        counter.add(labels, weight=weight)
        cast = labels != ABSTAIN
        expected[np.flatnonzero(cast), labels[cast]] += weight
        if k % 101 == 0:
            assert counter.votes.tolist() == expected.tolist()
    assert counter.votes.tolist() == expected.tolist()


@given(arrays(np.int16, (3, 8), elements=st.integers(0, C - 1)))
def test_consistent_label_is_kept_exactly_where_all_students_agree(students):
    kept = consistent_labels(students)
    agree = (students == students[0]).all(axis=0)
    assert kept.dtype == np.int16
    assert (kept[agree] == students[0][agree]).all()
    assert (kept[~agree] == ABSTAIN).all()


@pytest.mark.parametrize(
    ("labels", "expected"),
    [([0, 0, 0], False), ([0, -1, 0], False), ([-1, 0], False), ([-1, -1, -1], False), ([0, 1, -1], True)],
)
def test_a_party_is_informative_only_with_two_classes_among_its_votes(labels, expected):
    assert is_informative(np.array(labels)) is expected


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.zeros(3, dtype=np.int16), r"labels must be 2 labels, one for each row in their order, got shape \(3,\)"),
        (np.array([0.0, np.nan]), "labels must hold integers, got dtype float64"),
        (np.zeros((1, 1, 2), dtype=np.int16), r"one for each row in their order, got shape \(1, 1, 2\)"),
        (np.array([0, 4]), r"labels must lie within -1..3, got 4 at row 1 \(1 such row\)"),
        (np.array([-1, 7]), r"labels must lie within -1..3, got 7"),
        (np.array([-2, -3]), r"labels must lie within -1..3, got -2 at row 0 \(2 such rows\)"),
    ],
)
def test_bad_labels_are_refused_with_rule_and_value(labels, message):
    with pytest.raises(DataError, match=message):
        check_labels(labels, num_rows=2, num_classes=C)


def test_where_every_row_needs_a_class_none_is_a_row_without_one_and_any_shape_will_do():
    assert check_labels(np.zeros((1, 0), int), num_classes=3, least=0).shape == (1, 0)
    assert check_labels(np.array([[[0, 2]]]), num_classes=3, least=0).tolist() == [[[0, 2]]]
    with pytest.raises(
        DataError, match=r"^y must lie within 0\.\.2, got -1 at row 1 \(1 such row\)\. Say it\."
    ) as caught:
        check_labels(np.array([[0, -1]]), num_classes=3, least=0, name="y", way_out="Say it.")
    assert caught.value.code == "class-outside-schema"


def test_labels_of_one_or_several_students_come_back_as_int16_and_are_not_copied_if_they_are_so():
    for labels in (np.array([[0, 3], [-1, 2]]), np.array([0, 3], dtype=np.uint8)):
        checked = check_labels(labels, num_rows=2, num_classes=C)
        assert (checked.dtype, checked.tolist()) == (np.int16, labels.tolist())
    right = np.array([0, 3], dtype=np.int16)
    assert np.shares_memory(check_labels(right, num_rows=2, num_classes=C), right)


def test_voters_are_counted_from_none_and_one_row_is_enough():
    counter = VoteCounter(num_public=1, num_classes=2)
    assert (counter.class_voters.dtype, counter.votes.dtype) == (np.int32, np.int32)
    for voters in (1, 2, 3):
        counter.add(np.array([1]))
        assert (counter.class_voters.tolist(), counter.votes.tolist()) == ([0, voters], [[0, voters]])


def test_agreement_looks_at_labelled_rows_only():
    assert agreement(np.array([0, 1, 0]), np.array([0, 0, ABSTAIN])) == 0.5
    assert agreement(np.array([0, 1, 0, 2]), np.array([0, 0, ABSTAIN, 1])) == pytest.approx(1 / 3)
    assert np.isnan(agreement(np.array([0]), np.array([ABSTAIN])))


@pytest.mark.parametrize(
    ("rows", "classes", "match"), [(3, 1, "num_classes must be >= 2"), (0, 2, "num_public must be")]
)
def test_a_vote_needs_two_classes_and_a_row(rows, classes, match):
    with pytest.raises(DataError, match=match):
        VoteCounter(num_public=rows, num_classes=classes)

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedkd_flwr.errors import DataError
from fedkd_flwr.labels import (
    ABSTAIN,
    HALF,
    VoteCounter,
    agreement,
    check_labels,
    consistent_labels,
    is_informative,
    voter_weights,
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
    expected = (matrix[:, :, None] == np.arange(C)).sum(axis=0)
    assert (_count(matrix).votes == expected).all()


@given(label_matrices, st.randoms())
def test_votes_do_not_depend_on_the_order_of_parties(matrix, random):
    order = list(range(len(matrix)))
    random.shuffle(order)
    assert (_count(matrix).votes == _count(matrix[order]).votes).all()


@given(label_matrices)
def test_class_voters_counts_parties_not_rows(matrix):
    expected = [(matrix == c).any(axis=1).sum() for c in range(C)]
    assert _count(matrix).class_voters.tolist() == expected


def test_weight_counts_each_label_as_many_votes():
    counter = VoteCounter(num_public=2, num_classes=2)
    counter.add(np.array([1, ABSTAIN]), weight=3)
    assert counter.votes.tolist() == [[0, 3], [0, 0]]


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
    assert (kept[agree] == students[0][agree]).all()
    assert (kept[~agree] == ABSTAIN).all()


def test_one_student_is_always_consistent():
    students = np.array([[2, 0, 1]], dtype=np.int16)
    assert consistent_labels(students).tolist() == [2, 0, 1]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [([0, 0, 0], False), ([0, -1, 0], False), ([-1, 0], False), ([-1, -1, -1], False), ([0, 1, -1], True)],
)
def test_a_party_is_informative_only_with_two_classes_among_its_votes(labels, expected):
    assert is_informative(np.array(labels)) is expected


def test_memory_is_rows_times_classes_whatever_the_number_of_parties():
    counter = VoteCounter(num_public=1000, num_classes=10)
    for _ in range(50):
        counter.add(np.zeros(1000, dtype=np.int16))
    assert counter.votes.nbytes == 1000 * 10 * 4


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


def test_consistent_labels_are_int16_whatever_the_students_are():
    assert consistent_labels(np.array([[0, 1], [0, 0]], dtype=np.int64)).dtype == np.int16


def test_only_a_party_of_one_class_has_its_votes_discounted():
    answers = [np.array([[1, 1]]), np.array([[0, 1]]), np.array([[2, ABSTAIN]])]
    weights = {rule: voter_weights(answers, uninformative=rule) for rule in ("count", "half", "leave-out")}
    assert weights == {"count": [HALF, HALF, HALF], "half": [1, HALF, 1], "leave-out": [0, HALF, 0]}


def test_voters_are_counted_from_none_and_one_row_is_enough():
    counter = VoteCounter(num_public=1, num_classes=2)
    assert (counter.class_voters.dtype, counter.votes.dtype) == (np.int32, np.int32)
    for voters in (1, 2, 3):
        counter.add(np.array([1]))
        assert (counter.class_voters.tolist(), counter.votes.tolist()) == ([0, voters], [[0, voters]])


def test_one_class_leaves_nothing_to_vote_on():
    with pytest.raises(DataError, match="num_classes must be >= 2, got 1"):
        VoteCounter(num_public=3, num_classes=1)


def test_an_empty_public_set_is_refused():
    with pytest.raises(DataError, match="num_public must be >= 1, got 0"):
        VoteCounter(num_public=0, num_classes=2)


def test_agreement_looks_at_labelled_rows_only():
    assert agreement(np.array([0, 1, 0]), np.array([0, 0, ABSTAIN])) == 0.5
    assert agreement(np.array([0, 1, 0, 2]), np.array([0, 0, ABSTAIN, 1])) == pytest.approx(1 / 3)
    assert np.isnan(agreement(np.array([0]), np.array([ABSTAIN])))

"""Votes judged by rows whose labels the server knows: oracle, hostile answers, and what may be drawn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkd_flwr.errors import ConfigError
from fedkd_flwr.labels import ABSTAIN
from fedkd_flwr.labels.known import LEAST_KNOWN, KnownRows, draw_known, known_vote

CLASSES, ROWS, KNOWN = 3, 600, 120
TRUTH = np.random.default_rng(5).integers(CLASSES, size=ROWS).astype(np.int16)
GOLD = draw_known(TRUTH, KNOWN, num_classes=CLASSES, rng=np.random.default_rng(6))
REST = np.setdiff1d(np.arange(ROWS), GOLD.rows)


def _party(right, seed):
    """Return labels of which this share is right, the others drawn."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(ROWS) < right, TRUTH, rng.integers(CLASSES, size=ROWS)).astype(np.int16)


def _vote(answers, **keywords):
    return known_vote(answers, GOLD, num_classes=CLASSES, ties="lowest", **keywords)


def _right(found):
    return (found.labels[REST] == TRUTH[REST]).mean()


HONEST = [_party(0.6, seed) for seed in range(7)]
LIES = {
    "the next class": [(one + 1) % CLASSES for one in [_party(0.6, seed) for seed in (7, 8, 9)]],
    "together": [(_party(0.9, 7) + 1) % CLASSES] * 3,
    "one class": [np.full(ROWS, 2, np.int16)] * 3,
    "one class but on one row": [np.where(np.arange(ROWS) == 4, 1, 2).astype(np.int16)] * 3,
    "anything": [_party(0.0, seed) for seed in (7, 8, 9)],
    "nothing": [np.full(ROWS, ABSTAIN, np.int16)] * 3,
}


@pytest.mark.parametrize("lie", LIES)
def test_three_liars_of_ten_cost_next_to_nothing_whatever_they_say(lie):
    assert _right(_vote([*HONEST, *LIES[lie]])) > _right(_vote(HONEST)) - 0.01


def test_eleven_liars_of_eighteen_that_say_the_same_are_read_the_other_way_round():
    """No vote that rests on agreement survives a majority that lies together."""
    assert _right(_vote([*HONEST, *[(TRUTH + 1) % CLASSES] * 11])) > 0.99


def test_parties_of_one_class_are_no_burden_as_in_a_majority():
    skewed = [np.full(ROWS, c, np.int16) for c in (0, 0, 0, 0, 1, 1, 1, 1, 1)]
    assert np.array_equal(_vote([*HONEST, *skewed]).labels, _vote(HONEST).labels)


def test_the_matrix_is_counted_as_written_down_by_hand():
    """Two classes, four known rows: 0, 0, 1, 1, of which the party calls 0, 1, 1, 1; it says 0 on half of all rows."""
    labels = np.array([0, 1, 1, 1, 0, 0], np.int16)
    known = KnownRows(np.arange(4), np.array([0, 0, 1, 1], np.int16))
    found = known_vote([labels], known, num_classes=2, ties="lowest")
    # P(says 0 | class 0) = (1 + 2 * 0.5) / (2 + 2), P(says 0 | class 1) = (0 + 1) / 4; P(says 1 | .) = 0.5 and 0.75
    assert found.labels.tolist() == [0, 1, 1, 1, 0, 0]
    # without itself, a row is said so: (0 + 1) / 3, (0 + 1) / 3, (1 + 1) / 3, (1 + 1) / 3, each over a share of 0.5
    assert found.gains[0] == pytest.approx(np.log([2 / 3, 2 / 3, 4 / 3, 4 / 3]).mean())
    assert found.right.tolist() == [0.75]
    assert found.by_chance.tolist() == [0.5]  # 1/4 says 0, 3/4 say 1, and each class has half of the rows


def test_several_arrays_of_a_party_are_shares_of_one_vote():
    one = _party(0.7, 1)
    assert np.array_equal(_vote([np.stack([one, one])]).labels, _vote([one]).labels)
    assert _vote([np.stack([one, one])]).gains == pytest.approx(_vote([one]).gains)


def test_who_tells_nothing_does_not_count_and_all_count_where_nobody_tells_anything():
    found = _vote([*HONEST, *LIES["one class"]])
    assert (found.gains > 0).tolist() == [True] * 7 + [False] * 3
    constant = _vote([np.full(ROWS, 1, np.int16)] * 2)
    assert not (constant.gains > 0).any()
    assert len(np.unique(constant.labels)) == 1  # the commonest known class


def test_a_row_on_which_nobody_who_counts_has_a_label_stays_unlabelled():
    silent = [one.copy() for one in HONEST]
    for one in silent:
        one[:3] = ABSTAIN
    found = _vote(silent)
    assert (found.labels[:3] == ABSTAIN).all()
    assert (found.labels[3:] != ABSTAIN).all()


def test_who_is_right_less_often_than_chance_is_told_from_who_tells_nothing():
    found = _vote([*HONEST, *LIES["together"], *LIES["one class"]])
    assert found.swapped(KNOWN).tolist() == [False] * 7 + [True] * 3 + [False] * 3


@given(st.integers(0, 2**32 - 1), st.integers(2, 6), st.integers(1, 5))
def test_any_answers_give_classes_or_no_label_and_finite_figures(seed, classes, parties):
    rng = np.random.default_rng(seed)
    truth = np.concatenate([np.repeat(np.arange(classes), 4), rng.integers(classes, size=20)]).astype(np.int16)
    known = KnownRows(np.arange(4 * classes), truth[: 4 * classes])
    answers = [rng.integers(-1, classes, size=(2, len(truth))).astype(np.int16) for _ in range(parties)]
    found = known_vote(answers, known, num_classes=classes, rng=rng)
    assert found.labels.dtype == np.int16
    assert ((found.labels >= ABSTAIN) & (found.labels < classes)).all()
    assert np.isfinite([found.gains, found.right, found.by_chance]).all()


@given(st.permutations(range(CLASSES)))
def test_names_of_classes_do_not_matter(order):
    renamed = np.array(order, np.int16)
    known = KnownRows(GOLD.rows, renamed[GOLD.labels])
    found = known_vote([renamed[one] for one in HONEST], known, num_classes=CLASSES, ties="lowest")
    same = found.labels == renamed[_vote(HONEST).labels]
    assert same.mean() > 0.999  # ties go to the lowest name


def test_known_rows_are_drawn_from_those_with_a_label_each_class_often_enough():
    truth = np.full(ROWS, ABSTAIN, np.int16)
    truth[100:200] = TRUTH[100:200]
    found = draw_known(truth, 60, num_classes=CLASSES, rng=np.random.default_rng(1))
    assert len(np.unique(found.rows)) == 60
    assert found.rows.min() >= 100
    assert found.rows.max() < 200
    assert np.array_equal(found.labels, TRUTH[found.rows])
    with pytest.raises(ConfigError, match=r"known-rows must be at most 100 \(rows with a label\), got 101"):
        draw_known(truth, 101, num_classes=CLASSES, rng=np.random.default_rng(1))
    with pytest.raises(ConfigError, match=f"hold {LEAST_KNOWN} rows of each class, got 0 of class number 3"):
        draw_known(truth, 60, num_classes=CLASSES + 1, rng=np.random.default_rng(1))

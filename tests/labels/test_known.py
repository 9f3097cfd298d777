"""Votes judged by rows whose labels the server knows: oracle, hostile answers, and what may be drawn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkd_flwr.errors import ConfigError
from fedkd_flwr.labels import ABSTAIN
from fedkd_flwr.labels.known import (
    LEAST_KNOWN,
    KnownRows,
    best_by_known_rows,
    draw_known,
    judged_consensus,
    known_vote,
    shares_right,
)

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


def _by_hand(labels, known, classes):
    """Return one party's score of each row and class, row by row: what a known row says is forgotten there."""
    usual = [np.mean(labels == said) for said in range(classes)]

    def says(said, c, but):
        rows = [r for r, y in zip(known.rows, known.labels, strict=True) if y == c and r != but]
        return (sum(labels[r] == said for r in rows) + 2 * usual[said]) / (len(rows) + 2)

    told = [0.0] * classes
    for row, y in zip(known.rows, known.labels, strict=True):
        told[labels[row]] += np.log(says(labels[row], y, row) / usual[labels[row]])
    prior = [(np.sum(known.labels == c) + 1) / (len(known.labels) + classes) for c in range(classes)]
    truth = dict(zip(known.rows.tolist(), known.labels.tolist(), strict=True))
    scores = np.log(np.tile(prior, (len(labels), 1)))
    for row, said in enumerate(labels):
        if told[said] > 1:
            scores[row] += [np.log(says(said, c, row if truth.get(row) == c else None)) for c in range(classes)]
    return scores, sum(one for one in told if one > 1) / len(known.rows)


def test_the_vote_is_that_of_the_formulas_one_row_at_a_time():
    one = _party(0.5, 3)
    scores, gain = _by_hand(one, GOLD, CLASSES)
    found = _vote([one])
    assert gain > 0
    assert found.gains[0] == pytest.approx(gain)
    assert np.array_equal(found.labels, scores.argmax(axis=1))


def test_a_label_that_known_rows_say_nothing_of_counts_for_nothing():
    """A liar could mark a few rows with it, and see from the consensus whether one of them is known."""
    marked = [GOLD.rows[0], *REST[:5]]
    marking = np.where(HONEST[0] == 1, 0, HONEST[0])
    marking[marked] = 1
    assert np.array_equal(_vote([*HONEST, marking]).labels[marked], _vote(HONEST).labels[marked])


def test_a_known_row_is_labelled_as_if_it_were_not_known():
    """Labels drawn by lot say nothing: were known rows judged by their own label, they would be right more often."""
    by_lot = [_party(0.0, seed) for seed in range(40)]
    shares = [(_vote([one]).labels[GOLD.rows] == GOLD.labels).mean() - 1 / CLASSES for one in by_lot]
    assert np.mean(shares) < 0.05
    found = _vote(HONEST)
    assert abs((found.labels[GOLD.rows] == GOLD.labels).mean() - _right(found)) < 0.06


def test_several_arrays_of_a_party_are_shares_of_one_vote():
    one = _party(0.7, 1)
    assert np.array_equal(_vote([np.stack([one, one])]).labels, _vote([one]).labels)
    assert _vote([np.stack([one, one])]).gains == pytest.approx(_vote([one]).gains)


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
    with pytest.raises(ConfigError, match=r"known-rows must be within 9\.\.100 \(rows with a label.*got 101"):
        draw_known(truth, 101, num_classes=CLASSES, rng=np.random.default_rng(1))
    with pytest.raises(ConfigError, match=r"known-rows must be within 9\.\.100 .* got 8"):
        draw_known(truth, 8, num_classes=CLASSES, rng=np.random.default_rng(1))
    with pytest.raises(ConfigError, match=r"known-rows must be within 0\.\.0 .* got 8"):
        draw_known(np.full(ROWS, ABSTAIN, np.int16), 8, num_classes=CLASSES, rng=np.random.default_rng(1))


@given(st.integers(0, 2**32 - 1))
def test_a_rare_class_is_drawn_often_enough_to_be_judged_and_not_at_all_where_too_few_are_known(seed):
    truth = np.zeros(ROWS, np.int16)
    truth[:3], truth[3:5], truth[5:300] = 1, 2, 3
    found = draw_known(truth, 40, num_classes=CLASSES + 2, rng=np.random.default_rng(seed))
    counts = np.bincount(found.labels, minlength=CLASSES + 2)
    assert counts[1] == LEAST_KNOWN
    assert counts[2] == counts[4] == 0
    assert counts.sum() == 40
    assert min(counts[0], counts[3]) >= LEAST_KNOWN


def test_another_rule_must_be_better_by_more_than_chance():
    """Of 120 rows, one that is right on two more may be so by luck; one that is right on twenty more is not."""
    base, lucky, better = (np.array(TRUTH) for _ in range(3))
    base[GOLD.rows[:30]] = ABSTAIN
    lucky[GOLD.rows[28:56]] = ABSTAIN
    better[GOLD.rows[:10]] = ABSTAIN
    assert shares_right({"base": base, "lucky": lucky}, GOLD)["lucky"] > 0.75
    assert best_by_known_rows({"base": base, "lucky": lucky}, GOLD) == "base"
    assert best_by_known_rows({"base": base, "better": better, "lucky": lucky}, GOLD) == "better"


def _rare(sick):
    """Return 200 known rows of which so many are of class 1, the first ones."""
    truth = (np.arange(200) < sick).astype(np.int16)
    return KnownRows(np.arange(200), truth)


def _says_rare(found, false_alarms):
    """Return labels that find so many of the first rows, and say class 1 of so many of the last rows wrongly."""
    labels = np.zeros(200, np.int16)
    labels[:found] = 1
    labels[200 - false_alarms :] = 1
    return labels


def test_where_a_class_is_rare_a_rule_that_never_finds_it_does_not_win_by_the_rows_of_the_others():
    """It is right on 92 % of the rows: more than a rule that finds three in four of the rare class."""
    known, finds, nobody = _rare(16), _says_rare(12, 30), np.zeros(200, np.int16)
    rules = {"finds": finds, "nobody": nobody}
    plain = shares_right(rules, known)
    assert plain["nobody"] > plain["finds"]
    assert best_by_known_rows(rules, known) == "finds"
    assert best_by_known_rows({"nobody": nobody, "finds": finds}, known) == "finds"
    by_class = shares_right(rules, known, by_class=True)
    assert by_class == pytest.approx({"finds": (12 / 16 + 154 / 184) / 2, "nobody": 0.5})


def test_one_rare_row_more_is_luck_and_does_not_choose_the_rule():
    known, base = _rare(16), _says_rare(10, 20)
    lucky, better = base.copy(), base.copy()
    lucky[:16] = np.arange(16) >= 5  # finds 11, of which 5 are among the other's 10
    better[:16] = np.arange(16) >= 1
    assert best_by_known_rows({"base": base, "lucky": lucky}, known) == "base"
    assert best_by_known_rows({"base": base, "better": better}, known) == "better"


def test_a_judged_consensus_says_by_which_figure_and_what_the_commonest_class_has():
    options = {"rule": "majority", "own": None, "num_classes": 2, "ties": "lowest"}
    rare, even = _rare(16), _rare(100)
    for known in (rare, even):
        best = judged_consensus(known.labels, [known.labels], known, **options)
        assert (best.class_shares is None) == (known is even)
        assert best.commonest == pytest.approx(0.5 if known is even else 0.92)
        assert best.shares["majority"] == 1.0

"""Who confirms whom: liars against honest parties of all kinds, and where agreement cannot tell."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkd_flwr.labels import confirmed as confirmed_module
from fedkd_flwr.labels.confirmed import (
    Said,
    alone,
    at_odds,
    can_tell,
    confirmed,
    confirmed_by_ratios,
    contradicted,
    trusts,
)

ROWS, CLASSES = 200, 5
NAN = float("nan")
RNG = np.random.default_rng(1)
TRUTH = RNG.integers(CLASSES, size=ROWS)


def test_correlations_equal_numpys_where_all_judge_alike():
    dense = RNG.random((3, 40, 2)) + np.arange(40)[:, None] / 40  # all above 0
    said = [Said(np.arange(80), one.reshape(-1), np.ones(2)) for one in dense]
    # equal judges stay equal only in the first step, so one party judges and the other two do not
    said = [one._replace(judges=np.full(2, float(k == 0))) for k, one in enumerate(said)]
    found = confirmed(said, num_public=40, weights=np.ones(3))
    for k in (1, 2):
        by_class = [np.corrcoef(dense[k][:, c], dense[0][:, c])[0, 1] for c in range(2)]
        assert found[k] == pytest.approx(np.average(by_class, weights=dense[k].sum(axis=0)))
    assert np.isnan(found[0])  # nobody judges the judge
    assert trusts(np.array([np.nan, np.nan])).tolist() == [1.0, 1.0]


def test_nobody_confirms_itself():
    agreed, own = np.array([0, 1] * 20), np.array([0, 0, 1, 1] * 10)  # not correlated at all
    said = [Said(np.arange(40) * 2 + labels, np.ones(40), np.ones(2)) for labels in (agreed, agreed, own)]
    assert confirmed(said, num_public=40, weights=np.ones(3)).round(6).tolist() == [1.0, 1.0, 0.0]


def _knows(cls, rows, *, num_classes=CLASSES, judges=None, value=1.0):
    """A party that knows one class and says it of these rows."""
    own = np.eye(num_classes)[cls] if judges is None else judges
    return Said(np.asarray(rows) * num_classes + cls, np.full(len(rows), value), own)


def test_contradictions_equal_numpys_correlation_with_a_class_less_half_of_the_others():
    # the first two judge both classes and the third none; after one step all judges count alike
    dense = RNG.random((3, 40, 2)) + np.arange(40)[:, None] / 40
    said = [Said(np.arange(80), one.reshape(-1), np.full(2, float(k < 2))) for k, one in enumerate(dense)]
    found = confirmed(said, num_public=40, weights=np.ones(3), contradictions=True, steps=1)
    for k, judges in ((0, [1]), (1, [0]), (2, [0, 1])):
        others = dense[judges].sum(axis=0)
        by_class = [np.corrcoef(dense[k][:, c], others[:, c] - others[:, 1 - c] / 2)[0, 1] for c in range(2)]
        sums = dense[k].sum(axis=0)
        assert found[k] == pytest.approx(np.average(np.clip(by_class, 0, 1), weights=sums)), k


def test_where_nobody_is_at_odds_a_party_alone_with_its_class_does_not_suffer_from_similar_ones():
    rows = [np.flatnonzero(c == TRUTH) for c in range(CLASSES)]
    # the holders of classes 0 to 2 each, twice, and one of class 3, whose rows look like class 0 to the others
    said = [_knows(c, np.r_[rows[c], rows[3]] if c == 0 else rows[c]) for c in (0, 0, 1, 1, 2, 2)]
    found = confirmed_by_ratios([*said, _knows(3, rows[3])], num_public=ROWS, weights=np.ones(7))
    assert np.isnan(found[6])
    assert (found[:6] > 0.99).all()


@pytest.mark.parametrize("value", [1.0, 0.1, 1 / 3])
def test_liars_that_say_one_class_everywhere_do_not_silence_its_only_honest_holder(value):
    holders = [_knows(c, np.flatnonzero(c == TRUTH)) for c in range(CLASSES)]
    liars = [_knows(0, np.arange(ROWS), value=value) for _ in range(3)]  # constants, whose variance is rounding alone
    found = confirmed_by_ratios([*holders, *liars], num_public=ROWS, weights=np.ones(8))
    assert can_tell(found)  # the others' holders are confirmed too: what they say is what nobody else claims
    assert (trusts(found)[:5] == 1.0).all()
    assert (found[5:] < 1e-9).all()


def test_who_alone_knows_a_class_counts_twice_what_the_others_leave_of_the_correlation():
    dense = RNG.random((3, 60))
    said = [Said(np.arange(60) * 2 + c, one, np.eye(2)[c]) for c, one in zip((0, 1, 1), dense, strict=True)]
    said[0] = said[0]._replace(values=dense[0] + 0.3 * (2 - dense[1] - dense[2]))
    found = confirmed(said, num_public=60, weights=np.ones(3), contradictions=True, steps=1)
    left = np.corrcoef(said[0].values, -dense[1] - dense[2])[0, 1]
    assert 0.1 < left < 0.5
    assert found[0] == pytest.approx(2 * left)


def _says(labels, num_classes, rows=None, *, value=3.0):
    """A party that gives each row a class, or these rows, and knows the classes that it says."""
    rows = np.arange(len(labels)) if rows is None else rows
    knows = np.isin(np.arange(num_classes), labels[rows]).astype(float)
    return Said(rows * num_classes + labels[rows], np.full(len(rows), value), knows)


@pytest.mark.parametrize("classes", [2, 5])
def test_three_liars_that_say_the_same_do_not_outweigh_seven_noisy_parties(classes):
    rng = np.random.default_rng(3)
    truth = rng.integers(classes, size=600)
    honest = [np.where(rng.random(600) < 0.5, truth, rng.integers(classes, size=600)) for _ in range(7)]
    said = [_says(labels, classes) for labels in [*honest, *[(truth + 1) % classes] * 3]]
    assert at_odds(said, num_public=600, weights=np.ones(10)).tolist() == [False] * 7 + [True] * 3


def test_nobody_is_at_odds_where_half_would_be():
    labels = np.arange(100) % 2
    camps = [_says(one, 2) for one in (labels, labels, 1 - labels, 1 - labels)]
    assert not at_odds(camps, num_public=100, weights=np.ones(4)).any()
    assert at_odds(camps[:3], num_public=100, weights=np.ones(3)).tolist() == [False, False, True]


SEVEN = np.arange(700) % 7
ONE_EACH = [_says(SEVEN, 7, np.flatnonzero(c == SEVEN)) for c in range(7)]


def _contradicted(said, num_public=700):
    return contradicted(said, num_public=num_public, weights=np.ones(len(said)))


@pytest.mark.parametrize("lie", [(SEVEN + 1) % 3, SEVEN * 0])
def test_who_says_another_class_of_rows_that_each_other_party_is_sure_of_is_contradicted(lie):
    assert _contradicted([*ONE_EACH, *[_says(lie, 7)] * 3]).tolist() == [False] * 7 + [True] * 3


def test_silence_on_a_third_of_the_rows_that_makes_the_others_louder_is_no_way_out():
    loud = _says((SEVEN + 1) % 7, 7, np.flatnonzero(np.arange(700) % 20 >= 7), value=1 / 0.65)
    assert _contradicted([*ONE_EACH, *[loud] * 3]).tolist() == [False] * 7 + [True] * 3
    quiet = loud._replace(values=loud.values * 0.65)  # and so it was counted once: .65 of the judges' rows
    assert not _contradicted([*ONE_EACH, *[quiet] * 3]).any()


@pytest.mark.parametrize(
    "others",
    [
        [_says(SEVEN * 0, 7, np.flatnonzero(SEVEN > 4))] * 3,  # about few rows
        [_says((SEVEN + 1) % 3, 7)] * 7,  # half of all would be contradicted
        [_says(SEVEN, 7)] * 3,  # nobody says otherwise
        [_says(np.where(np.arange(700) < 350, SEVEN, (SEVEN + 1) % 7), 7, value=1.0)] * 3,  # of half of their rows
    ],
)
def test_nobody_is_contradicted(others):
    assert not _contradicted([*ONE_EACH, *others]).any()


@pytest.mark.parametrize("louder", [2.0, 1.0])
def test_whom_the_others_confirm_is_not_contradicted(louder):
    """The holder of a broad class says it also of the rare rows that the others are sure of, but half as loudly."""
    frequent = SEVEN < 5
    broad = Said(np.arange(700) * 7, np.where(frequent, louder, 1.0), np.eye(7)[0])
    others = [_says(np.where(frequent, 0, SEVEN), 7, value=np.where(frequent, 1.0, 3.0))] * 5
    # what says the same of every row is confirmed by nothing
    assert _contradicted([broad, *others]).tolist() == [louder == 1.0] + [False] * 5


def test_of_two_classes_nobody_is_contradicted_for_whoever_knows_one_says_it_of_similar_rows():
    truth = np.arange(200) % 2
    assert not _contradicted([*[_says(truth, 2)] * 7, *[_says(1 - truth, 2)] * 3], 200).any()


def test_words_of_which_a_party_is_not_sure_contradict_nobody():
    quiet = [one._replace(values=one.values * 0.99) for one in ONE_EACH]
    assert not _contradicted([*quiet, *[_says((SEVEN + 1) % 3, 7)] * 3]).any()


@pytest.mark.parametrize(
    ("own", "beside", "found"),
    [
        (1.0, 0.09, [0]),  # of its class the second knows too little
        (1.0, 0.1, []),
        (0.99, 0.0, []),  # it claims a class that nobody else knows, of a few of its rows
    ],
)
def test_who_alone_knows_a_class_that_is_an_equal_share_of_its_rows_is_told(own, beside, found):
    judges = np.array([[own, 0.0, 1.0], [beside, 1.0, 1.0], [0.0, 1.0, 0.0]])
    said = [_knows(0, [1], num_classes=3, judges=one) for one in judges]
    assert np.flatnonzero(alone(said)).tolist() == found


@given(st.integers(1, 4), st.floats(1, 1e6))
def test_no_minority_that_says_the_same_makes_honest_parties_contradicted(liars, loud):
    rng = np.random.default_rng(liars)
    truth = rng.integers(4, size=200)
    honest = [_says(np.where(rng.random(200) < 0.8, truth, rng.integers(4, size=200)), 4) for _ in range(liars + 1)]
    lie = _says((truth + 1) % 4, 4)
    found = _contradicted([*honest, *[lie._replace(values=lie.values * loud)] * liars], 200)
    assert not found[: liars + 1].any()


def test_one_odd_row_makes_no_constant_ratio_informative():
    honest = [_knows(c, np.flatnonzero(c == TRUTH)) for c in (0, 1, 2, 3, 4) * 2]
    odd = int(np.flatnonzero(TRUTH == 4)[0])
    liar = np.append(np.delete(np.arange(ROWS), odd) * CLASSES, odd * CLASSES + 4)  # class 0, but once class 4: right
    said = Said(liar, np.ones(ROWS), np.eye(CLASSES)[0])
    found = confirmed([*honest, said], num_public=ROWS, weights=np.ones(11))
    assert (found[:10] > 0.9).all()
    assert found[10] < 0.02  # without the rule .03


@given(st.floats(0.01, 4), st.integers(30, 500), st.booleans())
def test_a_constant_is_confirmed_by_nothing_whatever_its_rounding(value, rows, contradictions):
    said = [Said(np.arange(rows) * 3, np.full(rows, x, dtype=np.float32), np.eye(3)[0]) for x in (value, 1.7, 1.0)]
    found = confirmed(said, num_public=rows, weights=np.ones(3), contradictions=contradictions, steps=1)
    assert found.tolist() == [0.0] * 3


def test_a_large_party_that_only_holders_of_the_other_class_know_keeps_its_trust():
    truth = np.arange(300) % 4 == 0  # class 1 is a quarter
    class_0, class_1 = np.flatnonzero(~truth), np.flatnonzero(truth)
    tiny = [_knows(0, class_0[k::60], num_classes=2, value=0.1) for k in range(3)]  # a few rows each: nearly silent
    honest = [_knows(0, class_0, num_classes=2), *(_knows(1, class_1, num_classes=2) for _ in range(4)), *tiny]
    flipped = [_knows(1, class_0, num_classes=2) for _ in range(2)]
    counted = trusts(confirmed_by_ratios([*honest, *flipped], num_public=300, weights=np.ones(10)))
    assert (counted[:5] > 0.9).all()
    assert (counted[8:] < 0.1).all()


@pytest.mark.parametrize(
    ("confirmed_parts", "others", "tells"),
    [
        ([0.1] * 3, 3, True),
        ([0.1] * 3, 4, False),
        ([0.1] * 2, 0, False),
        ([0.099] * 3, 0, False),
        ([0.9] * 9, 9, True),
    ],
)
def test_who_is_wrong_can_be_told_where_half_of_the_parties_and_three_are_confirmed(confirmed_parts, others, tells):
    assert (
        can_tell(np.array([*confirmed_parts, *[0.0, np.nan, np.nan, np.nan, 0.0, 0.0, 0.0, 0.0, 0.0][:others]]))
        is tells
    )


@pytest.mark.parametrize(
    ("first", "found", "asked_again"),
    [
        ([1.0, 1.0, 1.0, 0.36], [1.0, 1.0, 1.0, 0.36], False),  # 2 x .36 squared is above a half
        ([1.0, 1.0, 1.0, 0.35], [1.0, 1.0, 1.0, 0.35], True),
        ([1.0, 1.0, 1.0, NAN], [1.0, 1.0, 1.0, NAN], False),
        ([1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, NAN], True),  # its judges have lost their votes
    ],
)
def test_contradictions_count_where_one_has_less_than_half_a_vote_or_its_judges_lost_theirs(
    monkeypatch, first, found, asked_again
):
    asked = []

    def confirmed_so(said, *, num_public, weights, steps=10, contradictions=False):
        asked.append(contradictions)
        return np.array(first if steps == 1 else found)

    monkeypatch.setattr(confirmed_module, "confirmed", confirmed_so)
    result = confirmed_by_ratios([_knows(0, [1])] * 4, num_public=ROWS, weights=np.full(4, 2.0))
    assert any(asked) is asked_again
    assert np.array_equal(result, found, equal_nan=True)

"""Who confirms whom: liars against honest parties of all kinds, and where agreement cannot tell."""

from __future__ import annotations

import numpy as np
import pytest

from fedkd_flwr.labels import trust
from fedkd_flwr.labels.trust import label_trusts, nearly_alike, steadied_weights, trusted_weights
from fedkd_flwr.labels.voting import ABSTAIN

ROWS, CLASSES = 200, 5
RNG = np.random.default_rng(1)
TRUTH = RNG.integers(CLASSES, size=ROWS)


def _honest(known=range(CLASSES), right=0.8):
    """Labels of a party that knows these classes and takes all other rows for one of them."""
    said = np.where(np.isin(TRUTH, list(known)) & (RNG.random(ROWS) < right), TRUTH, RNG.choice(list(known), ROWS))
    return said.astype(np.int16)


def _lie(how):
    labels = _honest()
    if how == "flip":
        return (labels + 1) % CLASSES
    if how == "random":
        return RNG.integers(CLASSES, size=ROWS).astype(np.int16)
    said = np.full(ROWS, 3, dtype=np.int16)
    said[: {"all alike": 0, "all but one": 1, "all but ten": 10}[how]] = 1
    return said


@pytest.mark.parametrize("how", ["flip", "random", "all alike", "all but one", "all but ten"])
def test_three_of_ten_liars_count_next_to_nothing_and_the_honest_in_full(how):
    found = label_trusts([_honest() for _ in range(7)] + [_lie(how) for _ in range(3)], num_classes=CLASSES)
    assert (found[:7] == 1.0).all()
    assert (found[7:] < 0.1).all()


def test_honest_parties_that_know_few_classes_keep_their_votes():
    known = [range(5), range(4), (1, 2, 3), (3, 4), (0, 4), (0, 1, 2), range(5)]
    assert (label_trusts([_honest(one) for one in known], num_classes=CLASSES) > 0.9).all()


def test_the_only_party_that_knows_a_class_keeps_its_votes():
    sick = np.where(TRUTH == 4, 4, _honest((0, 1))).astype(np.int16)  # class 4, and two that others know too
    others = [_honest((0, 1, 2, 3)) for _ in range(6)]
    assert label_trusts([sick, *others], num_classes=CLASSES)[0] > 0.8


def test_students_count_as_shares_and_abstentions_as_nothing():
    unsure = np.stack([_honest(), _honest()])
    unsure[:, :50] = ABSTAIN
    found = label_trusts([unsure, *(_honest() for _ in range(3)), _lie("flip")[None]], num_classes=CLASSES)
    assert found[0] == 1.0
    assert found[-1] < 0.1


def test_nobody_is_accused_where_agreement_cannot_tell():
    assert label_trusts([_honest(), _lie("flip")], num_classes=CLASSES) is None  # two accuse each other alike
    few = [labels[:29] for labels in (_honest(), _honest(), _honest(), _lie("flip"))]
    assert label_trusts(few, num_classes=CLASSES) is None
    one_class_each = [np.full(ROWS, c % CLASSES, np.int16) for c in range(7)]
    assert label_trusts([*one_class_each, *(_lie("all but ten") for _ in range(3))], num_classes=CLASSES) is None


def test_parties_that_label_every_row_alike_cast_a_tenth_together_at_most():
    counted = trusted_weights([2] * 9 + [1] * 6, np.ones(15), np.arange(15) > 8)
    assert counted[:9].tolist() == [200] * 9
    assert counted[9:].sum() == pytest.approx(180)
    assert trusted_weights([2, 2, 2, 0], np.ones(4), np.arange(4) > 2).tolist() == [200, 200, 200, 0]


def _nearly(label, odd=1, rows=ROWS):
    labels = np.full(rows, label, dtype=np.int16)
    labels[:odd] = 1 - label
    return labels


def test_parties_of_nearly_one_class_together_cast_half_of_the_others_votes():
    answers = [_honest(), _honest(), _honest(), *(_nearly(label) for label in (0, 0, 1, 1, 1))]
    units = steadied_weights([2] * 8, answers)
    assert units[:3].tolist() == [200] * 3
    assert units[3:].sum() == 300
    assert len(set(units[3:].tolist())) == 1  # whichever class it is


def test_nobody_is_silenced_for_two_parties_that_tell_classes_apart_or_by_few_rows():
    assert steadied_weights([2] * 5, [_honest(), _honest(), _nearly(0), _nearly(0), _nearly(1)]) is None
    assert steadied_weights([2] * 4, [_honest(), _honest(), _honest(), _nearly(0)]) is None  # few count in full
    few = [_honest()[:29], _honest()[:29], _honest()[:29], *(_nearly(0, rows=29) for _ in range(5))]
    assert steadied_weights([2] * 8, few) is None


def test_nearly_one_class_begins_at_94_percent_of_the_votes_and_abstentions_are_none():
    assert nearly_alike(_nearly(0, odd=12))
    assert not nearly_alike(_nearly(0, odd=13))
    assert nearly_alike(np.full(ROWS, ABSTAIN, dtype=np.int16))
    assert nearly_alike(np.array([[0] * 47 + [1] * 3, [0] * 47 + [ABSTAIN] * 3], dtype=np.int16))


@pytest.mark.parametrize(
    ("counted", "constants", "told"),
    [
        ([1.0, 1.0, 1.0, 0.25, 0.25], 0, True),
        ([1.0, 1.0, 1.0, 0.24, 0.24], 0, False),
        ([1.0, 1.0, 1.0, 1.0, 0.24, 0.24], 0, True),  # a third, and no more
        ([1.0, 1.0, 1.0, 0.24], 1, False),  # who labels all rows alike is one of them, and no yardstick
        ([1.0, 1.0, 1.0, 1.0, 0.24], 1, True),
    ],
)
def test_who_counts_less_than_a_quarter_is_doubted_and_more_than_a_third_are_too_many(
    monkeypatch, counted, constants, told
):
    seen = []
    monkeypatch.setattr(trust, "can_tell", lambda found: True)
    monkeypatch.setattr(trust, "trusts", lambda found: seen.append(len(found)) or np.array(counted))
    answers = [TRUTH.astype(np.int16)] * len(counted) + [np.zeros(ROWS, dtype=np.int16)] * constants
    found = label_trusts(answers, num_classes=CLASSES)
    assert seen == [len(counted)]
    assert found is None if not told else found.tolist() == [*counted, *[0.0] * constants]

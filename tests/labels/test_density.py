"""Density ratios: a hand-computed example, codes, the sum's bounds, what liars can do, and the guard."""

from __future__ import annotations

import numpy as np
import pytest

from fedkd_flwr.errors import ConfigError, DataError
from fedkd_flwr.labels import ABSTAIN, VoteCounter, density, majority
from fedkd_flwr.labels.density import DensityVote, most_probable

CLASSES, ROWS = 4, 200


def _party(y: np.ndarray, held: list[int], rng: np.random.Generator, *, skill: float = 0.9) -> tuple:
    """Return ratios, class counts and hard labels of a party that knows the classes ``held``, `skill` of the time."""
    seen = np.where(rng.random(len(y)) < skill, y, rng.integers(0, CLASSES, len(y)))
    ratios = np.zeros((len(y), CLASSES))
    for c in held:
        ratios[seen == c, c] = CLASSES * 0.8
    counts = np.zeros(CLASSES, dtype=np.int64)
    counts[held] = 25
    labels = np.where(np.isin(seen, held), seen, held[0]).astype(np.int16)
    return ratios, counts, labels


def _federation(seed: int = 0, parties: int = 10, classes_each: int = CLASSES) -> tuple[np.ndarray, list]:
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(ROWS) % CLASSES)
    return y, [_party(y, [(k + i) % CLASSES for i in range(classes_each)], rng) for k in range(parties)]


def _consensus(parties: list, **settings: str) -> np.ndarray:
    vote = DensityVote(num_public=ROWS, num_classes=CLASSES, **settings)
    for ratios, counts, _ in parties:
        vote.add(ratios, counts)
    return most_probable(vote.probabilities())


def _majority(parties: list) -> np.ndarray:
    counter = VoteCounter(num_public=ROWS, num_classes=CLASSES)
    for _, _, labels in parties:
        counter.add(labels)
    return majority(counter.votes, ties="lowest")


# ratios


def test_the_vote_by_hand():
    """Class 0 is known to party 1 alone, so S_0 = 2, 0; S_1 = (1/4 * 0 + 1 * .5) / 1.25 = .4, and 1.6.

    Each class's mean ratio is 1 already, the sizes are equal, and three of eight rows are of class 0. Then .1 is added,
    and the classes get one factor each, which brings their means to 3/8 and 5/8.
    """
    vote = DensityVote(num_public=2, num_classes=2)
    vote.add(np.array([[2.0, 0.0], [0.0, 2.0]]), np.array([3, 1]))
    vote.add(np.array([[0.0, 0.5], [0.0, 1.5]]), np.array([0, 4]))
    np.testing.assert_allclose(vote.densities(), [[2.0, 0.4], [0.0, 1.6]])
    probs = vote.probabilities()
    assert most_probable(probs).tolist() == [0, 1]
    odds = probs[:, 0] / probs[:, 1]
    assert odds[0] / odds[1] == pytest.approx(((2.1 / 0.5) / (0.1 / 1.7)) ** 1.3)
    np.testing.assert_allclose(probs.mean(axis=0), [3 / 8, 5 / 8], rtol=1e-3)


def test_parties_of_one_class_each_are_right_together_where_majority_is_not():
    y, parties = _federation(classes_each=1)
    assert (_consensus(parties) == y).mean() > 0.9
    assert (_majority(parties) == y).mean() < 0.5


def test_the_order_of_parties_does_not_matter():
    _, parties = _federation(classes_each=2)
    assert (_consensus(parties) == _consensus(parties[::-1])).all()


def test_a_row_that_looks_like_nobodys_data_has_no_label():
    vote = DensityVote(num_public=3, num_classes=2)
    assert most_probable(vote.probabilities()).tolist() == [ABSTAIN] * 3
    vote.add(np.array([[2.0, 0.0], [0.0, 2.0], [0.0, 0.0]]), np.array([2, 2]))
    labels = most_probable(vote.probabilities())
    assert (labels[2], labels[0]) == (ABSTAIN, 0)
    assert vote.probabilities()[2].tolist() == [0.5, 0.5]  # and says nothing of the parties' class shares


@pytest.mark.parametrize("classes_each", [1, 2])
def test_probabilities_of_a_row_sum_to_one(classes_each):
    _, parties = _federation(classes_each=classes_each)
    vote = DensityVote(num_public=ROWS, num_classes=CLASSES)
    for ratios, counts, _ in parties:
        vote.add(ratios, counts)
    np.testing.assert_allclose(vote.probabilities().sum(axis=1), 1.0)


def test_a_rare_class_is_as_probable_as_its_densities_and_its_share_say_and_no_more():
    """0.05 * 4 < 0.95 * 0.8: a row four times as dense in the rare class is of the other one more often than not."""
    rng = np.random.default_rng(4)
    y = (np.arange(1000) < 50).astype(int)
    ratios = np.stack([rng.uniform(0.8, 1.2, 1000), np.where(y == 1, 4.0, rng.uniform(0, 1, 1000))], axis=1)
    rare, balanced = (DensityVote(num_public=1000, num_classes=2) for _ in range(2))
    rare.add(ratios, np.array([950, 50]))
    balanced.add(ratios, np.array([500, 500]))
    found = rare.probabilities()[:, 1]
    assert (most_probable(rare.probabilities()) == 0).all()
    assert found[y == 1].min() > 2 * found[y == 0].max()
    assert found.mean() == pytest.approx(0.05, abs=0.02)
    assert (most_probable(balanced.probabilities())[y == 1] == 1).all()


def test_the_smaller_of_two_classes_labels_no_more_rows_than_private_and_public_shares_say():
    """Four small parties of class 1 weigh more than their rows say: by densities alone they label too many rows."""
    rng = np.random.default_rng(3)
    sure = rng.beta(0.5, 1.5, 1000)  # a quarter of the rows is of class 1
    y = (rng.random(1000) < sure).astype(int)
    vote = DensityVote(num_public=1000, num_classes=2)
    vote.add(np.stack([(1 - sure) / 0.75, np.zeros(1000)], axis=1), np.array([3000, 0]))
    for _ in range(4):
        vote.add(np.stack([np.zeros(1000), sure / 0.25], axis=1), np.array([0, 250]))
    labels = most_probable(vote.probabilities())
    assert 0.2 < (labels == 1).mean() < 0.3
    assert (labels == y).mean() > 0.8


@pytest.mark.parametrize(("public", "least", "most"), [(200, 0.15, 0.25), (300, 0.15, 0.3), (600, 0.4, 0.5)])
def test_class_shares_are_those_of_the_parties_unless_public_rows_clearly_have_others(public, least, most):
    """A fifth of the private rows is of class 1, ``public`` of 1,000 public rows; their .6 counts half."""
    sure = np.where(np.arange(1000) < public, 0.9, 0.1)
    vote = DensityVote(num_public=1000, num_classes=2)
    vote.add(np.stack([1 - sure, sure], axis=1) * 1.8, np.array([80, 20]))
    assert least < vote.probabilities()[:, 1].mean() < most


def test_wrong_answers_are_refused():
    vote = DensityVote(num_public=2, num_classes=2)
    counts = np.array([1, 1])
    for ratios in (np.zeros((2, 3)), np.full((2, 2), 4.1), np.full((2, 2), np.nan), np.full((2, 2), -0.1)):
        with pytest.raises(DataError, match="ratios must"):
            vote.add(ratios, counts)
    with pytest.raises(DataError, match="class_counts must be 2 whole numbers"):
        vote.add(np.zeros((2, 2)), np.array([1]))
    with pytest.raises(ConfigError, match="robust must"):
        DensityVote(num_public=2, num_classes=2, robust="median")
    assert len(vote.trusts()) == 0


# liars


def _flipped(party: tuple) -> tuple:
    ratios, counts, labels = party
    return np.roll(ratios, 1, axis=1), np.roll(counts, 1), ((labels + 1) % CLASSES).astype(np.int16)


def _inflated_flip(party: tuple) -> tuple:
    ratios, counts, labels = _flipped(party)
    return np.where(ratios > 0, 2.0 * CLASSES, 0.0), counts * 1000, labels


def _one_target(party: tuple) -> tuple:
    ratios, counts, labels = party
    target = np.zeros_like(ratios)
    target[:, 0] = 2.0 * CLASSES
    return target, np.array([counts.sum() * 1000, 0, 0, 0]), np.zeros_like(labels)


def _one_target_with_every_class(party: tuple) -> tuple:
    target, _, labels = _one_target(party)
    return target, np.full(CLASSES, 25_000), labels


@pytest.mark.parametrize("attack", [_flipped, _inflated_flip, _one_target, _one_target_with_every_class])
@pytest.mark.parametrize("classes_each", [2, CLASSES])
def test_three_of_ten_liars_cost_no_more_than_they_cost_majority(attack, classes_each):
    y, parties = _federation(seed=2, classes_each=classes_each)
    attacked = [attack(party) if k in (1, 4, 7) else party for k, party in enumerate(parties)]
    cost = (_consensus(parties) == y).mean() - (_consensus(attacked) == y).mean()
    cost_of_majority = (_majority(parties) == y).mean() - (_majority(attacked) == y).mean()
    assert cost <= max(cost_of_majority, 0.0) + 0.02


def test_without_bounds_inflated_flips_win_every_row():
    """The test above can fail: this is what the bounds prevent."""
    y, parties = _federation(seed=2)
    attacked = [_inflated_flip(party) if k in (1, 4, 7) else party for k, party in enumerate(parties)]
    assert (_consensus(attacked, robust="none") == y).mean() < 0.1


def test_the_party_that_knows_nearly_all_rows_is_trusted_although_nobody_confirms_it():
    """One party holds all rows of the frequent class, three some of the rare one: they confirm each other."""
    rng = np.random.default_rng(11)
    y = (np.arange(2000) < 60).astype(int)
    vote = DensityVote(num_public=2000, num_classes=2)
    vote.add(
        np.stack([np.where(y == 0, rng.uniform(0.8, 1.4, 2000), 0.2), np.zeros(2000)], axis=1), np.array([11900, 0])
    )
    for rows in (16, 30, 45):
        frequent = np.where(rng.random(2000) < 0.01, 0.5, 0.0)
        vote.add(np.stack([frequent, np.where(y == 1, rng.uniform(0.2, 1.0, 2000), 0.0)], axis=1), np.array([5, rows]))
    labels = most_probable(vote.probabilities())
    assert vote.trusts().tolist() == [1.0] * 4
    assert (labels == y).mean() > 0.95


def test_the_only_party_that_knows_a_class_keeps_its_trust():
    """Nine parties without class 3 take some of its rows for their own classes; they cannot judge who says 3."""
    y, parties = _federation(seed=5, parties=9)
    knows = np.array([1, 1, 1, 0])
    vote = DensityVote(num_public=ROWS, num_classes=CLASSES)
    for ratios, counts, _ in parties:
        vote.add(ratios * knows, counts * knows)
    ratios, counts, _ = _party(y, [3], np.random.default_rng(6))
    vote.add(ratios, counts)
    assert vote.trusts()[-1] == 1
    assert (most_probable(vote.probabilities())[y == 3] == 3).mean() > 0.8


def test_liars_that_say_the_same_have_no_vote_among_parties_of_one_class_each():
    """Seven parties of one class each, and three that give nearly all rows another class."""
    y = np.arange(700) % 7
    vote = DensityVote(num_public=700, num_classes=7)
    for c in range(7):
        vote.add(7.0 * np.eye(7)[c] * (y == c)[:, None], 100 * np.eye(7, dtype=np.int64)[c])
    for _ in range(3):
        vote.add(7.0 * np.eye(7)[(y + 1) % 3], np.array([300, 300, 300, 0, 0, 0, 0]))
    assert vote.trusts().tolist() == [1.0] * 7 + [0.0] * 3
    assert (most_probable(vote.probabilities()) == y).all()


@pytest.mark.parametrize(
    ("contradicted", "at_odds", "confirmed", "trusts"),
    [
        ([], [], [0.5, 0.5, 0.5, 0.05], [1, 1, 1, 0.04]),
        ([], [], [0.09, 0.09, 0.09, 0.01], [1, 1, 1, 1]),  # too little is confirmed to tell
        ([3], [0], [0.09, 0.09, 0.09, 0.5], [1, 1, 1, 0]),  # but this one is out, and no head counts beside
        ([], [3], [0.5, 0.5, 0.5, 0.5], [1, 1, 1, 0]),
        ([], [3], [0.09, 0.09, 0.09, 0.5], [1, 1, 1, 1]),
        ([0], [], [0.5, 0.5, 0.5, 0.5], [1, 1, 1, 1]),  # it alone knows most rows
        ([], [1], [0.5, 0.5, 0.5, 0.5], [1, 1, 1, 1]),  # it alone knows the second class
        ([], [], [0.5, 0.02, 0.5, 0.5], [1, 1, 1, 1]),  # and it is not outvoted otherwise
        ([2], [], [0.09, 0.09, 0.09, 0.09], [1, 1, 1, 1]),  # it alone the third, and nobody can tell
    ],
)
def test_who_is_trusted_by_what_is_found_of_contradictions_heads_and_confirmation(
    monkeypatch, contradicted, at_odds, confirmed, trusts
):
    def told(parties):
        return lambda said, **_: np.isin(np.arange(4), parties)

    monkeypatch.setattr(density, "contradicted", told(contradicted))
    monkeypatch.setattr(density, "at_odds", told(at_odds))
    monkeypatch.setattr(density, "confirmed_by_ratios", lambda said, **_: np.array(confirmed))
    vote = DensityVote(num_public=100, num_classes=3)
    for k, rows in enumerate((60, 30, 30, 30)):
        known = np.arange(100) < 60 if k == 0 else np.arange(100) >= 100 - rows
        vote.add(np.where(known[:, None], 1.0, 0.0) * np.eye(3)[k % 3], np.eye(3, dtype=np.int64)[k % 3] * 20)
    assert vote.trusts().round(2).tolist() == trusts


# the class shares


@pytest.mark.parametrize("agree", [True, False])
def test_public_shares_of_two_classes_are_estimated_where_parties_confirm_each_other(monkeypatch, agree):
    """Four parties hold class 0 alone, and err all alike or each by itself; one says class 1 of everything."""
    asked = []
    monkeypatch.setattr(density, "mixture", lambda ratios, shares: asked.append(shares) or shares)
    rng = np.random.default_rng(7)
    vote, errs = DensityVote(num_public=1000, num_classes=2), rng.uniform(0.9, 1.1, 1000)
    for _ in range(4):
        vote.add(np.outer(errs if agree else rng.uniform(0.9, 1.1, 1000), [1.0, 0.0]), np.array([100, 0]))
    vote.add(np.tile([0.0, 4.0], (1000, 1)), np.array([0, 100]))
    vote.probabilities()
    assert bool(asked) is agree


# of 100 rows in all 28 are of the first class; 2
@pytest.mark.parametrize("counts", [[[20, 70], [8, 2]], [[0, 90], [2, 8]]])
def test_small_parties_weigh_more_than_their_rows_but_not_in_the_class_shares(monkeypatch, counts):
    used = []
    monkeypatch.setattr(density, "mixture", lambda ratios, shares: used.append(shares) or shares)
    counts = np.array(counts)
    vote = DensityVote(num_public=2, num_classes=2)
    for of in counts:
        vote.add(np.minimum(of, 1.0) * np.ones((2, 2)), of)
    vote.probabilities()
    weights = np.minimum(np.sqrt(counts.sum(axis=1) * 50), 50)
    by_roots = weights @ (counts / counts.sum(axis=1, keepdims=True)) / weights.sum()
    by_rows = counts.sum(axis=0) / counts.sum()
    assert by_roots[0] > by_rows[0]
    np.testing.assert_allclose(used[0], by_rows)


# the guard


def test_coverage_is_the_share_of_rows_that_resemble_a_partys_own():
    vote = DensityVote(num_public=4, num_classes=2)
    vote.add(np.array([[2.0, 0.0], [0.0, 0.9], [0.0, 0.4], [0.0, 0.0]]), np.array([1, 1]))
    # densities, after shares of a half: 1, 0.45, 0.2, 0
    assert vote.coverage() == 0.25
    vote.add(np.array([[0.0, 0.0], [0.0, 1.0], [0.0, 0.0], [0.0, 0.0]]), np.array([0, 3]))
    assert vote.coverage() == 0.5


def test_without_robustness_everybody_is_trusted_and_with_it_who_contradicts_all_others_is_not():
    _, parties = _federation()
    ratios, counts, _ = parties[0]
    votes = [DensityVote(num_public=ROWS, num_classes=CLASSES, robust=robust) for robust in ("none", "trust")]
    for vote in votes:
        for one, of, _ in parties[1:]:
            vote.add(one, of)
        vote.add(np.roll(ratios, 1, axis=1), counts)
    assert votes[0].trusts().tolist() == [1.0] * 10
    assert votes[1].trusts()[-1] < 0.5 < votes[1].trusts()[:-1].min()


def test_the_public_rows_own_shares_are_found_from_the_ratios_and_used_for_two_classes_alone(monkeypatch):
    rng = np.random.default_rng(5)
    y = (np.arange(4000) < 2400).astype(int)
    sure = rng.uniform(0.7, 1.0, 4000)
    ratios = np.stack([np.where(y == 0, sure, 1 - sure) / 0.4, np.where(y == 1, sure, 1 - sure) / 0.6], axis=1)
    assert density.mixture(np.vstack([ratios, np.zeros((900, 2))]), np.array([0.8, 0.2]))[1] == pytest.approx(
        0.6, abs=0.1
    )
    assert density.mixture(ratios, np.array([1.0, 0.0])).tolist() == [1.0, 0.0]  # nobody holds the other class
    asked = []
    monkeypatch.setattr(density, "mixture", lambda ratios, shares: asked.append(len(shares)) or shares)
    for num_classes in (2, 3):
        vote = DensityVote(num_public=4, num_classes=num_classes)
        vote.add(np.ones((4, num_classes)), np.ones(num_classes, dtype=np.int64))
        vote.probabilities()
    assert asked == [2]


def test_a_class_whose_densities_are_all_too_small_does_not_pass_for_a_rarer_one(monkeypatch):
    likely = np.random.default_rng(6).uniform(0.3, 0.7, 2000)
    found = []
    for mixture in (density.mixture, lambda ratios, shares: shares):  # the second estimates nothing
        monkeypatch.setattr(density, "mixture", mixture)
        vote = DensityVote(num_public=2000, num_classes=2)
        for _ in range(3):  # a seventh of what they should be: more than a party's ratios are raised by
            vote.add(np.stack([2 - 2 * likely, 0.3 * likely], axis=1), np.array([70, 30]))
        found.append(vote.probabilities())
    np.testing.assert_array_equal(*found)

"""How much a party counts in an average."""

from __future__ import annotations

import numpy as np
import pytest

from fedkd_flwr.labels.dawid_skene import dawid_skene
from fedkd_flwr.labels.party_weights import WEIGHTINGS, agreement_weights, dawid_skene_weights


def _parties(accuracies, rows=400, classes=4, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.integers(classes, size=rows)
    guesses = rng.integers(classes, size=(len(accuracies), rows))
    right = rng.random((len(accuracies), rows)) < np.array(accuracies)[:, None]
    return np.where(right, truth, guesses).astype(np.int16)


@pytest.mark.parametrize("name", WEIGHTINGS)
def test_weights_are_shares_of_one_and_equal_among_equals(name):
    same = np.tile(np.arange(4, dtype=np.int16), (3, 25))
    weights = WEIGHTINGS[name](same, num_classes=4)
    assert np.allclose(weights, 1 / 3)
    odd = WEIGHTINGS[name](_parties([0.9, 0.5, 0.1]), num_classes=4)
    assert odd.min() >= 0
    assert odd.sum() == pytest.approx(1)


@pytest.mark.parametrize("name", ["agreement", "dawid-skene"])
def test_who_is_mostly_right_counts_more_than_who_guesses(name):
    weights = WEIGHTINGS[name](_parties([0.9, 0.9, 0.8, 0.0]), num_classes=4)
    assert weights[3] < weights[:3].min() / 2


def test_where_as_many_give_one_label_as_another_the_lowest_class_is_the_one_to_agree_with():
    # row 0 is a tie of the classes 0 and 1, row 1 of the classes 2 and 0
    tied = np.array([[0, 2, 1], [1, 0, 1]], dtype=np.int16)
    assert agreement_weights(tied, num_classes=3) == pytest.approx([0.5, 0.5])
    tied = np.array([[0, 0, 1], [1, 2, 1]], dtype=np.int16)
    assert agreement_weights(tied, num_classes=3) == pytest.approx([3 / 4, 1 / 4])


@pytest.mark.parametrize("seed", range(3))
def test_dawid_skene_weights_are_what_labels_are_worth_above_guessing_after_five_steps(seed):
    labels = _parties([0.5, 0.4, 0.2, 0.1], rows=60, seed=seed)
    _, probs = dawid_skene(list(labels), num_classes=4, max_iterations=5, tolerance=-np.inf, class_prior="uniform")
    worth = np.array([probs[np.arange(60), own].mean() for own in labels]) - 1 / 4
    worth[worth < 0] = 0
    assert 0 < worth.sum() != pytest.approx(1)
    assert dawid_skene_weights(labels, num_classes=4) == pytest.approx(worth / worth.sum())


def test_where_no_party_is_above_guessing_all_count_alike():
    opposed = np.array([[0, 1], [1, 0]], dtype=np.int16)
    assert dawid_skene_weights(opposed, num_classes=2).tolist() == [0.5, 0.5]

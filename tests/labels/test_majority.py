from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedkd_flwr.errors import ConfigError
from fedkd_flwr.labels import ABSTAIN, majority

ORACLE = Path(__file__).parents[1] / "oracles" / "dawid_skene.json"
votes_arrays = arrays(np.int32, (7, 3), elements=st.integers(0, 5))


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)


@given(votes_arrays)
def test_majority_label_has_the_most_votes(votes):
    labels = majority(votes, rng=_rng())
    voted = votes.sum(axis=1) > 0
    assert (votes[voted, labels[voted]] == votes[voted].max(axis=1)).all()
    assert (labels[~voted] == ABSTAIN).all()


def test_one_party_alone_gets_its_own_labels_back():
    own = np.array([2, 0, 1])
    assert majority(np.eye(3, dtype=int)[own], rng=_rng()).tolist() == own.tolist()


def test_random_ties_are_fair_and_seeded():
    votes = np.tile([1, 1, 0], (3000, 1))
    labels = majority(votes, rng=_rng())
    assert abs((labels == 0).mean() - 0.5) < 0.05
    assert (labels != 2).all()
    assert (labels == majority(votes, rng=_rng())).all()


def test_lowest_ties_reproduce_argmax():
    assert majority(np.array([[1, 1], [0, 0]]), ties="lowest").tolist() == [0, ABSTAIN]


def test_random_ties_without_a_generator_are_refused():
    with pytest.raises(ConfigError, match="rng must be a numpy Generator for random ties, got None"):
        majority(np.array([[1, 1]]))


def test_rows_without_a_tie_draw_nothing_from_the_stream():
    rng = _rng()
    majority(np.array([[2, 1], [0, 3], [0, 0]])[:2], rng=rng)
    assert rng.random() == _rng().random()


def test_unknown_tie_policy_is_refused():
    with pytest.raises(ConfigError, match='ties must be "random" or "lowest", got \'coin\''):
        majority(np.array([[1, 1]]), ties="coin")

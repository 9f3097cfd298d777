from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedkd_flwr.errors import ConfigError
from fedkd_flwr.labels import ABSTAIN, majority


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)


@given(arrays(np.int32, (7, 3), elements=st.integers(0, 5)))
def test_majority_label_has_the_most_votes(votes):
    labels = majority(votes, rng=_rng())
    voted = votes.sum(axis=1) > 0
    assert (votes[voted, labels[voted]] == votes[voted].max(axis=1)).all()
    assert (labels[~voted] == ABSTAIN).all()


def test_random_ties_are_fair_and_seeded():
    votes = np.tile([1, 1, 0], (3000, 1))
    labels = majority(votes, rng=_rng())
    assert abs((labels == 0).mean() - 0.5) < 0.05
    assert (labels != 2).all()
    assert (labels == majority(votes, rng=_rng())).all()


def test_rows_without_a_tie_draw_nothing_from_the_stream():
    rng = _rng()
    majority(np.array([[2, 1], [0, 3], [0, 0]])[:2], rng=rng)
    assert rng.random() == _rng().random()


def test_other_policies_and_random_ties_without_a_generator_are_refused():
    for settings, match in (
        ({}, "rng must be a numpy Generator"),
        ({"ties": "coin"}, "'coin'"),
    ):
        with pytest.raises(ConfigError, match=match):
            majority(np.array([[1, 1]]), **settings)

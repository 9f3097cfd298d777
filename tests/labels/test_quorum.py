from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedkd_flwr.labels import ABSTAIN, Ballot, majority
from fedkd_flwr.labels.quorum import QualifiedMajority

votes_arrays = arrays(np.int32, (7, 3), elements=st.integers(0, 5))


def _labels(votes, *, quorum, voters, true_votes=None, ties="random"):
    true = votes if true_votes is None else true_votes
    ballot = Ballot(parties=[], labels=[], votes=votes, true_votes=true, num_votes=voters, counted=[])
    config = SimpleNamespace(quorum=quorum, ties=ties)
    return QualifiedMajority().combine(ballot, config=config, rng=np.random.default_rng(0)).labels


@given(votes_arrays)
def test_quorum_zero_is_plain_majority(votes):
    assert (_labels(votes, quorum=0.0, voters=15) == majority(votes, rng=np.random.default_rng(0))).all()


@given(votes_arrays, st.floats(0, 1), st.integers(1, 15))
def test_quorum_keeps_exactly_the_rows_that_reach_it(votes, quorum, voters):
    top = votes.max(axis=1)
    needed = np.ceil(quorum * voters - 1e-9)
    found = _labels(votes, quorum=quorum, voters=voters)
    assert ((found != ABSTAIN) == ((top >= needed) & (top > 0))).all()


def test_the_quorum_counts_votes_without_noise_and_the_label_is_that_of_the_votes_as_they_came():
    noisy, true = np.array([[6, 2], [6, 2]]), np.array([[-3.0, -4.0], [5.0, 1.0]])
    assert _labels(noisy, quorum=0.5, voters=8, true_votes=true, ties="lowest").tolist() == [ABSTAIN, 0]


@pytest.mark.parametrize(("votes", "quorum"), [([9, 1], 0.9), ([7, 3], 0.7), ([55, 45], 0.55)])
def test_so_many_tenths_of_the_parties_meet_their_quorum_despite_floats(votes, quorum):
    assert 0.55 * 100 > 55  # a float's work
    assert _labels(np.array([votes]), quorum=quorum, voters=sum(votes), ties="lowest").tolist() == [0]

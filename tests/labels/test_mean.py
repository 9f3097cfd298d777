"""The shares of the votes, whose mean is the consensus number."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedkd_flwr.labels.mean import Mean
from fedkd_flwr.labels.target import Target
from fedkd_flwr.labels.voting import Ballot

CONFIG = SimpleNamespace(ties="lowest")


def _found(votes, true_votes=None):
    votes = np.asarray(votes)
    ballot = Ballot(
        parties=[], labels=[], votes=votes, true_votes=votes if true_votes is None else np.asarray(true_votes),
        num_votes=0, counted=[],
    )  # fmt: skip
    return Mean().combine(ballot, config=CONFIG, rng=np.random.default_rng(1))


@given(st.lists(st.integers(0, 9), min_size=3, max_size=6).filter(any))
def test_the_expected_number_is_the_mean_of_what_the_parties_named(votes):
    target = Target(values=tuple(np.arange(len(votes)) ** 2.0), edges=tuple(np.arange(len(votes) + 1) ** 2.0))
    named = np.repeat(target.values, votes)
    assert np.isclose(target.numbers(_found([votes]).probs)[0], named.mean())


def test_estimates_below_zero_become_shares_and_rows_without_votes_have_no_label():
    found = _found([[9, 9, 9], [0, 0, 0]], [[-1.0, 3.0, 1.0], [0.0, 0.0, 0.0]])
    assert np.allclose(found.probs.sum(axis=1), 1.0)
    assert (found.probs >= 0).all()
    assert found.probs[0].argmax() == 1
    assert found.labels.tolist() == [1, -1]

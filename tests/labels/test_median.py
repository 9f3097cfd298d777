"""The class in the middle of the votes, and the shares of the votes, whose mean is the consensus number."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedkd_flwr.labels import ABSTAIN, Ballot
from fedkd_flwr.labels.median import Mean, median
from fedkd_flwr.labels.target import Target

VOTES = st.lists(st.integers(0, 6), min_size=2, max_size=8).map(np.array)
GRADES = Target(values=(1.0, 2.0, 3.0))


@given(VOTES)
def test_it_is_numpy_s_median_of_the_votes_written_out(votes):
    label = int(median(votes[None], ties="lowest")[0])
    written = np.repeat(np.arange(len(votes)), votes)
    assert label == (int(np.floor(np.median(written))) if len(written) else ABSTAIN)


@given(VOTES, st.integers(0, 2**32 - 1))
def test_of_two_in_the_middle_either_may_win_and_no_other(votes, seed):
    label = int(median(votes[None], rng=np.random.default_rng(seed))[0])
    written = np.repeat(np.arange(len(votes)), votes)
    found = {ABSTAIN} if not len(written) else {int(f(np.median(written))) for f in (np.floor, np.ceil)}
    assert label in found


@given(VOTES, st.data())
def test_a_party_that_moves_its_vote_upwards_never_moves_the_median_downwards(votes, data):
    if not votes[:-1].any():
        return
    held = data.draw(st.sampled_from(np.flatnonzero(votes[:-1]).tolist()))
    moved = votes.copy()
    moved[held] -= 1
    moved[data.draw(st.integers(held + 1, len(votes) - 1))] += 1
    assert median(moved[None], ties="lowest")[0] >= median(votes[None], ties="lowest")[0]


def test_a_random_tie_between_two_middle_classes_falls_on_both():
    votes = np.tile([1, 1, 0], (200, 1))
    assert set(median(votes, rng=np.random.default_rng(1)).tolist()) == {0, 1}
    assert set(median(votes, ties="lowest").tolist()) == {0}


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

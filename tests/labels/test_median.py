"""The class in the middle of the votes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkd_flwr.errors import ConfigError
from fedkd_flwr.labels import ABSTAIN
from fedkd_flwr.labels.median import median
from fedkd_flwr.labels.rules import RULES, rule_for
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


def test_auto_is_the_median_for_grades_the_mean_for_numbers_and_itself_for_classes():
    number = Target(values=(1.0, 2.0), edges=(0.0, 1.5, 3.0))
    assert [rule_for("auto", of).name for of in (GRADES, number, None)] == ["median", "mean", "auto"]
    assert rule_for("majority", GRADES) is RULES["majority"]


@pytest.mark.parametrize("name", ["median", "mean"])
def test_classes_without_an_order_have_neither_median_nor_mean(name):
    with pytest.raises(ConfigError, match="consensus must be given for classes with an order"):
        rule_for(name, None)

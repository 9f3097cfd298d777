"""SCARLET's average and cache: computed by hand, and kept the same at both ends."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedkd_flwr.algorithms import scarlet

PROBS = arrays(np.float64, (4, 3), elements=st.floats(0.001, 1)).map(lambda x: x / x.sum(axis=1, keepdims=True))


def test_the_average_is_the_power_of_the_mean_as_computed_by_hand():
    answers = [np.array([[0.8, 0.2]], np.float32), np.array([[0.4, 0.6]], np.float32)]
    average, facts = scarlet.aggregate(answers, config=scarlet.ScarletConfig(exponent=2.0), num_classes=2)
    assert average[0] == pytest.approx([0.36 / 0.52, 0.16 / 0.52])  # of the mean (0.6, 0.4)
    assert facts.agreement == 0.5


@given(PROBS)
def test_an_exponent_of_one_leaves_the_mean_and_more_makes_the_likeliest_class_likelier(probs):
    assert np.allclose(scarlet.enhanced_entropy_reduction(probs, 1.0), probs)
    sharp = scarlet.enhanced_entropy_reduction(probs, 2.0)
    assert np.allclose(sharp.sum(axis=1), 1)
    assert (sharp.max(axis=1) >= probs.max(axis=1) - 1e-12).all()


def test_a_large_exponent_of_small_probabilities_stays_a_distribution_in_every_row():
    probs = np.array([[0.25] * 4, [1.0, 0.0, 0.0, 0.0]])
    assert scarlet.enhanced_entropy_reduction(probs, 1000.0).tolist() == probs.tolist()


def test_rows_without_an_average_and_those_of_d_rounds_ago_are_asked_and_no_others():
    cache = scarlet.Cache.empty(5, 2)
    for row, server_round in ((0, 1), (1, 2), (2, 3), (3, 4)):
        cache = cache.stored(np.array([row]), np.full((1, 2), 0.5), server_round=server_round)
    asked = cache.stale(np.arange(5), server_round=5, cache_rounds=3)
    assert asked.tolist() == [0, 1, 4]  # of 4 and of 3 rounds ago, and the one that was never asked
    signals = cache.signals(np.arange(5), asked)
    assert signals.tolist() == [scarlet.EXPIRED, scarlet.EXPIRED, scarlet.CACHED, scarlet.CACHED, scarlet.NEWLY_CACHED]
    assert (signals.dtype, cache.since.dtype, cache.averages.dtype) == (np.int16, np.int64, np.float32)


def test_where_all_rows_are_fresh_the_oldest_one_is_asked():
    cache = scarlet.Cache.empty(3, 2)
    for row, server_round in ((2, 1), (0, 2), (1, 3)):
        cache = cache.stored(np.array([row]), np.full((1, 2), 0.5), server_round=server_round)
    assert cache.stale(np.arange(3), server_round=4, cache_rounds=9).tolist() == [2]


def test_a_new_average_changes_its_rows_alone_and_the_old_cache_stays_as_it_was():
    empty = scarlet.Cache.empty(4, 2)
    first = empty.stored(np.array([1, 3]), np.array([[0.9, 0.1], [0.2, 0.8]]), server_round=2)
    assert empty.rows.tolist() == []
    assert first.rows.tolist() == [1, 3]
    assert first.averages[[1, 3]].round(6).tolist() == np.float32([[0.9, 0.1], [0.2, 0.8]]).round(6).tolist()
    assert first.averages[[0, 2]].sum() == 0
    assert first.since.tolist() == [0, 2, 0, 2]

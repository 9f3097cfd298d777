"""Noisy sums of counts, of products and of clipped updates: their law and their sensitivity."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from counted import tables
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from fedkd_flwr.algorithms.column_weights import products
from fedkd_flwr.errors import DataError
from fedkd_flwr.privacy.noise.sums import _CELLS, LENGTH, ClippedSum, NoisyCounts, NoisyProducts


def test_no_replaced_record_moves_the_counts_further_than_said_and_one_moves_them_so_far():
    sizes, classes = (2, 3), 2
    records = np.array(list(product(*map(range, sizes), range(classes))))
    each = [tables(record[None], sizes, classes) for record in records]
    replaced = max(((one - other) ** 2).sum() for one in each for other in each)
    removed = max((one**2).sum() for one in each)
    mechanism = NoisyCounts(sigma=7.0, tables=len(sizes))
    assert replaced == 2 * len(sizes) > removed == len(sizes)
    assert mechanism.dp_event().noise_multiplier <= 7.0 / math.sqrt(replaced)
    assert mechanism.dp_event().noise_multiplier == pytest.approx(7.0 / math.sqrt(replaced), rel=1e-15)


def test_noise_has_the_stated_law_and_is_whole():
    noisy = NoisyCounts(sigma=3.0, tables=4).privatize(np.full((50_000, 2), 9), rng=np.random.default_rng(1))
    assert noisy.dtype == np.int64
    values = np.arange(-6, 7)
    law = stats.norm.cdf(values + 0.5, scale=3.0) - stats.norm.cdf(values - 0.5, scale=3.0)
    seen = np.array([(noisy - 9 == value).mean() for value in values])
    assert np.abs(seen - law).max() < 5 * math.sqrt(0.14 / noisy.size)


@pytest.mark.parametrize("counts", [np.zeros((2, 1), int), np.zeros((2, 2)), np.array([[-1, 0]])])
def test_what_is_no_count_is_refused(counts: np.ndarray):
    with pytest.raises(DataError, match="counts"):
        NoisyCounts(sigma=1.0, tables=1).privatize(counts)


# ---------------------------------------------------------------------------------------------- products of vectors


def test_no_replaced_record_moves_the_products_further_than_said_and_one_moves_them_so_far():
    rng = np.random.default_rng(1)
    vectors = rng.integers(-2000, 2000, (40, 3)).astype(np.int32)
    vectors[:3] = np.diag([LENGTH] * 3)  # the longest there are, at right angles
    vectors[3] = 0
    records = np.vstack([rng.integers(0, 40, (60, 2)), [[0, 3], [1, 3], [3, 2]]])
    each = [products(vectors, one[None]) for one in records]
    twice = np.array([1, 2, 1])  # a product of two stands twice in the matrix
    moved = max(float((twice * (one - other) ** 2).sum()) for one in each for other in each)
    assert moved == 2 * LENGTH**4
    assert max(float((twice * one**2).sum()) for one in each) <= LENGTH**4  # one more, or one less
    mechanism = NoisyProducts(sigma=7.0, vectors=2)
    assert mechanism.dp_event().noise_multiplier <= 7.0 / math.sqrt(2)
    assert mechanism.dp_event().noise_multiplier == pytest.approx(7.0 / math.sqrt(2), rel=1e-15)


def test_noise_on_squares_and_on_products_has_the_stated_law():
    mechanism, nothing = NoisyProducts(sigma=3.0, vectors=400), np.zeros(400 * 401 // 2, dtype=np.int64)
    noisy = mechanism.privatize(nothing, rng=np.random.default_rng(1))
    assert noisy.dtype == np.int64
    assert (noisy % 2 == 1).all()  # the middle of a cell: never a product itself
    first, second = np.triu_indices(400)
    shares = noisy / (2 * LENGTH**2)
    assert shares[first == second].std() == pytest.approx(3.0, rel=0.12)
    assert stats.kstest(shares[first != second], stats.norm(scale=3.0 / math.sqrt(2)).cdf).pvalue > 0.01
    assert stats.kstest(shares[first != second], stats.norm(scale=3.1 / math.sqrt(2)).cdf).pvalue < 0.01


@pytest.mark.parametrize("wrong", [np.zeros(4, int), np.zeros(3), np.full(3, 2**61)])
def test_what_are_no_products_is_refused(wrong: np.ndarray):
    with pytest.raises(DataError, match="products"):
        NoisyProducts(sigma=1.0, vectors=2).privatize(wrong)


# ------------------------------------------------------------------------------------------------ clipped updates

TINY = 1e-3  # the least noise there is, in clipping norms


@given(hnp.arrays(np.float64, st.integers(1, 40), elements=st.floats(-1e30, 1e30)), st.sampled_from([1e-6, 0.3, 7.0]))
def test_no_update_is_longer_than_the_clipping_norm_and_short_ones_stay_as_they_are(update, clip):
    cells = ClippedSum(clip=clip, noise_multiplier=1.0)._cells(update)
    norm = math.sqrt(sum(int(c) ** 2 for c in cells)) / _CELLS
    assert norm <= 1.0
    own = math.sqrt(math.fsum((float(v) / clip) ** 2 for v in update)) if np.abs(update).max() < 1e100 else math.inf
    assert norm == pytest.approx(min(own, 1.0), abs=1e-6)


def test_the_noise_is_gaussian_of_the_stated_deviation_and_a_wrong_one_is_noticed():
    mechanism, rng = ClippedSum(clip=0.5, noise_multiplier=3.0), np.random.default_rng(7)
    noise = mechanism.privatize([np.zeros(20_000)], rng=rng)
    assert stats.kstest(noise, stats.norm(0, 1.5).cdf).pvalue > 1e-3
    assert stats.kstest(noise, stats.norm(0, 1.6).cdf).pvalue < 1e-3


def test_updates_are_added():
    updates = [np.array([0.1, -0.2]), np.array([0.3, 0.4]), np.array([-3.0, 4.0])]
    found = ClippedSum(clip=1.0, noise_multiplier=TINY).privatize(updates, rng=np.random.default_rng(1))
    assert found == pytest.approx([0.1 + 0.3 - 0.6, -0.2 + 0.4 + 0.8], abs=0.01)


@pytest.mark.parametrize(
    "updates", [[], [np.zeros((2, 2))], [np.zeros(2), np.zeros(3)], [np.array([np.nan])], [np.array([np.inf])]]
)
def test_what_cannot_be_added_is_refused(updates):
    with pytest.raises(DataError, match="updates must"):
        ClippedSum(clip=1.0, noise_multiplier=1.0).privatize(updates)


@given(st.floats(0.01, 1e4))
def test_the_event_never_has_more_noise_than_is_added(multiplier):
    """Two neighbours differ by twice the clipping norm, and rounding to cells may add 2^-52 of it."""
    noise = ClippedSum(clip=4.0, noise_multiplier=multiplier).dp_event().noise_multiplier
    assert Fraction(noise) * 2 * (1 + Fraction(1, 2**52)) < Fraction(multiplier)
    assert noise == pytest.approx(multiplier / 2, rel=1e-15)

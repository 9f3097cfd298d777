"""Noisy counts: their law and their sensitivity."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from counted import tables
from scipy import stats

from fedkd_flwr.errors import DataError
from fedkd_flwr.privacy.noise.sums import NoisyCounts


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

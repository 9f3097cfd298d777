"""Sums of clipped updates: no update weighs more than its norm may, and the noise has its law."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from fedkd_flwr.errors import DataError
from fedkd_flwr.privacy.cost.accountant import Accountant
from fedkd_flwr.privacy.noise.updates import _CELLS, ClippedSum

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


def test_what_it_costs_is_that_of_replacing_one_update():
    """Opposite updates of the largest norm are two clipping norms apart; the event says no less."""
    event = ClippedSum(clip=4.0, noise_multiplier=3.0).dp_event()
    assert event.noise_multiplier == pytest.approx(1.5)
    assert event.noise_multiplier < 1.5
    # an independent statement of the Gaussian mechanism: delta at epsilon (Balle and Wang 2018, Theorem 8)
    epsilon = Accountant().compose(event).epsilon(1e-5)
    a, b = 1 / (2 * 1.5) - epsilon * 1.5, -1 / (2 * 1.5) - epsilon * 1.5
    assert stats.norm.cdf(a) - math.exp(epsilon) * stats.norm.cdf(b) == pytest.approx(1e-5, rel=1e-3)


@pytest.mark.parametrize(
    "updates", [[], [np.zeros((2, 2))], [np.zeros(2), np.zeros(3)], [np.array([np.nan])], [np.array([np.inf])]]
)
def test_what_cannot_be_added_is_refused(updates):
    with pytest.raises(DataError, match="updates must"):
        ClippedSum(clip=1.0, noise_multiplier=1.0).privatize(updates)


@given(st.floats(0.01, 1e4))
def test_the_event_never_has_more_noise_than_is_added(multiplier):
    """Two neighbours differ by twice the clipping norm, and rounding to cells may add 2^-52 of it."""
    event = ClippedSum(clip=1.0, noise_multiplier=multiplier).dp_event()
    assert Fraction(event.noise_multiplier) * 2 * (1 + Fraction(1, 2**52)) < Fraction(multiplier)

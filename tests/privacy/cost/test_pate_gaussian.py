"""Data-dependent cost of Gaussian noise: the original code's in range, mpmath's everywhere, never below the truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from pate_truth import (
    HUGE,
    LONG,
    ORACLE,
    classic,
    close,
    rows_of,
)
from scipy.special import ndtr

from fedkd_flwr.errors import ConfigError, DataError
from fedkd_flwr.privacy.cost.pate_bounds import rdp_epsilon
from fedkd_flwr.privacy.cost.pate_gaussian import (
    gaussian_epsilon,
    gaussian_independent_rdp,
    gaussian_log_q,
    gaussian_rdp,
)

GAUSSIAN = [c for c in ORACLE["pate2018"] if "sigma" in c]


def _rdp(counts, *, sigma, **setting):
    return gaussian_rdp(gaussian_log_q(counts, sigma), sigma=sigma, **setting)


@pytest.mark.parametrize("case", GAUSSIAN, ids=lambda c: c["id"])
def test_values_and_epsilons_are_the_original_codes(case):
    sigma, delta, rows = case["sigma"], case["delta"], rows_of(case)
    for vote in case["votes"]:
        log_q = gaussian_log_q([vote["hist"]], sigma)
        close(log_q, vote["logq"])
        rdp = gaussian_rdp(log_q, sigma=sigma, orders=case["short_orders"])
        # no tolerance below: divergences of 1e-257 are meant
        np.testing.assert_allclose(rdp, vote["rdp_by_order"], rtol=1e-9)
    orders = np.array(case["orders"]) if isinstance(case["orders"], list) else LONG
    close(classic(_rdp(rows, sigma=sigma, orders=orders), orders, delta).min(), case["eps_data_dependent"])
    independent = len(rows) * gaussian_independent_rdp(sigma=sigma, orders=orders)
    close(classic(independent, orders, delta).min(), case["eps_data_independent"])


def test_epsilon_bounds_the_two_class_release_itself():
    # hockey-stick divergence of 3 queries, all 8 outcomes, against the unit that moves every query
    rows, sigma, delta = [(14, 2), (11, 5), (15, 1)], 3.0, 1e-3
    epsilon = gaussian_epsilon(rows, sigma=sigma, delta=delta)
    outcomes = np.indices((2, 2, 2)).reshape(3, -1)

    def probability(histograms):
        ahead = np.array([[a - b, b - a] for a, b in histograms]) / (sigma * math.sqrt(2))
        return np.prod([ndtr(ahead[i])[outcomes[i]] for i in range(3)], axis=0)

    here = probability(rows)
    for shift in (-1, 1):
        there = probability([(a + shift, b - shift) for a, b in rows])
        assert np.maximum(here - math.exp(epsilon) * there, 0).sum() <= delta


def test_log_q_of_minus_2000_costs_nothing_at_low_orders_and_all_at_high_ones():
    rdp = gaussian_rdp([-2000.0], sigma=10.0, orders=[2.0, 400.0, 600.0])
    assert rdp[0] == 0.0
    assert 0 < rdp[1] < 4.0
    assert rdp[2] == pytest.approx(6.0, rel=1e-15)  # above mu1 = 1 + 10 sqrt(2000)


def test_q_of_exactly_zero_costs_nothing():
    assert gaussian_rdp(-np.inf, sigma=3.0, orders=HUGE[2:]).tolist() == [0.0] * 5


def test_where_rounding_of_log_q_would_decide_the_data_independent_value_stands():
    # inside the range, but the theorem's denominator is 1e-13 of a difference of 40
    sigma = math.sqrt(1 / 40)
    rdp = gaussian_rdp([-40.0 * (1 + 1e-13)], sigma=sigma, orders=[1.5])
    assert rdp.tolist() == gaussian_independent_rdp(sigma=sigma, orders=[1.5]).tolist()


def test_moving_s_votes_is_the_mechanism_with_noise_counted_in_units_of_s():
    log_q = gaussian_log_q([[60, 3]], 12.0)
    scaled = gaussian_rdp(log_q, sigma=12.0, votes=3, orders=[2.0, 5.0])
    assert scaled.tolist() == gaussian_rdp(log_q, sigma=4.0, orders=[2.0, 5.0]).tolist()
    assert (scaled > gaussian_rdp(log_q, sigma=12.0, orders=[2.0, 5.0])).all()


def test_epsilon_is_that_of_the_orders_and_votes_that_are_given():
    rows = [[40, 3, 1]] * 20
    for votes in (1, 3):
        setting = {"sigma": 3.0, "votes": votes}
        expected = rdp_epsilon(_rdp(rows, **setting, orders=[3.5, 8.0]), orders=[3.5, 8.0], delta=1e-5)
        assert gaussian_epsilon(rows, **setting, delta=1e-5, orders=[3.5, 8.0]) == expected
    assert gaussian_epsilon(rows, sigma=3.0, delta=1e-5) == gaussian_epsilon(rows, sigma=3.0, delta=1e-5, votes=1)
    # by default the least order is 1.05
    assert gaussian_epsilon(rows, sigma=0.2, delta=0.9) <= gaussian_epsilon(rows, sigma=0.2, delta=0.9, orders=[1.05])


def test_one_vote_moves_unless_more_are_named():
    for cost in (gaussian_independent_rdp, lambda **setting: gaussian_rdp([-9.0], **setting)):
        assert cost(sigma=3.0, orders=[2.0]) == cost(sigma=3.0, votes=1, orders=[2.0])


def test_orders_outside_their_range_are_refused():
    with pytest.raises(ConfigError, match="orders must be finite numbers > 1"):
        gaussian_rdp([-3.0], sigma=1.0, orders=[1.0])


@pytest.mark.parametrize("wrong", [-1.0, math.nan, math.inf])
def test_counts_that_are_no_votes_are_refused(wrong):
    with pytest.raises(DataError, match="counts must be finite and >= 0"):
        gaussian_log_q([[3.0, wrong]], 1.0)


@pytest.mark.parametrize("wrong", [0.1, math.nan])
def test_a_log_probability_above_zero_is_refused(wrong):
    with pytest.raises(DataError, match="log_q must be a list of numbers <= 0"):
        gaussian_rdp([-1.0, wrong], sigma=1.0, orders=[2])

"""Data-dependent cost of Gaussian noise: the original code's in range, mpmath's everywhere, never below the truth."""

from __future__ import annotations

import math
import time

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pate_truth import (
    HUGE,
    LONG,
    ODD_COUNTS,
    ORACLE,
    ORDERS,
    THREE,
    classic,
    close,
    divergence,
    gaussian_wins,
    histograms,
    moved,
    mp_gaussian,
    random_case,
    rows_of,
    sigmas,
    some_votes,
    tables,
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


@pytest.mark.parametrize("seed", range(40))
def test_gaussian_equals_the_formula_in_400_digits(seed):
    counts, _, sigma, votes = random_case(seed)
    orders = [1.05, 2.0, 7.5, 30.0, 300.0]
    with mpmath.workdps(400):
        exact = [mp_gaussian(counts, sigma, votes, order) for order in orders]
        log_q = float(mpmath.log(exact[0][0]))
    ours = gaussian_log_q([counts], sigma)
    np.testing.assert_allclose(ours, log_q, rtol=1e-13)
    ours = gaussian_rdp(ours, sigma=sigma, votes=votes, orders=orders)
    np.testing.assert_allclose(ours, [float(value) for _, value in exact], rtol=1e-11)


def test_it_equals_the_formula_in_1200_digits_where_log_q_is_minus_2000():
    with mpmath.workdps(1200):
        exact = [mp_gaussian([896, 0, 0], 10.0, 1, order) for order in (200.0, 300.0)]
    assert all(-2020 < mpmath.log(q) < -1980 for q, _ in exact)
    ours = _rdp([[896, 0, 0]], sigma=10.0, orders=[200.0, 300.0])
    np.testing.assert_allclose(ours, [float(value) for _, value in exact], rtol=1e-10)


def test_the_random_cases_reach_both_sides_of_the_range():
    below = 0
    for counts, _, sigma, votes in map(random_case, range(40)):
        setting = {"sigma": sigma, "votes": votes, "orders": [2.0]}
        below += _rdp([counts], **setting)[0] < gaussian_independent_rdp(**setting)[0]
    assert 8 <= below <= 32


def test_win_probabilities_of_the_numerical_truth_sum_to_one_and_match_two_classes():
    assert math.isclose(np.exp(gaussian_wins([9, 5, 1], 2.0)).sum(), 1.0, rel_tol=1e-9)
    assert math.isclose(gaussian_wins([9, 5], 2.0)[1], gaussian_log_q([[9, 5]], 2.0)[0], rel_tol=1e-9)


@pytest.mark.parametrize("counts", THREE, ids=str)
@pytest.mark.parametrize("sigma", [1.0, 3.0, 8.0])
@pytest.mark.parametrize("votes", [1, 2])
def test_gaussian_bound_is_never_below_the_true_divergence(counts, sigma, votes):
    orders = np.array([1.2, 2.0, 5.0, 20.0])
    bound = gaussian_rdp(gaussian_log_q([counts], sigma), sigma=sigma, votes=votes, orders=orders)
    here = gaussian_wins(counts, sigma)
    for other in moved(counts, votes):
        true = [divergence(here, gaussian_wins(other, sigma), order) for order in orders]
        assert (np.array(true) <= bound + 1e-9).all(), other


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


@pytest.mark.parametrize("name", ODD_COUNTS)
@pytest.mark.parametrize("sigma", [1e-200, 1e-9, 0.02, 1.0, 50.0, 1e9, 1e200])
def test_every_value_is_a_number_between_zero_and_the_data_independent_one(name, sigma):
    counts, alphas = ODD_COUNTS[name], 1.0 + np.array(HUGE[1:])
    for votes in (1, 1000):
        most = gaussian_independent_rdp(sigma=sigma, votes=votes, orders=alphas)
        for row in counts:
            rdp = _rdp([row], sigma=sigma, votes=votes, orders=alphas)
            assert ((rdp >= 0) & (rdp <= most * (1 + 1e-12))).all()
        epsilon = gaussian_epsilon(counts, sigma=sigma, votes=votes, delta=1e-6)
        assert epsilon >= 0
        assert len(counts) or epsilon == 0


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


@settings(max_examples=150)
@given(histograms, sigmas, some_votes)
def test_bounds_lie_between_zero_and_the_data_independent_value(counts, sigma, votes):
    rdp = _rdp([counts], sigma=sigma, votes=votes, orders=1 + ORDERS)
    most = gaussian_independent_rdp(sigma=sigma, votes=votes, orders=1 + ORDERS)
    assert ((rdp >= 0) & (rdp <= most)).all()


@settings(max_examples=150)
@given(histograms, sigmas, some_votes)
def test_more_votes_for_the_plurality_never_cost_more(counts, sigma, votes):
    ahead = list(counts)
    ahead[int(np.argmax(counts))] += 1
    log_q = gaussian_log_q([counts, ahead], sigma)
    assert log_q[1] <= log_q[0]
    before, after = (_rdp([h], sigma=sigma, votes=votes, orders=1 + ORDERS) for h in (counts, ahead))
    assert (after <= before * (1 + 1e-9)).all()


@settings(max_examples=100)
@given(histograms, st.randoms(use_true_random=False), sigmas)
def test_permuting_the_classes_changes_nothing(counts, random, sigma):
    shuffled = random.sample(counts, len(counts))
    ours, same = (_rdp([h], sigma=sigma, orders=1 + ORDERS) for h in (shuffled, counts))
    np.testing.assert_allclose(ours, same, rtol=1e-11, atol=1e-300)


@settings(max_examples=60)
@given(tables, sigmas)
def test_costs_of_queries_add_up_and_repeats_count(rows, sigma):
    rows = [*rows, rows[0]]
    one_by_one = [_rdp([row], sigma=sigma, orders=1 + ORDERS) for row in rows]
    np.testing.assert_allclose(_rdp(rows, sigma=sigma, orders=1 + ORDERS), sum(one_by_one), rtol=1e-12)


def test_moving_s_votes_is_the_mechanism_with_noise_counted_in_units_of_s():
    log_q = gaussian_log_q([[60, 3]], 12.0)
    scaled = gaussian_rdp(log_q, sigma=12.0, votes=3, orders=[2.0, 5.0])
    assert scaled.tolist() == gaussian_rdp(log_q, sigma=4.0, orders=[2.0, 5.0]).tolist()
    assert (scaled > gaussian_rdp(log_q, sigma=12.0, orders=[2.0, 5.0])).all()


def test_default_orders_lose_little_against_many():
    rows, many = rows_of(ORACLE["pate2017_lnmax"][3]), 1 + np.geomspace(0.01, 5000, 3000)
    for sigma in (4.0, 40.0, 400.0):
        best = gaussian_epsilon(rows, sigma=sigma, delta=1e-5, orders=many)
        assert best * (1 - 1e-9) <= gaussian_epsilon(rows, sigma=sigma, delta=1e-5) <= 1.02 * best


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


def test_no_query_costs_nothing():
    assert gaussian_epsilon(np.zeros((0, 3), dtype=np.int64), sigma=1.0, delta=1e-5) == 0


def test_100000_distinct_queries_at_64_orders_take_under_2_seconds():
    counts = np.random.default_rng(0).dirichlet(np.full(10, 0.1), 100_000) * 250
    counts[:, 0] += 250  # all inside the range, no two alike: nothing to save by
    start = time.process_time()
    _rdp(counts, sigma=20.0, orders=np.arange(2, 66))
    assert time.process_time() - start < 2.0


@pytest.mark.parametrize("value", [0, -1.0, math.nan, math.inf, True, "1"])
def test_noise_that_is_no_finite_positive_number_is_refused(value):
    with pytest.raises(ConfigError, match="sigma must be finite and > 0, got"):
        gaussian_log_q([[3, 1]], value)
    with pytest.raises(ConfigError, match="sigma must be finite and > 0, got"):
        gaussian_rdp([-3.0], sigma=value, orders=[2])


@pytest.mark.parametrize("votes", [0, -1, 1.5, True, math.nan])
def test_votes_that_are_no_positive_whole_number_are_refused(votes):
    with pytest.raises(ConfigError, match="votes must be a whole number >= 1"):
        gaussian_rdp([-3.0], sigma=1.0, votes=votes, orders=[2])


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

"""Data-dependent cost of Laplace noise: the original code's in range, mpmath's everywhere, never below the truth."""

from __future__ import annotations

import math
import time
import tracemalloc

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
    gammas,
    histograms,
    laplace_wins,
    moved,
    mp_laplace,
    random_case,
    rows_of,
    some_votes,
    tables,
)

from fedkd_flwr.errors import ConfigError, DataError
from fedkd_flwr.privacy.cost.pate_bounds import rdp_epsilon
from fedkd_flwr.privacy.cost.pate_laplace import (
    laplace_epsilon,
    laplace_independent_moments,
    laplace_log_q,
    laplace_moments,
)

LAPLACE = ORACLE["pate2017_lnmax"]
(PURE,) = [c for c in ORACLE["pate2018"] if "lambda" in c]


@pytest.mark.parametrize("case", LAPLACE, ids=lambda c: c["id"])
def test_laplace_per_vote_values_are_the_original_codes(case):
    gamma = case["noise_eps"]
    for vote in case["votes"]:
        counts = np.array([vote["hist"]])
        second = np.sort(vote["hist"])[-2]
        as_near_as_second = [[counts.max(), *[second] * (counts.size - 1)]]
        close(np.exp(laplace_log_q(counts, gamma)), vote["q"])
        close(np.exp(laplace_log_q(as_near_as_second, gamma)), vote["q_approx"])
        orders = [int(order) for order in vote["logmgf_at_l"]]
        moments = laplace_moments(counts, gamma=gamma, orders=orders)
        assert vote["q_le_theorem_limit"] == (vote["q"] <= case["theorem_q_limit"])
        if vote["q_le_theorem_limit"]:
            close(moments, list(vote["logmgf_at_l"].values()))
        else:
            assert moments.tolist() == laplace_independent_moments(gamma=gamma, orders=orders).tolist()


@pytest.mark.parametrize("case", LAPLACE, ids=lambda c: c["id"])
def test_sums_and_epsilons_are_the_original_codes(case):
    gamma, delta, rows = case["noise_eps"], case["delta"], rows_of(case)
    orders = np.arange(1, case["n_moments"] + 1)
    summed = laplace_moments(rows, gamma=gamma, orders=orders)
    independent = len(rows) * laplace_independent_moments(gamma=gamma, orders=orders)
    first = len(case["sum_logmgf"])
    close(summed[:first], case["sum_logmgf"])
    epsilons = classic(summed / orders, orders + 1, delta)
    close(epsilons[:first], case["eps_by_moment"])
    close(epsilons.min(), case["eps_data_dependent"])
    close(classic(independent / orders, orders + 1, delta).min(), case["eps_data_independent"])
    assert orders[epsilons.argmin()] == case["argmin_moment"]


def test_pure_dp_case_of_2018_refuses_the_theorem_outside_its_range():
    # q = 0.276 > 1 / (e^2 + 1) = 0.119
    orders, gamma = np.array(PURE["short_orders"]), 1 / PURE["lambda"]
    (vote,) = PURE["votes"]
    close(laplace_log_q([vote["hist"]], gamma), vote["logq"])
    close(laplace_moments([vote["hist"]], gamma=gamma, orders=orders - 1) / (orders - 1), vote["rdp_by_short_order"])
    moments = laplace_moments([vote["hist"]], gamma=gamma, orders=LONG - 1)
    close(classic(moments / (LONG - 1), LONG, PURE["delta"]).min(), PURE["eps_data_dependent"])


def test_original_code_of_2017_falls_below_the_truth_where_we_keep_the_data_independent_value():
    # gamma = 1, votes 3:2: q = 0.276 lies between 1/(e^2+1) and 1/2, where PATE 2017's code still uses the formula
    q, growth = 3 / (4 * math.e), math.exp(2.0)
    published = math.log((1 - q) * ((1 - q) / (1 - growth * q)) + q * growth)
    neighbour = q  # votes 2:3 swap the two probabilities, and q is exact for two classes
    true = math.log((1 - q) * ((1 - q) / neighbour) + q * (q / (1 - neighbour)))
    ours = laplace_moments([[3, 2]], gamma=1.0, orders=[1])[0]
    assert published < 0.43 < 0.69 < true < ours == 2.0


@pytest.mark.parametrize("seed", range(40))
def test_laplace_equals_the_formula_in_400_digits(seed):
    counts, gamma, _, votes = random_case(seed)
    orders = [0.3, 1.0, 7.0, 60.5, 1000.0]
    with mpmath.workdps(400):
        exact = [mp_laplace(counts, gamma, votes, order) for order in orders]
        log_q = float(mpmath.log(exact[0][0]))
    ours = laplace_moments([counts], gamma=gamma, votes=votes, orders=orders)
    np.testing.assert_allclose(ours, [float(value) for _, value in exact], rtol=1e-11)
    np.testing.assert_allclose(laplace_log_q([counts], gamma), log_q, rtol=1e-13)


def test_it_equals_the_formula_in_1200_digits_where_log_q_is_minus_2000():
    with mpmath.workdps(1200):
        exact = [mp_laplace([2000, 0, 0], 1.0, 1, order) for order in (900.0, 998.0, 1005.0)]
    assert all(-2020 < mpmath.log(q) < -1980 for q, _ in exact)
    ours = laplace_moments([[2000, 0, 0]], gamma=1.0, orders=[900.0, 998.0, 1005.0])
    np.testing.assert_allclose(ours, [float(value) for _, value in exact], rtol=1e-10)


def test_the_random_cases_reach_both_sides_of_the_range():
    below = 0
    for counts, gamma, _, votes in map(random_case, range(40)):
        setting = {"gamma": gamma, "votes": votes, "orders": [1.0]}
        below += laplace_moments([counts], **setting)[0] < laplace_independent_moments(**setting)[0]
    assert 8 <= below <= 32


def test_win_probabilities_of_the_numerical_truth_sum_to_one_and_match_two_classes():
    assert math.isclose(np.exp(laplace_wins([9, 5, 1], 0.7)).sum(), 1.0, rel_tol=1e-9)
    assert math.isclose(laplace_wins([9, 5], 0.7)[1], laplace_log_q([[9, 5]], 0.7)[0], rel_tol=1e-9)


@pytest.mark.parametrize("counts", THREE, ids=str)
@pytest.mark.parametrize("gamma", [0.1, 0.5, 1.5])
@pytest.mark.parametrize("votes", [1, 2])
def test_laplace_bound_is_never_below_the_true_divergence(counts, gamma, votes):
    orders = np.array([1.2, 2.0, 5.0, 20.0])
    bound = laplace_moments([counts], gamma=gamma, votes=votes, orders=orders - 1) / (orders - 1)
    here = laplace_wins(counts, gamma)
    assert here.max() >= math.log1p(-math.exp(laplace_log_q([counts], gamma)[0])) - 1e-9
    for other in moved(counts, votes):
        true = [divergence(here, laplace_wins(other, gamma), order) for order in orders]
        assert (np.array(true) <= bound + 1e-9).all(), other


@pytest.mark.parametrize("name", ODD_COUNTS)
@pytest.mark.parametrize("gamma", [1e-200, 1e-9, 0.02, 1.0, 50.0, 1e9, 1e200])
def test_every_value_is_a_number_between_zero_and_the_data_independent_one(name, gamma):
    counts = ODD_COUNTS[name]
    for votes in (1, 1000):
        most = laplace_independent_moments(gamma=gamma, votes=votes, orders=HUGE)
        for row in counts:
            moments = laplace_moments([row], gamma=gamma, votes=votes, orders=HUGE)
            assert ((moments >= 0) & (moments <= most * (1 + 1e-12))).all()
        epsilon = laplace_epsilon(counts, gamma=gamma, votes=votes, delta=1e-6)
        assert epsilon >= 0
        assert len(counts) or epsilon == 0


def test_gap_times_gamma_of_1000_keeps_its_logarithm():
    log_q = laplace_log_q([[1000, 0], [500, 0]], 1.0)
    np.testing.assert_allclose(log_q, [math.log(1002 / 4) - 1000, math.log(502 / 4) - 500], rtol=1e-14)
    # q = 1e-215, yet order 500 pays: log(1 + q e^(2 * 500))
    moments = laplace_moments([[500, 0]], gamma=1.0, orders=[500])
    np.testing.assert_allclose(moments, 500 + math.log(502 / 4), rtol=1e-12)


def test_where_rounding_of_log_q_would_decide_the_data_independent_value_stands():
    # inside the range, but the theorem's denominator is 1e-9 of a difference of 40
    low, high = 2.0, 3.0
    for _ in range(60):
        gap = (low + high) / 2
        low, high = (gap, high) if math.log((2 + 20 * gap) / 4) - 20 * gap + 40 > -1e-9 else (low, gap)
    log_q = laplace_log_q([[high, 0.0]], 20.0)
    assert -2e-9 < log_q[0] + 40 < -1e-10
    assert laplace_moments([[high, 0.0]], gamma=20.0, orders=[1.0]).tolist() == [40.0]


@settings(max_examples=150)
@given(histograms, gammas, some_votes)
def test_bounds_lie_between_zero_and_the_data_independent_value(counts, gamma, votes):
    moments = laplace_moments([counts], gamma=gamma, votes=votes, orders=ORDERS)
    most = laplace_independent_moments(gamma=gamma, votes=votes, orders=ORDERS)
    assert ((moments >= 0) & (moments <= most)).all()


@settings(max_examples=150)
@given(histograms, gammas, some_votes)
def test_more_votes_for_the_plurality_never_cost_more(counts, gamma, votes):
    ahead = list(counts)
    ahead[int(np.argmax(counts))] += 1
    log_q = laplace_log_q([counts, ahead], gamma)
    assert log_q[1] <= log_q[0]
    before, after = (laplace_moments([h], gamma=gamma, votes=votes, orders=ORDERS) for h in (counts, ahead))
    assert (after <= before * (1 + 1e-9)).all()


@settings(max_examples=100)
@given(histograms, st.randoms(use_true_random=False), gammas)
def test_permuting_the_classes_changes_nothing(counts, random, gamma):
    shuffled = random.sample(counts, len(counts))
    ours, same = (laplace_moments([h], gamma=gamma, orders=ORDERS) for h in (shuffled, counts))
    np.testing.assert_allclose(ours, same, rtol=1e-11, atol=1e-300)


@settings(max_examples=60)
@given(tables, gammas)
def test_costs_of_queries_add_up_and_repeats_count(rows, gamma):
    rows = [*rows, rows[0]]
    one_by_one = [laplace_moments([row], gamma=gamma, orders=ORDERS) for row in rows]
    np.testing.assert_allclose(laplace_moments(rows, gamma=gamma, orders=ORDERS), sum(one_by_one), rtol=1e-12)


def test_default_orders_lose_little_against_many():
    rows, many = rows_of(LAPLACE[3]), np.geomspace(0.01, 5000, 3000)
    for gamma in (0.005, 0.05, 0.5):
        best = laplace_epsilon(rows, gamma=gamma, delta=1e-5, orders=many)
        assert best * (1 - 1e-9) <= laplace_epsilon(rows, gamma=gamma, delta=1e-5) <= 1.02 * best


def test_epsilon_is_that_of_the_orders_and_votes_that_are_given():
    rows = [[40, 3, 1]] * 20
    for votes in (1, 3):
        setting = {"gamma": 0.3, "votes": votes}
        moments = laplace_moments(rows, **setting, orders=[2.5, 7.0])
        expected = rdp_epsilon(moments / [2.5, 7.0], orders=[3.5, 8.0], delta=1e-5)
        assert laplace_epsilon(rows, **setting, delta=1e-5, orders=[2.5, 7.0]) == min(expected, 20 * 0.6 * votes)
    assert laplace_epsilon(rows, gamma=0.3, delta=1e-5) == laplace_epsilon(rows, gamma=0.3, delta=1e-5, votes=1)


def test_no_query_costs_nothing():
    assert laplace_epsilon(np.zeros((0, 3), dtype=np.int64), gamma=1.0, delta=1e-5) == 0


def test_a_single_query_never_costs_more_than_its_pure_guarantee():
    assert laplace_epsilon([[5, 5]], gamma=0.05, votes=2, delta=1e-5) == pytest.approx(0.2, rel=1e-12)


def test_100000_distinct_queries_at_64_orders_take_under_2_seconds_and_300_megabytes():
    rng = np.random.default_rng(0)
    counts = rng.dirichlet(np.full(10, 0.1), 100_000) * 250
    counts[:, 0] += 250  # all inside the range, no two alike: nothing to save by
    orders = np.arange(1, 65)
    start = time.process_time()
    laplace_moments(counts, gamma=0.05, orders=orders)
    assert time.process_time() - start < 2.0
    tracemalloc.start()
    try:
        laplace_moments(counts, gamma=0.05, orders=orders)
        assert tracemalloc.get_traced_memory()[1] < 300e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("value", [0, -1.0, math.nan, math.inf, True, "1"])
def test_noise_that_is_no_finite_positive_number_is_refused(value):
    with pytest.raises(ConfigError, match="gamma must be finite and > 0, got"):
        laplace_moments([[3, 1]], gamma=value, orders=[1])
    with pytest.raises(ConfigError, match="gamma must be finite and > 0, got"):
        laplace_log_q([[3, 1]], value)


@pytest.mark.parametrize("votes", [0, -1, 1.5, True, math.nan])
def test_votes_that_are_no_positive_whole_number_are_refused(votes):
    with pytest.raises(ConfigError, match="votes must be a whole number >= 1"):
        laplace_moments([[3, 1]], gamma=1.0, votes=votes, orders=[1])


@pytest.mark.parametrize("orders", [[], [0.0], [-1.0], [math.nan], [math.inf], [[2.0]]])
def test_orders_outside_their_range_are_refused(orders):
    with pytest.raises(ConfigError, match="orders must be finite numbers > 0"):
        laplace_moments([[3, 1]], gamma=1.0, orders=orders)


@pytest.mark.parametrize(
    "counts",
    [[3, 1], [[3]], [[True, False]], [["a", "b"]], np.zeros((2, 2, 2))],
    ids=["flat", "one-class", "bool", "text", "cube"],
)
def test_counts_of_another_shape_or_type_are_refused(counts):
    with pytest.raises(DataError, match="counts must be numbers of shape"):
        laplace_log_q(counts, 1.0)


@pytest.mark.parametrize("delta", [0, 1, 1.5, -0.1, math.nan, True])
def test_delta_outside_0_to_1_is_refused(delta):
    with pytest.raises(ConfigError, match="delta must be"):
        laplace_epsilon([[3, 1]], gamma=1.0, delta=delta)

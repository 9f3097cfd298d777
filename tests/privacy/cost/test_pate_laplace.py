"""Data-dependent cost of Laplace noise: the original code's in range, mpmath's everywhere, never below the truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from pate_truth import (
    LONG,
    ORACLE,
    classic,
    close,
    rows_of,
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


def test_epsilon_is_that_of_the_orders_and_votes_that_are_given():
    rows = [[40, 3, 1]] * 20
    for votes in (1, 3):
        setting = {"gamma": 0.3, "votes": votes}
        moments = laplace_moments(rows, **setting, orders=[2.5, 7.0])
        expected = rdp_epsilon(moments / [2.5, 7.0], orders=[3.5, 8.0], delta=1e-5)
        assert laplace_epsilon(rows, **setting, delta=1e-5, orders=[2.5, 7.0]) == min(expected, 20 * 0.6 * votes)
    assert laplace_epsilon(rows, gamma=0.3, delta=1e-5) == laplace_epsilon(rows, gamma=0.3, delta=1e-5, votes=1)


def test_a_single_query_never_costs_more_than_its_pure_guarantee():
    assert laplace_epsilon([[5, 5]], gamma=0.05, votes=2, delta=1e-5) == pytest.approx(0.2, rel=1e-12)


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

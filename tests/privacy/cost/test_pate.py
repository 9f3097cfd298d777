"""PATE's bounds of both noises: the original codes' values, the formulas in many digits, and never below the truth."""

import dataclasses
import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pate_truth import (
    LONG,
    ODD_COUNTS,
    ORACLE,
    THREE,
    classic,
    close,
    divergence,
    gammas,
    gaussian_wins,
    histograms,
    laplace_wins,
    moved,
    mp_gaussian,
    mp_laplace,
    random_case,
    rows_of,
    sigmas,
    some_votes,
    tables,
)
from scipy.special import ndtr

from fedkd_flwr.errors import DataError
from fedkd_flwr.privacy.cost import pate
from fedkd_flwr.privacy.cost.pate import (
    data_dependent_epsilon,
    gaussian_log_q,
    gaussian_rdp,
    laplace_log_q,
    laplace_rdp,
)
from fedkd_flwr.privacy.noise.votes import GaussianMax, LaplaceMax

ORDERS = 1.0 + np.array([0.5, 1.0, 3.0, 17.0, 120.0])


class Noise(NamedTuple):
    """One noise: its mechanism for a scale, log q, divergences of votes, their data-independent values, the truth."""

    mechanism: Callable[..., Any]
    log_q: Callable[..., Any]
    rdp: Callable[..., Any]
    most: Callable[..., Any]
    wins: Callable[..., Any]
    exact: Callable[..., Any]
    scales: st.SearchStrategy[float]


def _laplace_most(gamma, votes, orders):
    g, moments = gamma * votes, np.asarray(orders) - 1
    return np.minimum(2 * g * g * (moments + 1), 2 * g)


GAUSSIAN = Noise(
    mechanism=lambda sigma, **more: GaussianMax(sigma=sigma, **more),
    log_q=gaussian_log_q,
    rdp=lambda counts, sigma, votes, orders: gaussian_rdp(gaussian_log_q(counts, sigma), sigma / votes, orders),
    most=lambda sigma, votes, orders: np.asarray(orders) * (votes / sigma) ** 2,
    wins=gaussian_wins,
    exact=mp_gaussian,
    scales=sigmas,
)
LAPLACE = Noise(
    mechanism=lambda gamma, **more: LaplaceMax(gamma=gamma, **more),
    log_q=laplace_log_q,
    rdp=lambda counts, gamma, votes, orders: laplace_rdp(laplace_log_q(counts, gamma), gamma * votes, orders),
    most=_laplace_most,
    wins=laplace_wins,
    exact=lambda counts, gamma, votes, order: _laplace_exact(counts, gamma, votes, mpmath.mpf(order) - 1),
    scales=gammas,
)


def _laplace_exact(counts, gamma, votes, moment):
    q, moments = mp_laplace(counts, gamma, votes, moment)
    return q, moments / moment


def both(names, gaussian, laplace):
    """Parametrise by both noises, with values of their own."""
    values = [(GAUSSIAN, *gaussian), (LAPLACE, *laplace)]
    return pytest.mark.parametrize(f"noise, {names}", values, ids=["gauss", "lap"])


either = pytest.mark.parametrize("noise", [GAUSSIAN, LAPLACE], ids=["gauss", "lap"])


# ---------------------------------------------------------------- the original codes


@pytest.mark.parametrize("case", [c for c in ORACLE["pate2018"] if "sigma" in c], ids=lambda c: c["id"])
def test_gaussian_values_and_epsilons_are_the_original_codes(case):
    sigma, delta, rows = case["sigma"], case["delta"], rows_of(case)
    for vote in case["votes"]:
        log_q = gaussian_log_q([vote["hist"]], sigma)
        close(log_q, vote["logq"])
        rdp = gaussian_rdp(log_q, sigma, np.array(case["short_orders"], dtype=float))
        # no tolerance below: divergences of 1e-257 are meant
        np.testing.assert_allclose(rdp, vote["rdp_by_order"], rtol=1e-9)
    orders = np.array(case["orders"], dtype=float) if isinstance(case["orders"], list) else LONG
    close(classic(GAUSSIAN.rdp(rows, sigma, 1, orders), orders, delta).min(), case["eps_data_dependent"])
    close(classic(len(rows) * GAUSSIAN.most(sigma, 1, orders), orders, delta).min(), case["eps_data_independent"])


@pytest.mark.parametrize("case", ORACLE["pate2017_lnmax"], ids=lambda c: c["id"])
def test_laplace_values_sums_and_epsilons_are_the_original_codes(case):
    gamma, delta, rows = case["noise_eps"], case["delta"], rows_of(case)
    for vote in case["votes"]:
        counts = np.array([vote["hist"]])
        as_near_as_second = [[counts.max(), *[np.sort(vote["hist"])[-2]] * (counts.size - 1)]]
        close(np.exp(laplace_log_q(counts, gamma)), vote["q"])
        close(np.exp(laplace_log_q(as_near_as_second, gamma)), vote["q_approx"])
        moments = np.array([int(order) for order in vote["logmgf_at_l"]])
        found = LAPLACE.rdp(counts, gamma, 1, 1.0 + moments)
        assert vote["q_le_theorem_limit"] == (vote["q"] <= case["theorem_q_limit"])
        if vote["q_le_theorem_limit"]:
            close(moments * found, list(vote["logmgf_at_l"].values()))
        else:
            assert found.tolist() == _laplace_most(gamma, 1, 1.0 + moments).tolist()
    moments = np.arange(1, case["n_moments"] + 1)
    rdp, first = LAPLACE.rdp(rows, gamma, 1, 1.0 + moments), len(case["sum_logmgf"])
    close((moments * rdp)[:first], case["sum_logmgf"])
    epsilons = classic(rdp, moments + 1, delta)
    close(epsilons[:first], case["eps_by_moment"])
    close(epsilons.min(), case["eps_data_dependent"])
    independent = classic(len(rows) * _laplace_most(gamma, 1, 1.0 + moments), moments + 1, delta)
    close(independent.min(), case["eps_data_independent"])
    assert moments[epsilons.argmin()] == case["argmin_moment"]


def test_pure_dp_case_of_2018_refuses_the_theorem_outside_its_range():
    # q = 0.276 > 1 / (e^2 + 1) = 0.119
    (pure,) = [c for c in ORACLE["pate2018"] if "lambda" in c]
    gamma, (vote,) = 1 / pure["lambda"], pure["votes"]
    close(laplace_log_q([vote["hist"]], gamma), vote["logq"])
    orders = np.array(pure["short_orders"], dtype=float)
    close(LAPLACE.rdp([vote["hist"]], gamma, 1, orders), vote["rdp_by_short_order"])
    close(classic(LAPLACE.rdp([vote["hist"]], gamma, 1, LONG), LONG, pure["delta"]).min(), pure["eps_data_dependent"])


# ---------------------------------------------------------------- the formulas, exactly


@pytest.mark.parametrize("seed", range(12))
@both("drawn, orders", (2, [1.05, 2.0, 7.5, 30.0, 300.0]), (1, [1.3, 2.0, 8.0, 61.5, 1001.0]))
def test_the_bound_equals_the_formula_in_400_digits(noise, drawn, orders, seed):
    case = random_case(seed)
    counts, scale, votes = case[0], case[drawn], case[3]
    with mpmath.workdps(400):
        exact = [noise.exact(counts, scale, votes, order) for order in orders]
        log_q = float(mpmath.log(exact[0][0]))
    ours = noise.rdp([counts], scale, votes, np.array(orders))
    np.testing.assert_allclose(ours, [float(value) for _, value in exact], rtol=1e-11)
    np.testing.assert_allclose(noise.log_q([counts], scale), log_q, rtol=1e-13)


@both("scale", (2.0,), (0.7,))
def test_win_probabilities_of_the_numerical_truth_sum_to_one_and_match_two_classes(noise, scale):
    assert math.isclose(np.exp(noise.wins([9, 5, 1], scale)).sum(), 1.0, rel_tol=1e-9)
    assert math.isclose(noise.wins([9, 5], scale)[1], noise.log_q([[9, 5]], scale)[0], rel_tol=1e-9)


@pytest.mark.parametrize("counts", THREE, ids=str)
@both("scales", ((1.0, 3.0, 8.0),), ((0.1, 0.5, 1.5),))
@pytest.mark.parametrize("votes", [1, 2])
def test_the_bound_is_never_below_the_true_divergence(counts, noise, scales, votes):
    orders = np.array([1.2, 2.0, 5.0, 20.0])
    for scale in scales:
        bound, here = noise.rdp([counts], scale, votes, orders), noise.wins(counts, scale)
        assert here.max() >= math.log1p(-math.exp(noise.log_q([counts], scale)[0])) - 1e-9
        for other in moved(counts, votes):
            true = [divergence(here, noise.wins(other, scale), order) for order in orders]
            assert (np.array(true) <= bound + 1e-9).all(), (scale, other)


def test_epsilon_bounds_the_two_class_release_itself():
    # hockey-stick divergence of 3 queries, all 8 outcomes, against the unit that moves every query
    rows, sigma, delta = [(14, 2), (11, 5), (15, 1)], 3.0, 1e-3
    epsilon = data_dependent_epsilon(GaussianMax(sigma=sigma), np.array(rows), delta)
    outcomes = np.indices((2, 2, 2)).reshape(3, -1)

    def probability(votes):
        ahead = np.array([[a - b, b - a] for a, b in votes]) / (sigma * math.sqrt(2))
        return np.prod([ndtr(ahead[i])[outcomes[i]] for i in range(3)], axis=0)

    here = probability(rows)
    for shift in (-1, 1):
        there = probability([(a + shift, b - shift) for a, b in rows])
        assert np.maximum(here - math.exp(epsilon) * there, 0).sum() <= delta


# ---------------------------------------------------------------- far out, and at edges


@both("scales", ((1e-3, 50.0, 1e9),), ((1e-9, 0.02, 50.0, 1e200),))
@pytest.mark.parametrize("name", ODD_COUNTS)
def test_every_value_is_a_number_between_zero_and_the_data_independent_one(noise, name, scales):
    orders = 1.0 + np.array([1e-3, 1.0, 8.0, 1e3, 1e6])
    for scale, votes in itertools.product(scales, (1, 1000)):
        with np.errstate(over="ignore"):
            most = noise.most(scale, votes, orders)
        for row in ODD_COUNTS[name]:
            rdp = noise.rdp([row], scale, votes, orders)
            assert ((rdp >= 0) & (rdp <= most * (1 + 1e-12))).all()


def test_log_q_of_minus_2000_costs_nothing_at_low_orders_and_all_at_high_ones_and_q_of_zero_nothing():
    rdp = gaussian_rdp([-2000.0], 10.0, np.array([2.0, 400.0, 600.0]))
    assert rdp[0] == 0.0
    assert 0 < rdp[1] < 4.0
    assert rdp[2] == pytest.approx(6.0, rel=1e-15)  # above mu1 = 1 + 10 sqrt(2000)
    assert gaussian_rdp([-np.inf], 3.0, np.array([8.0, 1e3, 1e300])).tolist() == [0.0] * 3


def test_gap_times_gamma_of_1000_keeps_its_logarithm():
    log_q = laplace_log_q([[1000, 0], [500, 0]], 1.0)
    np.testing.assert_allclose(log_q, [math.log(1002 / 4) - 1000, math.log(502 / 4) - 500], rtol=1e-14)
    # q = 1e-215, yet order 501 pays: log(1 + q e^(2 * 500))
    rdp = LAPLACE.rdp([[500, 0]], 1.0, 1, np.array([501.0]))
    np.testing.assert_allclose(rdp, (500 + math.log(502 / 4)) / 500, rtol=1e-12)


def test_where_rounding_of_log_q_would_decide_the_data_independent_value_stands():
    # inside the ranges, but the theorems' denominators are 1e-13 and 1e-9 of a difference of 40
    sigma, order = math.sqrt(1 / 40), np.array([1.5])
    assert gaussian_rdp([-40.0 * (1 + 1e-13)], sigma, order).tolist() == (order / sigma**2).tolist()
    low, high = 2.0, 3.0
    for _ in range(60):
        gap = (low + high) / 2
        low, high = (gap, high) if math.log((2 + 20 * gap) / 4) - 20 * gap + 40 > -1e-9 else (low, gap)
    log_q = laplace_log_q([[high, 0.0]], 20.0)
    assert -2e-9 < log_q[0] + 40 < -1e-10
    assert laplace_rdp(log_q, 20.0, np.array([2.0])).tolist() == [40.0]


# ---------------------------------------------------------------- what holds of all votes


@either
@given(counts=histograms, votes=some_votes, data=st.data())
def test_more_votes_for_the_plurality_never_cost_more_and_nothing_more_than_without_votes(noise, counts, votes, data):
    scale, ahead = data.draw(noise.scales), list(counts)
    ahead[int(np.argmax(counts))] += 1
    log_q = noise.log_q([counts, ahead], scale)
    assert log_q[1] <= log_q[0]
    here, there = (noise.rdp([rows], scale, votes, ORDERS) for rows in (counts, ahead))
    most = noise.most(scale, votes, ORDERS)
    assert ((there >= 0) & (there <= here * (1 + 1e-9)) & (here <= most * (1 + 1e-12))).all()


@either
@given(rows=tables, data=st.data())
def test_costs_of_queries_add_up_and_repeats_count(noise, rows, data):
    rows, scale = [*rows, rows[0]], data.draw(noise.scales)
    one_by_one = [noise.rdp([row], scale, 1, ORDERS) for row in rows]
    np.testing.assert_allclose(noise.rdp(rows, scale, 1, ORDERS), sum(one_by_one), rtol=1e-12)


def test_many_rows_are_cut_into_chunks_that_join_without_a_seam(monkeypatch):
    counts = np.random.default_rng(0).multinomial(90, [0.8, 0.1, 0.1], size=500)
    whole = LAPLACE.rdp(counts, 0.1, 1, ORDERS)
    monkeypatch.setattr(pate, "_ROWS", 7)
    np.testing.assert_allclose(LAPLACE.rdp(counts, 0.1, 1, ORDERS), whole, rtol=1e-12)


# ---------------------------------------------------------------- epsilon


@both("scale", (3.0,), (0.3,))
@pytest.mark.parametrize("votes", [1, 3])
def test_epsilon_is_that_of_the_votes_that_move_at_the_given_orders(noise, scale, votes):
    rows, orders = [[10, 3, 1]] * 20, np.array([3.5, 8.0])
    rdp = noise.rdp(rows, scale, votes, orders)
    # Canonne, Kamath and Steinke, Proposition 12
    expected = (rdp + np.log1p(-1 / orders) - np.log(1e-5 * orders) / (orders - 1)).min()
    pure = 2 * scale * votes * len(rows) if noise is LAPLACE else math.inf
    found = data_dependent_epsilon(noise.mechanism(scale, votes=votes), np.array(rows), 1e-5, orders=orders)
    assert found == pytest.approx(min(expected, pure), rel=1e-12)


@either
def test_votes_counted_in_halves_cost_what_the_votes_do_that_they_are(noise):
    whole = np.random.default_rng(0).integers(0, 60, (100, 3))
    mechanism = noise.mechanism(5.0)
    halved = dataclasses.replace(mechanism, counts_per_vote=2)
    assert data_dependent_epsilon(halved, 2 * whole, 1e-5) == data_dependent_epsilon(mechanism, whole, 1e-5)


def test_a_single_query_never_costs_more_than_its_pure_guarantee_and_none_costs_nothing():
    mechanism = LaplaceMax(gamma=0.05, votes=2)
    assert data_dependent_epsilon(mechanism, np.array([[5, 5]]), 1e-5) == pytest.approx(0.2, rel=1e-12)
    for noise in (mechanism, GaussianMax(sigma=1.0)):
        assert data_dependent_epsilon(noise, np.zeros((0, 4), dtype=int), 1e-5) == 0.0


def test_what_is_no_count_of_votes_is_refused():
    with pytest.raises(DataError, match="counts must be integers"):
        data_dependent_epsilon(LaplaceMax(gamma=1.0), np.array([[0.5, 1.0]]), 1e-5)

"""What PATE's bounds of both noises share: the formulas in many digits, never below the truth, and the conversion."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable
from typing import Any, NamedTuple

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pate_truth import (
    HUGE,
    ODD_COUNTS,
    ORACLE,
    ORDERS,
    THREE,
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

from fedkd_flwr.errors import ConfigError, DataError
from fedkd_flwr.privacy.cost import pate_bounds
from fedkd_flwr.privacy.cost.pate_bounds import rdp_epsilon
from fedkd_flwr.privacy.cost.pate_gaussian import (
    gaussian_epsilon,
    gaussian_independent_rdp,
    gaussian_log_q,
    gaussian_rdp,
)
from fedkd_flwr.privacy.cost.pate_laplace import (
    laplace_epsilon,
    laplace_independent_moments,
    laplace_log_q,
    laplace_moments,
)


class Noise(NamedTuple):
    """The functions of one noise by what they do; orders are above ``first``: moments count them from 0."""

    scale: str
    first: float
    log_q: Callable[..., Any]
    cost: Callable[..., Any]
    most: Callable[..., Any]
    epsilon: Callable[..., Any]
    wins: Callable[..., Any]
    exact: Callable[..., Any]
    scales: st.SearchStrategy[float]


def _gaussian(counts, *, sigma, **setting):
    return gaussian_rdp(gaussian_log_q(counts, sigma), sigma=sigma, **setting)


GAUSSIAN = Noise(
    scale="sigma",
    first=1.0,
    log_q=gaussian_log_q,
    cost=_gaussian,
    most=gaussian_independent_rdp,
    epsilon=gaussian_epsilon,
    wins=gaussian_wins,
    exact=mp_gaussian,
    scales=sigmas,
)
LAPLACE = Noise(
    scale="gamma",
    first=0.0,
    log_q=laplace_log_q,
    cost=laplace_moments,
    most=laplace_independent_moments,
    epsilon=laplace_epsilon,
    wins=laplace_wins,
    exact=mp_laplace,
    scales=gammas,
)


def both(names, gaussian, laplace):
    """Parametrise by both noises, with values of their own."""
    return pytest.mark.parametrize(
        f"noise, {names}", [(GAUSSIAN, *gaussian), (LAPLACE, *laplace)], ids=["gauss", "lap"]
    )


either = pytest.mark.parametrize("noise", [GAUSSIAN, LAPLACE], ids=["gauss", "lap"])


@pytest.mark.parametrize("seed", range(12))
@both("drawn, orders", (2, [1.05, 2.0, 7.5, 30.0, 300.0]), (1, [0.3, 1.0, 7.0, 60.5, 1000.0]))
def test_the_bound_equals_the_formula_in_400_digits(noise, drawn, orders, seed):
    case = random_case(seed)
    counts, scale, votes = case[0], case[drawn], case[3]
    with mpmath.workdps(400):
        exact = [noise.exact(counts, scale, votes, order) for order in orders]
        log_q = float(mpmath.log(exact[0][0]))
    ours = noise.cost([counts], **{noise.scale: scale}, votes=votes, orders=orders)
    np.testing.assert_allclose(ours, [float(value) for _, value in exact], rtol=1e-11)
    np.testing.assert_allclose(noise.log_q([counts], scale), log_q, rtol=1e-13)


@both("most, scale, orders", (896, 10.0, [300.0]), (2000, 1.0, [900.0, 1005.0]))
def test_it_equals_the_formula_in_1200_digits_where_log_q_is_minus_2000(noise, most, scale, orders):
    with mpmath.workdps(1200):
        exact = [noise.exact([most, 0, 0], scale, 1, order) for order in orders]
    assert all(-2020 < mpmath.log(q) < -1980 for q, _ in exact)
    ours = noise.cost([[most, 0, 0]], **{noise.scale: scale}, orders=orders)
    np.testing.assert_allclose(ours, [float(value) for _, value in exact], rtol=1e-10)


@both("drawn, order", (2, 2.0), (1, 1.0))
def test_the_random_cases_reach_both_sides_of_the_range(noise, drawn, order):
    below = 0
    for case in map(random_case, range(40)):
        setting = {noise.scale: case[drawn], "votes": case[3], "orders": [order]}
        below += noise.cost([case[0]], **setting)[0] < noise.most(**setting)[0]
    assert 8 <= below <= 32


@both("scale", (2.0,), (0.7,))
def test_win_probabilities_of_the_numerical_truth_sum_to_one_and_match_two_classes(noise, scale):
    assert math.isclose(np.exp(noise.wins([9, 5, 1], scale)).sum(), 1.0, rel_tol=1e-9)
    assert math.isclose(noise.wins([9, 5], scale)[1], noise.log_q([[9, 5]], scale)[0], rel_tol=1e-9)


@pytest.mark.parametrize("counts", THREE, ids=str)
@both("scales", ((1.0, 3.0, 8.0),), ((0.1, 0.5, 1.5),))
@pytest.mark.parametrize("votes", [1, 2])
def test_the_bound_is_never_below_the_true_divergence(counts, noise, scales, votes):
    orders = np.array([1.2, 2.0, 5.0, 20.0])
    asked = orders - 1 + noise.first
    for scale in scales:
        cost = noise.cost([counts], **{noise.scale: scale}, votes=votes, orders=asked)
        bound = cost if noise is GAUSSIAN else cost / asked
        here = noise.wins(counts, scale)
        assert here.max() >= math.log1p(-math.exp(noise.log_q([counts], scale)[0])) - 1e-9
        for other in moved(counts, votes):
            true = [divergence(here, noise.wins(other, scale), order) for order in orders]
            assert (np.array(true) <= bound + 1e-9).all(), (scale, other)


@either
@pytest.mark.parametrize("name", ODD_COUNTS)
@pytest.mark.parametrize("scale", [1e-200, 0.02, 50.0, 1e200])
def test_every_value_is_a_number_between_zero_and_the_data_independent_one(noise, name, scale):
    counts, orders = ODD_COUNTS[name], 1.0 + np.array(HUGE[1:]) if noise is GAUSSIAN else HUGE
    for votes in (1, 1000):
        setting = {noise.scale: scale, "votes": votes}
        most = noise.most(**setting, orders=orders)
        for row in counts:
            cost = noise.cost([row], **setting, orders=orders)
            assert ((cost >= 0) & (cost <= most * (1 + 1e-12))).all()
        epsilon = noise.epsilon(counts, **setting, delta=1e-6)
        assert epsilon >= 0
        assert len(counts) or epsilon == 0


@either
@given(counts=histograms, votes=some_votes, data=st.data())
def test_bounds_lie_between_zero_and_the_data_independent_value(noise, counts, votes, data):
    setting = {noise.scale: data.draw(noise.scales), "votes": votes, "orders": noise.first + ORDERS}
    cost = noise.cost([counts], **setting)
    assert ((cost >= 0) & (cost <= noise.most(**setting))).all()


@either
@given(counts=histograms, votes=some_votes, data=st.data())
def test_more_votes_for_the_plurality_never_cost_more(noise, counts, votes, data):
    scale, ahead = data.draw(noise.scales), list(counts)
    ahead[int(np.argmax(counts))] += 1
    log_q = noise.log_q([counts, ahead], scale)
    assert log_q[1] <= log_q[0]
    setting = {noise.scale: scale, "votes": votes, "orders": noise.first + ORDERS}
    assert (noise.cost([ahead], **setting) <= noise.cost([counts], **setting) * (1 + 1e-9)).all()


@either
@given(counts=histograms, random=st.randoms(use_true_random=False), data=st.data())
def test_permuting_the_classes_changes_nothing(noise, counts, random, data):
    setting = {noise.scale: data.draw(noise.scales), "orders": noise.first + ORDERS}
    ours, same = (noise.cost([h], **setting) for h in (random.sample(counts, len(counts)), counts))
    np.testing.assert_allclose(ours, same, rtol=1e-11, atol=1e-300)


@either
@given(rows=tables, data=st.data())
def test_costs_of_queries_add_up_and_repeats_count(noise, rows, data):
    rows, setting = [*rows, rows[0]], {noise.scale: data.draw(noise.scales), "orders": noise.first + ORDERS}
    one_by_one = [noise.cost([row], **setting) for row in rows]
    np.testing.assert_allclose(noise.cost(rows, **setting), sum(one_by_one), rtol=1e-12)


@both("scales", ((4.0, 40.0, 400.0),), ((0.005, 0.05, 0.5),))
def test_default_orders_lose_little_against_many(noise, scales):
    rows, many = rows_of(ORACLE["pate2017_lnmax"][3]), noise.first + np.geomspace(0.01, 5000, 3000)
    for scale in scales:
        setting = {noise.scale: scale, "delta": 1e-5}
        best = noise.epsilon(rows, **setting, orders=many)
        assert best * (1 - 1e-9) <= noise.epsilon(rows, **setting) <= 1.02 * best


@both("scale", (20.0,), (0.05,))
def test_many_distinct_queries_at_64_orders_take_the_memory_of_a_part_of_them(noise, scale):
    counts = np.random.default_rng(0).dirichlet(np.full(10, 0.1), 30_000) * 250
    counts[:, 0] += 250  # all inside the range, no two alike: nothing to save by
    setting = {noise.scale: scale, "orders": noise.first + np.arange(1, 65)}
    tracemalloc.start()
    try:
        noise.cost(counts, **setting)
        assert tracemalloc.get_traced_memory()[1] < 100e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("value", [0, math.nan, "1"])
@pytest.mark.parametrize(
    ("scale", "function"),
    [
        ("sigma", lambda value: gaussian_log_q([[3, 1]], value)),
        ("sigma", lambda value: gaussian_rdp([-3.0], sigma=value, orders=[2])),
        ("gamma", lambda value: laplace_log_q([[3, 1]], value)),
        ("gamma", lambda value: laplace_moments([[3, 1]], gamma=value, orders=[1])),
    ],
)
def test_noise_that_is_no_finite_positive_number_is_refused(scale, function, value):
    with pytest.raises(ConfigError, match=f"{scale} must be finite and > 0, got"):
        function(value)


@either
@pytest.mark.parametrize("votes", [0, 1.5])
def test_votes_that_are_no_positive_whole_number_are_refused(noise, votes):
    with pytest.raises(ConfigError, match="votes must be a whole number >= 1"):
        noise.cost([[3, 1]], **{noise.scale: 1.0}, votes=votes, orders=[2])


@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.01, 0.5])
@pytest.mark.parametrize("scale", [0.0, 1e-12, 1e-4, 0.1, 5.0])
def test_the_conversion_is_dp_accountings(delta, scale):
    from dp_accounting.rdp import compute_epsilon

    orders = np.array([1.1, 1.5, 2.0, 4.0, 16.0, 64.0, 512.0])
    expected, _ = compute_epsilon(orders, scale * orders, delta)
    assert math.isclose(rdp_epsilon(scale * orders, orders=orders, delta=delta), expected, rel_tol=1e-12, abs_tol=1e-15)


def test_many_rows_are_cut_into_chunks_that_join_without_a_seam(monkeypatch):
    counts = np.random.default_rng(0).multinomial(90, [0.8, 0.1, 0.1], size=500)
    whole = laplace_moments(counts, gamma=0.1, orders=ORDERS)
    monkeypatch.setattr(pate_bounds, "_CELLS", 35)
    np.testing.assert_allclose(laplace_moments(counts, gamma=0.1, orders=ORDERS), whole, rtol=1e-12)


@pytest.mark.parametrize("rdp", [[1.0], [-1.0, 1.0], [math.nan, 1.0]])
def test_divergences_that_do_not_fit_their_orders_are_refused(rdp):
    with pytest.raises(DataError, match="rdp must hold a number >= 0 per order"):
        rdp_epsilon(rdp, orders=[2.0, 3.0], delta=1e-5)


@pytest.mark.parametrize("delta", [0, 1, math.nan])
def test_delta_outside_0_to_1_is_refused(delta):
    with pytest.raises(ConfigError, match=r"delta must be within \(0, 1\), got"):
        rdp_epsilon([1.0], orders=[2.0], delta=delta)

"""Data-dependent bounds: equal to the original code in range, to mpmath everywhere, and never below the truth."""

from __future__ import annotations

import json
import math
import time
import tracemalloc
from itertools import permutations
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_ndtr, logsumexp, ndtr

from fedkd_flwr.errors import ConfigError, DataError
from fedkd_flwr.privacy.cost import pate_bounds as _bounds
from fedkd_flwr.privacy.cost import pate_laplace as pate

ORACLE = json.loads((Path(__file__).parents[2] / "oracles" / "privacy.json").read_text())
LAPLACE, GAUSSIAN = ORACLE["pate2017_lnmax"], [c for c in ORACLE["pate2018"] if "sigma" in c]
(CONFIDENT,) = [c for c in ORACLE["pate2018"] if "sigma1" in c]
(PURE,) = [c for c in ORACLE["pate2018"] if "lambda" in c]
# the "long list" of PATE 2018's rdp_cumulative.py
LONG = np.concatenate([np.arange(2, 101, 0.5), np.logspace(math.log10(100), math.log10(500), 100)])
CONFIDENT_SETTING = {
    "threshold": CONFIDENT["t"],
    "sigma_threshold": CONFIDENT["sigma1"],
    "sigma": CONFIDENT["sigma2"],
}
# original code takes log(1 + x): an x below 1e-16 it gives as exactly 0
ROUNDED_AWAY = 1e-17


def _rows(case):
    return np.repeat([v["hist"] for v in case["votes"]], [v["repeat"] for v in case["votes"]], axis=0)


def _close(value, expected):
    np.testing.assert_allclose(value, expected, rtol=1e-9, atol=ROUNDED_AWAY)


# --- the original code's values


@pytest.mark.parametrize("case", LAPLACE, ids=lambda c: c["id"])
def test_laplace_per_vote_values_are_the_original_codes(case):
    gamma = case["noise_eps"]
    for vote in case["votes"]:
        counts = np.array([vote["hist"]])
        second = np.sort(vote["hist"])[-2]
        as_near_as_second = [[counts.max(), *[second] * (counts.size - 1)]]
        _close(pate.laplace_q(counts, gamma), vote["q"])
        _close(pate.laplace_q(as_near_as_second, gamma), vote["q_approx"])
        orders = [int(order) for order in vote["logmgf_at_l"]]
        moments = pate.laplace_moments(counts, gamma=gamma, orders=orders)
        assert vote["q_le_theorem_limit"] == (vote["q"] <= case["theorem_q_limit"])
        if vote["q_le_theorem_limit"]:
            _close(moments, list(vote["logmgf_at_l"].values()))
        else:
            assert moments.tolist() == pate.laplace_independent_moments(gamma=gamma, orders=orders).tolist()


@pytest.mark.parametrize("case", LAPLACE, ids=lambda c: c["id"])
def test_laplace_sums_and_epsilons_are_the_original_codes(case):
    gamma, delta, rows = case["noise_eps"], case["delta"], _rows(case)
    orders = np.arange(1, case["n_moments"] + 1)
    summed = pate.laplace_moments(rows, gamma=gamma, orders=orders)
    independent = len(rows) * pate.laplace_independent_moments(gamma=gamma, orders=orders)
    first = len(case["sum_logmgf"])
    _close(summed[:first], case["sum_logmgf"])
    _close([_classic(x, a, delta) for x, a in zip(summed[:first], orders, strict=False)], case["eps_by_moment"])
    epsilon = pate.laplace_epsilon(rows, gamma=gamma, delta=delta, orders=orders, conversion="classic")
    _close(epsilon, case["eps_data_dependent"])
    converted = pate.rdp_epsilon(independent / orders, orders=orders + 1, delta=delta, conversion="classic")
    _close(converted, case["eps_data_independent"])
    assert (
        orders[np.argmin([_classic(x, a, delta) for x, a in zip(summed, orders, strict=True)])] == case["argmin_moment"]
    )


def _classic(moment, order, delta):
    return pate.rdp_epsilon([moment / order], orders=[order + 1], delta=delta, conversion="classic")


@pytest.mark.parametrize("case", GAUSSIAN, ids=lambda c: c["id"])
def test_gaussian_values_are_the_original_codes(case):
    sigma, delta, rows = case["sigma"], case["delta"], _rows(case)
    for vote in case["votes"]:
        log_q = pate.gaussian_log_q([vote["hist"]], sigma)
        _close(log_q, vote["logq"])
        rdp = pate.gaussian_rdp(log_q, sigma=sigma, orders=case["short_orders"])
        # no tolerance below: divergences of 1e-257 are meant
        np.testing.assert_allclose(rdp, vote["rdp_by_order"], rtol=1e-9)
    orders = case["orders"] if isinstance(case["orders"], list) else LONG
    epsilon = pate.gaussian_epsilon(rows, sigma=sigma, delta=delta, orders=orders, conversion="classic")
    _close(epsilon, case["eps_data_dependent"])
    independent = len(rows) * pate.gaussian_independent_rdp(sigma=sigma, orders=orders)
    converted = pate.rdp_epsilon(independent, orders=orders, delta=delta, conversion="classic")
    _close(converted, case["eps_data_independent"])


def test_confident_expected_cost_is_the_original_codes():
    rows, orders = _rows(CONFIDENT), CONFIDENT["short_orders"]
    setting = {key: CONFIDENT_SETTING[key] for key in ("threshold", "sigma_threshold")}
    answered = pate.confident_log_answered(rows, **setting)
    _close(np.exp(answered).sum(), CONFIDENT["expected_answered"])
    for vote in CONFIDENT["votes"]:
        counts = [vote["hist"]]
        _close(pate.confident_log_answered(counts, **setting), vote["logpr_answered"])
        expected = np.array(vote["rdp_threshold_short"])
        expected = expected + math.exp(vote["logpr_answered"]) * np.array(vote["rdp_gnmax_short"])
        _close(pate.confident_rdp(counts, **CONFIDENT_SETTING, orders=orders, cost="expected"), expected)
    epsilon = pate.confident_epsilon(
        rows, **CONFIDENT_SETTING, delta=CONFIDENT["delta"], orders=LONG, cost="expected", conversion="classic"
    )
    _close(epsilon, CONFIDENT["eps_data_dependent"])


def test_pure_dp_case_of_2018_refuses_the_theorem_outside_its_range():
    # q = 0.276 > 1 / (e^2 + 1) = 0.119
    orders, gamma = np.array(PURE["short_orders"]), 1 / PURE["lambda"]
    (vote,) = PURE["votes"]
    _close(pate.laplace_log_q([vote["hist"]], gamma), vote["logq"])
    rdp = pate.laplace_moments([vote["hist"]], gamma=gamma, orders=orders - 1) / (orders - 1)
    _close(rdp, vote["rdp_by_short_order"])
    epsilon = pate.laplace_epsilon(
        [vote["hist"]], gamma=gamma, delta=PURE["delta"], orders=LONG - 1, conversion="classic"
    )
    _close(epsilon, PURE["eps_data_dependent"])


def test_original_code_of_2017_falls_below_the_truth_where_we_keep_the_data_independent_value():
    # gamma = 1, votes 3:2: q = 0.276 lies between 1/(e^2+1) and 1/2, where PATE 2017's code still uses the formula
    q, growth = 3 / (4 * math.e), math.exp(2.0)
    published = math.log((1 - q) * ((1 - q) / (1 - growth * q)) + q * growth)
    neighbour = q  # votes 2:3 swap the two probabilities, and q is exact for two classes
    true = math.log((1 - q) * ((1 - q) / neighbour) + q * (q / (1 - neighbour)))
    ours = pate.laplace_moments([[3, 2]], gamma=1.0, orders=[1])[0]
    assert published < 0.43 < 0.69 < true < ours == 2.0


# --- an independent computation with 1,000 digits


def _mp_laplace(counts, gamma, votes, order):
    g, v = mpmath.mpf(gamma) * votes, sorted(counts, reverse=True)
    gaps = [mpmath.mpf(gamma) * (v[0] - other) for other in v[1:]]
    q = min(sum((2 + x) / (4 * mpmath.exp(x)) for x in gaps), 1 - mpmath.mpf(1) / len(v))
    independent = min(2 * g**2 * order * (order + 1), 2 * g * order)
    if q >= 1 / (mpmath.exp(2 * g) + 1):
        return q, independent
    mean = (1 - q) * ((1 - q) / (1 - mpmath.exp(2 * g) * q)) ** order + q * mpmath.exp(2 * g * order)
    return q, min(mpmath.log(mean), independent)


def _mp_gaussian(counts, sigma, votes, order):
    v, sigma = sorted(counts, reverse=True), mpmath.mpf(sigma)
    q = min(sum(mpmath.erfc((v[0] - o) / (2 * sigma)) / 2 for o in v[1:]), 1 - mpmath.mpf(1) / len(v))
    per_vote = sigma / votes
    independent = order / per_vote**2
    mu2 = per_vote * mpmath.sqrt(-mpmath.log(q))
    mu1 = mu2 + 1
    eps1, eps2 = mu1 / per_vote**2, mu2 / per_vote**2
    if not (mu2 > 1 and order <= mu1 and q * mpmath.exp(eps2) < 1):
        return q, independent
    if q > mpmath.exp((mu2 - 1) * eps2) / (mu1 / (mu1 - 1) * mu2 / (mu2 - 1)) ** mu2:
        return q, independent
    a = (1 - q) / (1 - (q * mpmath.exp(eps2)) ** ((mu2 - 1) / mu2))
    b = mpmath.exp(eps1) / q ** (1 / (mu1 - 1))
    mean = (1 - q) * a ** (order - 1) + q * b ** (order - 1)
    return q, min(mpmath.log(mean) / (order - 1), independent)


def _random_case(seed):
    rng = np.random.default_rng(seed)
    classes = int(rng.integers(2, 12))
    counts = rng.multinomial(rng.integers(5, 200), rng.dirichlet(np.full(classes, 0.2))).tolist()
    return counts, float(np.exp(rng.uniform(-4, 1.6))), float(np.exp(rng.uniform(1.5, 4))), int(rng.choice([1, 2, 5]))


@pytest.mark.parametrize("seed", range(40))
def test_laplace_equals_the_formula_in_400_digits(seed):
    counts, gamma, _, votes = _random_case(seed)
    orders = [0.3, 1.0, 7.0, 60.5, 1000.0]
    with mpmath.workdps(400):
        exact = [_mp_laplace(counts, gamma, votes, order) for order in orders]
        log_q = float(mpmath.log(exact[0][0]))
    ours = pate.laplace_moments([counts], gamma=gamma, votes=votes, orders=orders)
    np.testing.assert_allclose(ours, [float(value) for _, value in exact], rtol=1e-11)
    np.testing.assert_allclose(pate.laplace_log_q([counts], gamma), log_q, rtol=1e-13)


@pytest.mark.parametrize("seed", range(40))
def test_gaussian_equals_the_formula_in_400_digits(seed):
    counts, _, sigma, votes = _random_case(seed)
    orders = [1.05, 2.0, 7.5, 30.0, 300.0]
    with mpmath.workdps(400):
        exact = [_mp_gaussian(counts, sigma, votes, order) for order in orders]
        log_q = float(mpmath.log(exact[0][0]))
    ours = pate.gaussian_log_q([counts], sigma)
    np.testing.assert_allclose(ours, log_q, rtol=1e-13)
    ours = pate.gaussian_rdp(ours, sigma=sigma, votes=votes, orders=orders)
    np.testing.assert_allclose(ours, [float(value) for _, value in exact], rtol=1e-11)


def test_both_equal_the_formulas_in_1200_digits_where_log_q_is_minus_2000():
    with mpmath.workdps(1200):
        laplace = [_mp_laplace([2000, 0, 0], 1.0, 1, order) for order in (900.0, 998.0, 1005.0)]
        gaussian = [_mp_gaussian([896, 0, 0], 10.0, 1, order) for order in (200.0, 240.0, 300.0)]
    assert all(-2020 < mpmath.log(q) < -1980 for q, _ in laplace + gaussian)
    ours = pate.laplace_moments([[2000, 0, 0]], gamma=1.0, orders=[900.0, 998.0, 1005.0])
    np.testing.assert_allclose(ours, [float(value) for _, value in laplace], rtol=1e-10)
    log_q = pate.gaussian_log_q([[896, 0, 0]], 10.0)
    ours = pate.gaussian_rdp(log_q, sigma=10.0, orders=[200.0, 240.0, 300.0])
    np.testing.assert_allclose(ours, [float(value) for _, value in gaussian], rtol=1e-10)


def test_the_random_cases_above_reach_both_sides_of_both_ranges():
    below = {"laplace": [], "gaussian": []}
    for counts, gamma, sigma, votes in map(_random_case, range(40)):
        setting = {"gamma": gamma, "votes": votes, "orders": [1.0]}
        below["laplace"].append(
            pate.laplace_moments([counts], **setting)[0] < pate.laplace_independent_moments(**setting)[0]
        )
        setting = {"sigma": sigma, "votes": votes, "orders": [2.0]}
        rdp = pate.gaussian_rdp(pate.gaussian_log_q([counts], sigma), **setting)
        below["gaussian"].append(rdp[0] < pate.gaussian_independent_rdp(**setting)[0])
    assert 8 <= sum(below["laplace"]) <= 32
    assert 8 <= sum(below["gaussian"]) <= 32


# --- the truth: the divergence of what is released never exceeds the bound


def _moved(counts, votes):
    """Every histogram that `votes` voters of one unit, moving together, can make of this one."""
    for source, target in permutations(range(len(counts)), 2):
        if counts[source] >= votes:
            other = list(counts)
            other[source] -= votes
            other[target] += votes
            yield other


def _win_logs(counts, log_density, log_below):
    """Log-probability that each class wins, by Gauss-Legendre on panels between the kinks."""
    nodes, weights = np.polynomial.legendre.leggauss(40)
    edges = np.linspace(min(counts) - 60, max(counts) + 60, 30 * (max(counts) - min(counts) + 120) // 10 + 1)
    edges = np.unique(np.concatenate([edges, counts]))
    half = np.diff(edges)[:, None] / 2
    points = (edges[:-1, None] + half + half * nodes).ravel()
    weight = np.log((half * weights).ravel())
    below = [log_below(points - c) for c in counts]
    return np.array(
        [
            logsumexp(weight + log_density(points - c) + sum(b for j, b in enumerate(below) if j != i))
            for i, c in enumerate(counts)
        ]
    )


def _laplace_wins(counts, gamma):
    def below(x):
        return np.where(
            x < 0, gamma * np.minimum(x, 0) - math.log(2), np.log1p(-0.5 * np.exp(-gamma * np.maximum(x, 0)))
        )

    return _win_logs(counts, lambda x: math.log(gamma / 2) - gamma * np.abs(x), below)


def _gaussian_wins(counts, sigma):
    norm = math.log(sigma * math.sqrt(2 * math.pi))
    return _win_logs(counts, lambda x: -0.5 * (x / sigma) ** 2 - norm, lambda x: log_ndtr(x / sigma))


def _divergence(here, there, order):
    return logsumexp(order * here - (order - 1) * there) / (order - 1)


THREE = [[12, 2, 1], [9, 5, 1], [7, 7, 1], [20, 0, 0], [6, 5, 4]]


def test_win_probabilities_of_the_numerical_truth_sum_to_one_and_match_two_classes():
    for wins in (_laplace_wins([9, 5, 1], 0.7), _gaussian_wins([9, 5, 1], 2.0)):
        assert math.isclose(np.exp(wins).sum(), 1.0, rel_tol=1e-9)
    assert math.isclose(math.exp(_laplace_wins([9, 5], 0.7)[1]), pate.laplace_q([[9, 5]], 0.7)[0], rel_tol=1e-9)
    assert math.isclose(_gaussian_wins([9, 5], 2.0)[1], pate.gaussian_log_q([[9, 5]], 2.0)[0], rel_tol=1e-9)


@pytest.mark.parametrize("counts", THREE, ids=str)
@pytest.mark.parametrize("gamma", [0.1, 0.5, 1.5])
@pytest.mark.parametrize("votes", [1, 2])
def test_laplace_bound_is_never_below_the_true_divergence(counts, gamma, votes):
    orders = np.array([1.2, 2.0, 5.0, 20.0])
    bound = pate.laplace_moments([counts], gamma=gamma, votes=votes, orders=orders - 1) / (orders - 1)
    here = _laplace_wins(counts, gamma)
    assert here.max() >= math.log1p(-pate.laplace_q([counts], gamma)[0]) - 1e-9
    for other in _moved(counts, votes):
        true = [_divergence(here, _laplace_wins(other, gamma), order) for order in orders]
        assert (np.array(true) <= bound + 1e-9).all(), other


@pytest.mark.parametrize("counts", THREE, ids=str)
@pytest.mark.parametrize("sigma", [1.0, 3.0, 8.0])
@pytest.mark.parametrize("votes", [1, 2])
def test_gaussian_bound_is_never_below_the_true_divergence(counts, sigma, votes):
    orders = np.array([1.2, 2.0, 5.0, 20.0])
    bound = pate.gaussian_rdp(pate.gaussian_log_q([counts], sigma), sigma=sigma, votes=votes, orders=orders)
    here = _gaussian_wins(counts, sigma)
    for other in _moved(counts, votes):
        true = [_divergence(here, _gaussian_wins(other, sigma), order) for order in orders]
        assert (np.array(true) <= bound + 1e-9).all(), other


def _confident_logs(first, second, threshold, sigma_threshold, sigma):
    """Log-probabilities of no answer, the first and the second class."""
    above, ahead = (max(first, second) - threshold) / sigma_threshold, (first - second) / (sigma * math.sqrt(2))
    answer = log_ndtr(above)
    return np.array([log_ndtr(-above), answer + log_ndtr(ahead), answer + log_ndtr(-ahead)])


def test_confident_bound_is_never_below_the_true_divergence_and_the_expected_cost_is():
    rng = np.random.default_rng(5)
    ratios, below = [], 0
    for _ in range(1500):
        voters, votes = int(rng.integers(4, 60)), int(rng.integers(1, 4))
        first = int(rng.integers(votes, voters + 1))
        threshold, sigma_threshold = float(rng.uniform(0, 1.5 * voters)), float(rng.uniform(0.5, 20))
        sigma, order = float(rng.uniform(0.5, 10)), float(np.exp(rng.uniform(0.05, 4)))
        noise = {"threshold": threshold, "sigma_threshold": sigma_threshold, "sigma": sigma}
        here = _confident_logs(first, voters - first, **noise)
        others = [first + shift for shift in (-votes, votes) if 0 <= first + shift <= voters]
        true = max(_divergence(here, _confident_logs(x, voters - x, **noise), order) for x in others)
        setting = {**noise, "votes": votes, "orders": [order]}
        (bound,) = pate.confident_rdp([[first, voters - first]], **setting)
        (expected,) = pate.confident_rdp([[first, voters - first]], **setting, cost="expected")
        assert true <= bound * (1 + 1e-12) + 1e-15
        ratios.append(true / bound if bound > 1e-9 else 0.0)
        below += expected < 0.5 * true
    assert max(ratios) > 0.99  # the bound is not idle
    assert below > 10  # which is why `expected` is not the default


def test_epsilon_bounds_the_two_class_release_itself():
    # hockey-stick divergence of 3 queries, all 8 outcomes, against the unit that moves every query
    rows, sigma, delta = [(14, 2), (11, 5), (15, 1)], 3.0, 1e-3
    epsilon = pate.gaussian_epsilon(rows, sigma=sigma, delta=delta)
    outcomes = np.indices((2, 2, 2)).reshape(3, -1)

    def probability(histograms):
        ahead = np.array([[a - b, b - a] for a, b in histograms]) / (sigma * math.sqrt(2))
        return np.prod([ndtr(ahead[i])[outcomes[i]] for i in range(3)], axis=0)

    here = probability(rows)
    for shift in (-1, 1):
        there = probability([(a + shift, b - shift) for a, b in rows])
        assert np.maximum(here - math.exp(epsilon) * there, 0).sum() <= delta


# --- stability


HUGE = [1e-3, 1.0, 8.0, 1e3, 1e6, 1e150, 1e300]


@pytest.mark.parametrize(
    "counts",
    [
        [[1000, 0]],
        [[10**6, 0, 0]],
        [[0, 0]],
        [[7, 7, 7]],
        [[1000, *[1] * 999]],
        [[0] * 1000],
        [[5, 5]] * 50,
        [[1e300, 0.0]],
        np.zeros((0, 4), dtype=np.int32),
    ],
    ids=["gap", "far", "none", "tie", "1000-classes", "1000-none", "same", "huge", "no-rows"],
)
@pytest.mark.parametrize("noise", [1e-200, 1e-9, 0.02, 1.0, 50.0, 1e9, 1e200])
def test_every_value_is_a_number_between_zero_and_the_data_independent_one(counts, noise):
    num_queries, orders = len(counts), np.array(HUGE)
    alphas = 1.0 + orders[orders > 1e-2]
    for votes in (1, 1000):
        moments = pate.laplace_moments(counts, gamma=noise, votes=votes, orders=orders, per_row=True)
        rdp = pate.gaussian_rdp(
            pate.gaussian_log_q(counts, noise), sigma=noise, votes=votes, orders=alphas, per_row=True
        )
        confident = pate.confident_rdp(
            counts, threshold=3, sigma_threshold=noise, sigma=noise, votes=votes, orders=alphas, per_row=True
        )
        independent = pate.gaussian_independent_rdp(sigma=noise, votes=votes, orders=alphas)
        for value, most in (
            (moments, pate.laplace_independent_moments(gamma=noise, votes=votes, orders=orders)),
            (rdp, independent),
            (confident, 1.5 * independent),
        ):
            assert value.shape == (num_queries, len(most))
            assert ((value >= 0) & (value <= most * (1 + 1e-12))).all()
        epsilons = [
            pate.laplace_epsilon(counts, gamma=noise, votes=votes, delta=1e-6),
            pate.gaussian_epsilon(counts, sigma=noise, votes=votes, delta=1e-6),
        ]
        assert all(epsilon >= 0 for epsilon in epsilons)
        assert num_queries or epsilons == [0, 0]


def test_gap_times_gamma_of_1000_keeps_its_logarithm():
    log_q = pate.laplace_log_q([[1000, 0], [500, 0]], 1.0)
    np.testing.assert_allclose(log_q, [math.log(1002 / 4) - 1000, math.log(502 / 4) - 500], rtol=1e-14)
    # q = 1e-215, yet order 500 pays: log(1 + q e^(2 * 500))
    moments = pate.laplace_moments([[500, 0]], gamma=1.0, orders=[500])
    np.testing.assert_allclose(moments, 500 + math.log(502 / 4), rtol=1e-12)


def test_log_q_of_minus_2000_costs_nothing_at_low_orders_and_all_at_high_ones():
    rdp = pate.gaussian_rdp([-2000.0], sigma=10.0, orders=[2.0, 400.0, 600.0])
    assert rdp[0] == 0.0
    assert 0 < rdp[1] < 4.0
    assert rdp[2] == pytest.approx(6.0, rel=1e-15)  # above mu1 = 1 + 10 sqrt(2000)


def test_q_of_exactly_zero_costs_nothing():
    assert pate.gaussian_rdp(-np.inf, sigma=3.0, orders=HUGE[2:]).tolist() == [0.0] * 5


def test_no_query_costs_nothing_in_both_conversions():
    none = np.zeros((0, 3), dtype=np.int64)
    for conversion in ("tight", "classic"):
        assert pate.laplace_epsilon(none, gamma=1.0, delta=1e-5, conversion=conversion) == 0
        assert pate.gaussian_epsilon(none, sigma=1.0, delta=1e-5, conversion=conversion) == 0


def test_where_rounding_of_log_q_would_decide_the_data_independent_value_stands():
    # inside both ranges, but the theorems' denominators are 1e-9 and 1e-13 of a difference of 40
    low, high = 2.0, 3.0
    for _ in range(60):
        gap = (low + high) / 2
        low, high = (gap, high) if math.log((2 + 20 * gap) / 4) - 20 * gap + 40 > -1e-9 else (low, gap)
    log_q = pate.laplace_log_q([[high, 0.0]], 20.0)
    assert -2e-9 < log_q[0] + 40 < -1e-10
    assert pate.laplace_moments([[high, 0.0]], gamma=20.0, orders=[1.0]).tolist() == [40.0]
    sigma = math.sqrt(1 / 40)
    rdp = pate.gaussian_rdp([-40.0 * (1 + 1e-13)], sigma=sigma, orders=[1.5])
    assert rdp.tolist() == pate.gaussian_independent_rdp(sigma=sigma, orders=[1.5]).tolist()


# --- properties

histograms = st.lists(st.integers(0, 300), min_size=2, max_size=8)
gammas = st.floats(0.005, 5.0)
sigmas = st.floats(0.5, 100.0)
some_votes = st.integers(1, 4)
ORDERS = np.array([0.5, 1.0, 3.0, 17.0, 120.0])


@settings(max_examples=150, deadline=None)
@given(histograms, gammas, sigmas, some_votes)
def test_bounds_lie_between_zero_and_the_data_independent_value(counts, gamma, sigma, votes):
    moments = pate.laplace_moments([counts], gamma=gamma, votes=votes, orders=ORDERS)
    most = pate.laplace_independent_moments(gamma=gamma, votes=votes, orders=ORDERS)
    assert ((moments >= 0) & (moments <= most)).all()
    rdp = pate.gaussian_rdp(pate.gaussian_log_q([counts], sigma), sigma=sigma, votes=votes, orders=1 + ORDERS)
    most = pate.gaussian_independent_rdp(sigma=sigma, votes=votes, orders=1 + ORDERS)
    assert ((rdp >= 0) & (rdp <= most)).all()


@settings(max_examples=150, deadline=None)
@given(histograms, gammas, sigmas, some_votes)
def test_more_votes_for_the_plurality_never_cost_more(counts, gamma, sigma, votes):
    ahead = list(counts)
    ahead[int(np.argmax(counts))] += 1
    both = [counts, ahead]
    for log_q in (pate.laplace_log_q(both, gamma), pate.gaussian_log_q(both, sigma)):
        assert log_q[1] <= log_q[0]
    for costs in (
        pate.laplace_moments(both, gamma=gamma, votes=votes, orders=ORDERS, per_row=True),
        pate.gaussian_rdp(pate.gaussian_log_q(both, sigma), sigma=sigma, votes=votes, orders=1 + ORDERS, per_row=True),
    ):
        assert (costs[1] <= costs[0] * (1 + 1e-9)).all()


@settings(max_examples=100, deadline=None)
@given(histograms, st.randoms(use_true_random=False), gammas, sigmas)
def test_permuting_the_classes_changes_nothing(counts, random, gamma, sigma):
    shuffled = random.sample(counts, len(counts))
    noise = {"threshold": 20, "sigma_threshold": sigma, "sigma": sigma}
    for ours in (
        lambda h: pate.laplace_moments([h], gamma=gamma, orders=ORDERS),
        lambda h: pate.gaussian_rdp(pate.gaussian_log_q([h], sigma), sigma=sigma, orders=1 + ORDERS),
        lambda h: pate.confident_rdp([h], **noise, orders=1 + ORDERS),
    ):
        np.testing.assert_allclose(ours(shuffled), ours(counts), rtol=1e-11, atol=1e-300)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 60), min_size=3, max_size=3), min_size=2, max_size=12), gammas, sigmas)
def test_costs_of_queries_add_up_and_repeats_count(rows, gamma, sigma):
    rows = [*rows, rows[0]]
    noise = {"threshold": 20, "sigma_threshold": sigma, "sigma": sigma}
    for ours in (
        lambda h, **keep: pate.laplace_moments(h, gamma=gamma, orders=ORDERS, **keep),
        lambda h, **keep: pate.gaussian_rdp(pate.gaussian_log_q(h, sigma), sigma=sigma, orders=1 + ORDERS, **keep),
        lambda h, **keep: pate.confident_rdp(h, **noise, orders=1 + ORDERS, **keep),
    ):
        one_by_one = np.array([ours([row]) for row in rows])
        np.testing.assert_allclose(ours(rows), one_by_one.sum(axis=0), rtol=1e-12)
        np.testing.assert_allclose(ours(rows, per_row=True), one_by_one, rtol=1e-12)


def test_moving_s_votes_is_the_mechanism_with_noise_counted_in_units_of_s():
    log_q = pate.gaussian_log_q([[60, 3]], 12.0)
    scaled = pate.gaussian_rdp(log_q, sigma=12.0, votes=3, orders=[2.0, 5.0])
    assert scaled.tolist() == pate.gaussian_rdp(log_q, sigma=4.0, orders=[2.0, 5.0]).tolist()
    assert (scaled > pate.gaussian_rdp(log_q, sigma=12.0, orders=[2.0, 5.0])).all()


def test_many_rows_are_cut_into_chunks_that_join_without_a_seam(monkeypatch):
    rng = np.random.default_rng(0)
    counts = rng.multinomial(90, [0.8, 0.1, 0.1], size=500)
    whole = pate.laplace_moments(counts, gamma=0.1, orders=ORDERS, per_row=True)
    monkeypatch.setattr(_bounds, "_CELLS", 35)
    assert pate.laplace_moments(counts, gamma=0.1, orders=ORDERS, per_row=True).tolist() == whole.tolist()
    np.testing.assert_allclose(pate.laplace_moments(counts, gamma=0.1, orders=ORDERS), whole.sum(axis=0), rtol=1e-12)


# --- conversion


@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.01, 0.5])
@pytest.mark.parametrize("scale", [0.0, 1e-12, 1e-4, 0.1, 5.0])
def test_tight_conversion_is_dp_accountings(delta, scale):
    from dp_accounting.rdp import compute_epsilon

    orders = np.array([1.1, 1.5, 2.0, 4.0, 16.0, 64.0, 512.0])
    rdp = scale * orders
    expected, _ = compute_epsilon(orders, rdp, delta)
    tight = pate.rdp_epsilon(rdp, orders=orders, delta=delta)
    assert math.isclose(tight, expected, rel_tol=1e-12, abs_tol=1e-15)
    assert tight <= pate.rdp_epsilon(rdp, orders=orders, delta=delta, conversion="classic")


def test_default_orders_lose_little_against_many():
    rows = _rows(LAPLACE[3])
    many = np.geomspace(0.01, 5000, 3000)
    for gamma in (0.005, 0.05, 0.5):
        best = pate.laplace_epsilon(rows, gamma=gamma, delta=1e-5, orders=many)
        assert best * (1 - 1e-9) <= pate.laplace_epsilon(rows, gamma=gamma, delta=1e-5) <= 1.02 * best
    for sigma in (4.0, 40.0, 400.0):
        best = pate.gaussian_epsilon(rows, sigma=sigma, delta=1e-5, orders=1 + many)
        assert best * (1 - 1e-9) <= pate.gaussian_epsilon(rows, sigma=sigma, delta=1e-5) <= 1.02 * best


def test_a_single_query_never_costs_more_than_its_pure_guarantee():
    assert pate.laplace_epsilon([[5, 5]], gamma=0.05, votes=2, delta=1e-5) == pytest.approx(0.2, rel=1e-12)


# --- size


def test_100000_distinct_queries_at_64_orders_take_under_2_seconds_and_300_megabytes():
    rng = np.random.default_rng(0)
    counts = rng.dirichlet(np.full(10, 0.1), 100_000) * 250
    counts[:, 0] += 250  # all inside the range, no two alike: nothing to save by
    orders = np.arange(1, 65)
    start = time.process_time()
    pate.laplace_moments(counts, gamma=0.05, orders=orders)
    laplace = time.process_time()
    pate.gaussian_rdp(pate.gaussian_log_q(counts, 20.0), sigma=20.0, orders=1 + orders)
    assert max(laplace - start, time.process_time() - laplace) < 2.0
    tracemalloc.start()
    try:
        pate.laplace_moments(counts, gamma=0.05, orders=orders)
        assert tracemalloc.get_traced_memory()[1] < 300e6
    finally:
        tracemalloc.stop()


# --- bad input


@pytest.mark.parametrize("value", [0, -1.0, math.nan, math.inf, True, "1"])
def test_noise_that_is_no_finite_positive_number_is_refused(value):
    with pytest.raises(ConfigError, match="gamma must be a finite number > 0"):
        pate.laplace_moments([[3, 1]], gamma=value, orders=[1])
    with pytest.raises(ConfigError, match="gamma must be a finite number > 0"):
        pate.laplace_q([[3, 1]], value)
    with pytest.raises(ConfigError, match="sigma must be a finite number > 0"):
        pate.gaussian_log_q([[3, 1]], value)
    with pytest.raises(ConfigError, match="sigma must be a finite number > 0"):
        pate.gaussian_rdp([-3.0], sigma=value, orders=[2])
    with pytest.raises(ConfigError, match="sigma_threshold must be a finite number > 0"):
        pate.confident_rdp([[3, 1]], threshold=1, sigma_threshold=value, sigma=1.0, orders=[2])


@pytest.mark.parametrize("votes", [0, -1, 1.5, True, math.nan])
def test_votes_that_are_no_positive_whole_number_are_refused(votes):
    with pytest.raises(ConfigError, match="votes must be a whole number >= 1"):
        pate.laplace_moments([[3, 1]], gamma=1.0, votes=votes, orders=[1])
    with pytest.raises(ConfigError, match="votes must be a whole number >= 1"):
        pate.gaussian_rdp([-3.0], sigma=1.0, votes=votes, orders=[2])


@pytest.mark.parametrize("orders", [[], [0.0], [-1.0], [math.nan], [math.inf], [[2.0]]])
def test_orders_outside_their_range_are_refused(orders):
    with pytest.raises(ConfigError, match="orders must be finite numbers > 0"):
        pate.laplace_moments([[3, 1]], gamma=1.0, orders=orders)
    with pytest.raises(ConfigError, match="orders must be finite numbers > 1"):
        pate.gaussian_rdp([-3.0], sigma=1.0, orders=[1.0])


@pytest.mark.parametrize(
    "counts",
    [[3, 1], [[3]], [[True, False]], [["a", "b"]], np.zeros((2, 2, 2))],
    ids=["flat", "one-class", "bool", "text", "cube"],
)
def test_counts_of_another_shape_or_type_are_refused(counts):
    with pytest.raises(DataError, match="counts must be numbers of shape"):
        pate.laplace_q(counts, 1.0)


@pytest.mark.parametrize("wrong", [-1.0, math.nan, math.inf])
def test_counts_that_are_no_votes_are_refused(wrong):
    with pytest.raises(DataError, match="counts must be finite and >= 0"):
        pate.gaussian_log_q([[3.0, wrong]], 1.0)


@pytest.mark.parametrize("wrong", [0.1, math.nan])
def test_a_log_probability_above_zero_is_refused(wrong):
    with pytest.raises(DataError, match="log_q must be a list of numbers <= 0"):
        pate.gaussian_rdp([-1.0, wrong], sigma=1.0, orders=[2])


@pytest.mark.parametrize("delta", [0, 1, 1.5, -0.1, math.nan, True])
def test_delta_outside_0_to_1_is_refused(delta):
    with pytest.raises(ConfigError, match="delta must be"):
        pate.laplace_epsilon([[3, 1]], gamma=1.0, delta=delta)


def test_unknown_options_are_refused_by_name():
    with pytest.raises(ConfigError, match="conversion must be 'tight' or 'classic'"):
        pate.rdp_epsilon([1.0], orders=[2.0], delta=1e-5, conversion="loose")
    with pytest.raises(ConfigError, match="cost must be 'bound' or 'expected'"):
        pate.confident_rdp([[3, 1]], threshold=1, sigma_threshold=1.0, sigma=1.0, orders=[2], cost="mean")
    with pytest.raises(ConfigError, match="threshold must be a finite number"):
        pate.confident_rdp([[3, 1]], threshold=math.nan, sigma_threshold=1.0, sigma=1.0, orders=[2])
    for rdp in ([1.0], [-1.0, 1.0], [math.nan, 1.0]):
        with pytest.raises(DataError, match="rdp must hold a number >= 0 per order"):
            pate.rdp_epsilon(rdp, orders=[2.0, 3.0], delta=1e-5)

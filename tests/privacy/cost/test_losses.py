"""Loss distributions against exact sums, direct integration and sampling: never below the truth, hardly above it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy import stats

from fedkd_flwr.privacy.cost.losses import (
    TiltedSum,
    gaussian_losses,
    laplace_losses,
    pure_losses,
    response_losses,
    solve_epsilon,
    tilt_for_epsilon,
)


def _delta(parts, epsilon):
    return TiltedSum(parts, tilt_for_epsilon(parts, epsilon)).delta(epsilon)


def _exact_pure_delta(per_use, count, epsilon):
    """Optimal composition of pure mechanisms (Kairouz, Oh, Viswanath 2015, Theorem 3.3), term by term."""
    uses = np.arange(count + 1)
    losses = (2 * uses - count) * per_use
    above = losses > epsilon
    log_mass = stats.binom.logpmf(uses[above], count, 1 / (1 + math.exp(-per_use)))
    return float(np.exp(log_mass) @ -np.expm1(epsilon - losses[above]))


PURE = [(1, 1.0), (81, 0.08), (100, 2.5), (100, 50.0), (50_000, 1e-3), (500_000, 1e-3), (500_000, 1e-5)]


@pytest.mark.parametrize("delta", [0.3, 1e-5, 1e-10, 1e-13, 1e-30, 1e-100])
@pytest.mark.parametrize(("count", "per_use"), PURE)
def test_pure_epsilons_hold_by_the_exact_sum_and_are_close_to_it(count, per_use, delta):
    # (500,000 of 1e-5, delta 1e-13) is where an FFT without tilt states an epsilon of 12 times that delta
    epsilon = solve_epsilon([(pure_losses(per_use), count)], delta, count * per_use)
    assert _exact_pure_delta(per_use, count, epsilon) <= delta
    if 0 < epsilon < count * per_use:
        assert _exact_pure_delta(per_use, count, epsilon * (1 - 1e-3)) > delta


@pytest.mark.parametrize(("count", "per_use", "delta"), [(8, 1.4e-3, 4e-3), (9, 2e-5, 2.3e-5), (144, 1e-6, 9e-8)])
def test_deltas_near_the_total_variation_are_not_missed(count, per_use, delta):
    # where losses are tiny, delta bounds far less than the probability of a loss
    epsilon = solve_epsilon([(pure_losses(per_use), count)], delta, count * per_use)
    assert _exact_pure_delta(per_use, count, epsilon) <= delta
    assert epsilon == 0 or _exact_pure_delta(per_use, count, epsilon * 0.999) > delta


def test_half_a_million_labels_have_a_moderate_cost():
    for losses in (response_losses(1e-3, 10), pure_losses(1e-5), laplace_losses(1e-3, 500_000)):
        assert 0 < solve_epsilon([(losses, 500_000)], 1e-5, 500.0) < 10


@pytest.mark.parametrize("epsilon", [1e-6, 0.08, 1.0, 5.0, 39.0])
@pytest.mark.parametrize("make", [lambda e: laplace_losses(e, 10), lambda e: response_losses(e, 10), pure_losses])
def test_both_neighbours_of_a_loss_distribution_are_distributions(make, epsilon):
    grid = make(epsilon)
    assert grid.mass.sum() == pytest.approx(1, abs=1e-13)
    assert grid.mass @ np.exp(-grid.losses) == pytest.approx(1, abs=1e-12)
    assert grid.losses[-1] == pytest.approx(epsilon, rel=1e-12)
    assert (grid.mass >= 0).all()


def test_the_gaussian_s_neighbours_are_distributions():
    grid = gaussian_losses(0.7)
    assert grid.mass.sum() == pytest.approx(1, abs=1e-12)
    assert grid.mass @ np.exp(-grid.losses) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("scale_epsilon", [0.04, 0.5, 3.0])
def test_one_laplace_mechanism_has_its_closed_form_delta(scale_epsilon):
    # delta(e) = 1 - exp((e - eps)/2) for 0 <= e <= eps
    for share in (0.0, 0.3, 0.9):
        exact = -math.expm1((share - 1) * scale_epsilon / 2)
        found = _delta([(laplace_losses(scale_epsilon, 1), 1)], share * scale_epsilon)
        assert exact <= found <= exact * (1 + 1e-6)


def _released_delta(gamma, votes, epsilon):
    """Hockey-stick divergence of two noisy counts when ``votes`` votes move, by integration over the plane."""
    # one point in the middle of each cell, cells ending at 0 and +-votes where the densities have their kinks
    edges = np.arange(-round(28 / gamma / votes * 50), round(28 / gamma / votes * 50)) * votes / 50
    x = edges + votes / 100
    own = np.exp(-gamma * np.abs(x)) * gamma / 2
    loses = np.exp(-gamma * np.abs(x + votes)) * gamma / 2
    gains = np.exp(-gamma * np.abs(x - votes)) * gamma / 2
    total = 0.0
    for mine, shifted in zip(own, loses, strict=True):
        total += np.maximum(mine * own - math.exp(epsilon) * shifted * gains, 0).sum()
    return total * (votes / 50) ** 2


@pytest.mark.parametrize(("gamma", "votes"), [(0.5, 1), (0.4, 5)])
def test_two_laplace_mechanisms_are_what_a_moved_vote_costs_by_integration(gamma, votes):
    pair = [(laplace_losses(gamma * votes, 2), 2)]
    for share in (0.05, 0.4, 0.8):
        epsilon = share * 2 * gamma * votes
        exact = _released_delta(gamma, votes, epsilon)
        assert exact * (1 - 1e-3) <= _delta(pair, epsilon) <= exact * (1 + 1e-3)
    # and a wrong pair is told apart: the vote only leaves, or each count changes by two
    assert _delta([(laplace_losses(gamma * votes, 1), 1)], 0.1) < 0.9 * _released_delta(gamma, votes, 0.1)
    assert _delta([(laplace_losses(2 * gamma * votes, 2), 2)], 0.1) > 1.1 * _released_delta(gamma, votes, 0.1)


def test_two_queries_cost_what_sampling_finds():
    gamma, rng = 0.5, np.random.default_rng(1)
    noise = rng.laplace(0, 1 / gamma, (2, 2, 400_000))  # query, count, draw
    moved = np.array([1.0, -1.0])[None, :, None]
    loss = gamma * (np.abs(noise + moved) - np.abs(noise)).sum(axis=(0, 1))
    parts = [(laplace_losses(gamma, 4), 4)]
    for epsilon in (0.3, 1.0, 1.7):
        gain = np.maximum(-np.expm1(epsilon - loss), 0)
        error = gain.std() / math.sqrt(gain.size)
        assert abs(_delta(parts, epsilon) - gain.mean()) < 4.5 * error
    # a sample of Q, weighted back to P, sees the same in the tail
    weighted = np.exp(-loss) * np.maximum(np.expm1(loss - 1.7), 0) * math.exp(1.7)
    assert abs(_delta(parts, 1.7) - weighted.mean()) < 4.5 * weighted.std() / math.sqrt(weighted.size)


@pytest.mark.parametrize("epsilon", [0.04, 1.0, 4.0])
@pytest.mark.parametrize("share", [0.1, 0.5])
def test_votes_that_scatter_over_classes_cost_less_than_votes_that_move_together(epsilon, share):
    scattered = [(laplace_losses(epsilon * share, 1), 1), (laplace_losses(epsilon * (1 - share), 1), 1)]
    together = [(laplace_losses(epsilon, 1), 1)]
    for at in np.linspace(0, 0.98, 15) * epsilon:
        assert _delta(scattered, at) <= _delta(together, at) * (1 + 1e-3)


@pytest.mark.parametrize(("per_count", "count"), [(0.04, 16), (0.04, 162), (0.1, 360), (1.0, 4)])
def test_laplace_compositions_lie_between_dp_accounting_s_optimistic_and_pessimistic_ones(per_count, count):
    lower, upper = (
        pld.from_laplace_mechanism(
            1 / per_count,
            pessimistic_estimate=pessimistic,
            use_connect_dots=pessimistic,
            value_discretization_interval=interval,
        )
        .self_compose(count)
        .get_epsilon_for_delta(1e-5)
        for pessimistic, interval in ((False, 1e-5), (True, 1e-4))
    )
    assert lower < solve_epsilon([(laplace_losses(per_count, count), count)], 1e-5, 1e9) <= upper * (1 + 1e-6)


@pytest.mark.parametrize("num_classes", [2, 10])
def test_responses_agree_with_dp_accounting_where_its_grid_fits(num_classes):
    keep = math.expm1(0.5) / (math.expm1(0.5) + num_classes)
    theirs = pld.from_randomized_response(1 - keep, num_classes, value_discretization_interval=0.5 * (1 + 1e-12))
    ours = solve_epsilon([(response_losses(0.5, num_classes), 200)], 1e-5, 1e9)
    # its ceiling lifts -0.5 to 0, or nothing: ours may not be above
    assert ours <= theirs.self_compose(200).get_epsilon_for_delta(1e-5) * (1 + 1e-9)


def test_a_finer_laplace_grid_changes_nothing_that_matters(monkeypatch):
    from fedkd_flwr.privacy.cost import losses

    found = solve_epsilon([(laplace_losses(0.08, 162), 162)], 1e-5, 1e9)
    monkeypatch.setattr(losses, "_VARIANCE_EXCESS", 1e-10)
    monkeypatch.setattr(losses, "_WINDOW", 2**21)
    finer = solve_epsilon([(laplace_losses(0.08, 162), 162)], 1e-5, 1e9)
    assert finer <= found <= finer * (1 + 1e-7)


def test_mixed_grids_join_without_losing_or_adding():
    # one composition cut in two unequal grids is the same composition
    whole = solve_epsilon([(pure_losses(0.08), 81)], 1e-5, 1e9)
    cut = solve_epsilon([(pure_losses(0.08), 30), (response_losses(0.08, 2), 51)], 1e-5, 1e9)
    assert whole <= cut <= whole * (1 + 1e-5)
    gaussian = solve_epsilon([(gaussian_losses(2.0), 3)], 1e-5, 1e9)
    cut = solve_epsilon([(gaussian_losses(2.0), 1), (gaussian_losses(math.sqrt(2.0)), 1)], 1e-5, 1e9)
    assert cut == pytest.approx(gaussian, rel=1e-5)


def test_a_composition_too_wide_for_any_grid_still_has_a_bound():
    # only the Chernoff bound remains: above the truth, far below the sum of 1e10
    assert 5e6 < solve_epsilon([(pure_losses(1e-3), 10**13)], 1e-5, 1e10) < 6e6


def test_any_tilt_gives_an_upper_bound():
    parts = [(pure_losses(0.08), 81)]
    exact = _exact_pure_delta(0.08, 81, 2.0)
    for tilt in (0.0, 0.5, 2.0, 20.0, 200.0, 1e4):
        assert TiltedSum(parts, tilt).delta(2.0) >= exact
        # also where masses and weights underflow
        assert TiltedSum([(pure_losses(6.0), 1)], tilt).delta(0.0) >= math.tanh(3.0)


def test_rounding_of_the_transform_is_added_where_it_would_hide_delta():
    # without a tilt, deltas of 1e-13 drown: the answer must be too large, never too small
    untilted = TiltedSum([(pure_losses(1e-5), 500_000)], 0.0)
    for epsilon in np.linspace(0.04, 0.06, 41):
        assert untilted.delta(epsilon) >= _exact_pure_delta(1e-5, 500_000, epsilon)

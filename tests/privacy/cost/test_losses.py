"""Loss distributions against exact sums, direct integration and sampling: never below the truth, hardly above it."""

import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy import stats

from fedkd_flwr.privacy.cost import losses
from fedkd_flwr.privacy.cost.losses import (
    LossGrid,
    TiltedSum,
    gaussian_losses,
    laplace_losses,
    pure_losses,
    response_losses,
    solve_epsilon,
    tilt_for_delta,
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


USES = [(1, 1.0), (81, 0.08), (100, 50.0), (500_000, 1e-3), (500_000, 1e-5)]
PURE = [(*uses, delta) for uses in USES for delta in (0.3, 1e-5, 1e-13, 1e-100)]
NEAR_THE_TOTAL_VARIATION = [(8, 1.4e-3, 4e-3), (9, 2e-5, 2.3e-5), (144, 1e-6, 9e-8)]  # delta far below a loss's mass


@pytest.mark.parametrize(("count", "per_use", "delta"), [*PURE, *NEAR_THE_TOTAL_VARIATION])
def test_pure_epsilons_hold_by_the_exact_sum_and_are_close_to_it(count, per_use, delta):
    # (500,000 of 1e-5, delta 1e-13) is where an FFT without tilt states an epsilon of 12 times that delta
    epsilon = solve_epsilon([(pure_losses(per_use), count)], delta, count * per_use)
    assert _exact_pure_delta(per_use, count, epsilon) <= delta
    if 0 < epsilon < count * per_use:
        assert _exact_pure_delta(per_use, count, epsilon * (1 - 1e-3)) > delta


@pytest.mark.parametrize("epsilon", [1e-6, 0.08, 39.0])
@pytest.mark.parametrize("make", [lambda e: laplace_losses(e, 10), lambda e: response_losses(e, 10), pure_losses])
def test_both_neighbours_of_a_loss_distribution_are_distributions(make, epsilon):
    grid = make(epsilon)
    assert grid.mass.sum() == pytest.approx(1, abs=1e-13)
    assert grid.mass @ np.exp(-grid.losses) == pytest.approx(1, abs=1e-12)
    assert grid.losses[-1] == pytest.approx(epsilon, rel=1e-12)
    assert (grid.mass >= 0).all()


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


@pytest.mark.parametrize(("per_count", "count"), [(0.04, 162), (1.0, 4)])
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
    for epsilon in np.linspace(0.04, 0.06, 11):
        assert untilted.delta(epsilon) >= _exact_pure_delta(1e-5, 500_000, epsilon)


# ------------------------------------------------------------------------------------------------ grids by hand


def test_a_response_s_grid_and_its_moments_by_hand():
    """Three classes, epsilon ln 4: the truth is told with probability 4/6, each other class with 1/6."""
    grid = response_losses(math.log(4), 3)
    assert (grid.step, grid.low, grid.infinite) == (math.log(4), -1, 0.0)
    assert grid.mass == pytest.approx([1 / 6, 1 / 6, 4 / 6], rel=1e-14)
    assert grid.losses == pytest.approx([-math.log(4), 0, math.log(4)])
    mean, spread = grid.moments()
    assert mean == pytest.approx(math.log(4) / 2, rel=1e-14)
    assert spread == pytest.approx(math.log(4) * math.sqrt(7 / 12), rel=1e-14)
    # E exp(t loss): of Q at t = -1, of P at 0, and 4^-1/6 + 1/6 + 16/6 at 1
    assert grid.cumulant(np.array([-1.0, 0.0, 1.0])) == pytest.approx([0, 0, math.log(69 / 24)], abs=1e-14)


@pytest.mark.parametrize(("epsilon", "count"), [(0.5, 1), (3.0, 7), (12.0, 1), (40.0, 2)])
def test_a_laplace_grid_widens_the_loss_by_a_hundred_millionth_at_most(epsilon, count):
    """The loss: half at epsilon, e^-epsilon / 2 at -epsilon, e^((l - epsilon) / 2) / 4 between."""
    grid, mean = laplace_losses(epsilon, count), epsilon + math.expm1(-epsilon)
    ends = epsilon**2 * (1 + math.exp(-epsilon)) / 2
    upper, lower = 2 * epsilon**2 - 8 * epsilon + 16, 2 * epsilon**2 + 8 * epsilon + 16
    found, spread = grid.moments()
    assert spread**2 == pytest.approx(ends + (upper - math.exp(-epsilon) * lower) / 4 - mean**2, rel=2e-8)
    assert found == pytest.approx(mean, rel=2e-8)
    assert (grid.low, len(grid.mass)) == (-(len(grid.mass) // 2), 2 * (len(grid.mass) // 2) + 1)
    assert grid.step <= 0.5
    assert len(grid.mass) <= 40_001
    assert grid.mass[-1] == pytest.approx(0.5, abs=grid.step)


def test_beyond_forty_a_laplace_mechanism_is_taken_for_any_of_its_epsilon():
    assert len(laplace_losses(40.0, 1).mass) > 3
    far = laplace_losses(40.5, 1)
    assert (far.step, far.low, far.mass.tolist()) == (40.5, -1, pure_losses(40.5).mass.tolist())


@pytest.mark.parametrize("noise", [0.05, 0.7, 300.0])
def test_a_gaussian_grid_has_the_moments_and_the_width_of_the_loss(noise):
    grid = gaussian_losses(noise)
    mean, spread = grid.moments()
    assert 1 - 1e-12 <= mean * 2 * noise**2 <= 1 + 2e-6
    assert spread == pytest.approx(1 / noise, rel=1e-6)
    assert grid.infinite == 1e-298
    assert grid.losses[0] == pytest.approx(0.5 / noise**2 - 37 / noise, abs=2 * grid.step)
    assert grid.losses[-1] == pytest.approx(0.5 / noise**2 + 37 / noise, abs=2 * grid.step)
    tilts = np.array([0.5, 2.0]) * noise
    assert grid.cumulant(tilts) == pytest.approx(tilts * (tilts + 1) / 2 / noise**2, rel=1e-5)


@pytest.mark.parametrize("tilt", [0.0, 0.7, 30.0])
def test_a_mass_between_two_grid_points_keeps_its_share_under_both_neighbours(tilt):
    """Untilted: the sum is P's mass, the sum of mass times e^-loss is Q's; masses come and go times e^(tilt loss)."""
    at, mass = np.array([-0.31, 0.0, 0.123, 0.2, 1.77]), np.array([0.1, 0.2, 0.3, 0.15, 0.25])
    low, grid = losses.split(at, mass * np.exp(tilt * at), 0.1, tilt)
    points = 0.1 * (low + np.arange(len(grid)))
    plain = grid * np.exp(-tilt * points)
    assert (grid >= 0).all()
    assert plain.sum() == pytest.approx(1, rel=1e-13)
    assert plain @ np.exp(-points) == pytest.approx(mass @ np.exp(-at), rel=1e-13)
    assert (low, len(grid)) == (-4, 23)  # from -0.4 to 1.8
    assert plain[[0, 1]].sum() == pytest.approx(0.1)  # -0.31 lies between -0.4 and -0.3, and closer to it
    assert plain[1] > 0.08


# ------------------------------------------------------------------------------------------------ tilts and windows


def test_the_share_of_tilted_mass_that_counts_is_the_largest_of_its_formula():
    x = np.linspace(0, 30, 300_001)
    for tilt in (0.3, 1.0, 3.0):
        best = np.log((np.exp(-tilt * x) * -np.expm1(-x)).max())
        assert losses._log_share(np.array([tilt]))[0] == pytest.approx(best, rel=1e-6)
    assert losses._log_share(np.array([0.0, 1.0, 3.0])) == pytest.approx([0, math.log(1 / 4), math.log(27 / 256)])


@pytest.mark.parametrize(("noise", "count", "delta"), [(2.0, 1, 1e-5), (30.0, 400, 1e-9)])
def test_the_tilt_is_that_of_the_best_renyi_bound(noise, count, delta):
    parts = [(gaussian_losses(noise), count)]
    tilts = np.geomspace(1e-3, 1e4, 20_001)
    cost = count * tilts * (tilts + 1) / 2 / noise**2 + losses._log_share(tilts)
    bounds = (cost - math.log(delta)) / tilts
    tilt, epsilon = tilt_for_delta(parts, delta)
    assert bounds.min() * (1 - 1e-6) <= epsilon <= bounds.min() * (1 + 1e-3)
    assert tilt == pytest.approx(tilts[bounds.argmin()], rel=0.05)
    back = tilts[(cost - tilts * epsilon).argmin()]
    assert tilt_for_epsilon(parts, epsilon) == pytest.approx(back, rel=0.16)


def test_a_sum_leaves_its_window_more_rarely_than_the_cut_and_the_window_is_not_wide():
    part, count = pure_losses(0.1), 1000
    scales = np.geomspace(0.3, 30, 25) / (math.sqrt(count) * part.moments()[1])
    high, low = (losses._upper(part, count, scales, side) for side in (1, -1))
    uses = stats.binom(count, 1 / (1 + math.exp(-0.1)))
    kept = {bound: (bound / 0.1 + count) / 2 for bound in (low, high)}
    assert uses.sf(kept[high] - 1) <= losses._CUT
    assert uses.cdf(kept[low]) <= losses._CUT
    deviations = [(kept[bound] - uses.mean()) / uses.std() for bound in (low, high)]
    assert -10.5 < deviations[0] < -9.5  # exact would be 9.8 either way
    assert 9.5 < deviations[1] < 10.5


def _convolved(part, count, tilt):
    """Compose by plain sums, tilted afterwards."""
    mass = np.ones(1)
    for _ in range(count):
        mass = np.convolve(mass, part.mass)
    at = part.step * (count * part.low + np.arange(len(mass)))
    tilted = mass * np.exp(tilt * at - count * part.cumulant(np.array([tilt]))[0])
    return at, tilted


@pytest.mark.parametrize("tilt", [0.0, 0.8, 5.0])
@pytest.mark.parametrize(
    "part",
    [pure_losses(0.3), response_losses(1.5, 4), laplace_losses(20.0, 10**12)],
    ids=["pure", "response", "laplace"],
)
def test_a_power_by_transform_is_the_power_by_sums_within_its_stated_error(part, tilt):
    at, exact = _convolved(part, 9, tilt)
    step, low, mass, error = losses._power(part, 9, tilt)
    start = low - 9 * part.low
    within = slice(start, start + len(mass))
    assert step == part.step
    assert step * low == pytest.approx(at[start], abs=1e-12)
    assert np.abs(mass - exact[within]).sum() <= error <= 1e-11
    assert exact[:start].sum() + exact[within.stop :].sum() <= 2e-22


def test_unlike_grids_join_on_one_step_as_their_sums_do():
    """The joint grid's masses without the tilt have the product's P-mass, and no less of it above any loss."""
    first, second, tilt = pure_losses(0.3), response_losses(0.7, 4), 0.9
    grids = [losses._power(first, 2, tilt), losses._power(second, 3, tilt)]
    step, low, mass, error = losses._convolve(grids, tilt)
    one, other = _convolved(first, 2, tilt), _convolved(second, 3, tilt)
    at = (one[0][:, None] + other[0][None, :]).ravel()
    exact = (one[1][:, None] * other[1][None, :]).ravel()
    variance = sum(float(m @ (a - m @ a) ** 2) for a, m in (one, other))
    assert step == pytest.approx(max(math.sqrt(variance) / 4000, (0.3 * 5 + 0.7 * 7) / 2**19))
    points = step * (low + np.arange(len(mass)))
    assert mass.sum() == pytest.approx(1, abs=1e-6)
    assert mass @ points == pytest.approx(exact @ at, abs=1e-6)
    assert mass @ points**2 == pytest.approx(exact @ at**2, rel=1e-6)
    assert mass @ np.exp(-tilt * points) == pytest.approx(exact @ np.exp(-tilt * at), rel=1e-9)
    assert mass @ np.exp(-(tilt + 1) * points) == pytest.approx(exact @ np.exp(-(tilt + 1) * at), rel=1e-9)
    assert sum(grid[3] for grid in grids) < error < 1e-9
    assert losses._convolve([(*grid[:3], 1e-3) for grid in grids], tilt)[3] >= 2e-3  # what each grid states is added


def test_a_grid_too_wide_to_hold_is_given_up_and_only_the_chernoff_bound_remains():
    piece = (0, np.array([0.5, 0.5]), 1)
    low, mass, error = losses._circular([piece], -7, 4 * losses.WINDOW, 0.0)
    assert (low, mass.tolist(), error) == (-7, [0.0], 1.0)
    low, mass, error = losses._circular([piece], 0, 4 * losses.WINDOW - 1, 0.0)
    assert (low, len(mass)) == (0, 4 * losses.WINDOW)
    assert error < 1e-9


def test_the_stated_rounding_of_a_transform_grows_with_the_number_of_uses():
    """A mass of one point on a circle of 16: nine frequencies of size 1, and one number that comes back."""
    rounding = 4 * 2.0**-52 * math.log2(17)
    for uses in (2, 10_000):
        low, mass, error = losses._circular([(0, np.ones(1), uses)], 0, 15, 0.0)
        assert (low, mass[0], len(mass)) == (0, pytest.approx(1), 16)
        assert error == pytest.approx(rounding * (uses * math.sqrt(2 * 9) + math.sqrt(16)))


# ------------------------------------------------------------------------------------------------ delta and epsilon


@pytest.mark.parametrize(("noise", "count"), [(1.0, 1), (3.0, 9), (20.0, 50)])
def test_gaussian_deltas_are_the_closed_form_s_and_never_below(noise, count):
    """Balle and Wang 2018, Theorem 8."""
    together = noise / math.sqrt(count)
    for share in (0.0, 2.0, 4.0):
        epsilon = share / together
        above, below = stats.norm.cdf(0.5 / together - share), stats.norm.cdf(-0.5 / together - share)
        exact = above - math.exp(epsilon) * below
        assert exact * (1 - 1e-9) <= _delta([(gaussian_losses(noise), count)], epsilon) <= exact * (1 + 1e-4)


def test_a_stated_delta_is_added_once_for_each_use():
    parts = [(pure_losses(0.1, 1e-3), 3), (pure_losses(0.2, 1e-2), 2)]
    all_of_it = 1 - (1 - 1e-3) ** 3 * (1 - 1e-2) ** 2
    for at in (0.8, 5.0):  # the largest finite loss is 0.7
        found = TiltedSum(parts, 1.0).delta(at)
        assert all_of_it <= found <= all_of_it * (1 + 1e-8)
    assert solve_epsilon(parts, all_of_it * (1 - 1e-6), 123.0) == 123.0
    assert solve_epsilon(parts, all_of_it * 1.01, 123.0) <= 0.7 * (1 + 1e-9)
    assert TiltedSum([(pure_losses(3.0, 1.0 - 1e-9), 2)], 0.5).delta(0.0) == 1.0


def test_epsilon_is_nothing_where_delta_covers_all_and_never_above_the_plain_sum():
    parts = [(pure_losses(0.5), 2)]
    assert solve_epsilon(parts, _exact_pure_delta(0.5, 2, 0.0) * 1.001, 1.0) == 0.0
    assert 0 < solve_epsilon(parts, _exact_pure_delta(0.5, 2, 0.0) * 0.999, 1.0) < 0.01
    assert solve_epsilon(parts, 1e-300, 1.0) == 1.0
    assert LossGrid(step=1.0, low=0, mass=np.ones(1)).infinite == 0.0

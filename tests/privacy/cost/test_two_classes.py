"""Labels of two classes: never below what any votes reveal, exactly, and hardly above the worst of them."""

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, optimize, stats

from fedkd_flwr.privacy.cost import two_classes
from fedkd_flwr.privacy.cost.losses import TiltedSum, pure_losses, solve_epsilon, tilt_for_epsilon
from fedkd_flwr.privacy.cost.two_classes import two_class_losses


def beyond(u):
    """P(L1 - L0 > u) of unit Laplace noises: integrated in the first test, from PATE 2017, Lemma 4."""
    tail = (2 + abs(u)) * math.exp(-abs(u)) / 4
    return tail if u >= 0 else 1 - tail


@cache
def claimed(shift, count, delta):
    return solve_epsilon(two_class_losses(shift, count), delta, count * shift)


@cache
def found_delta(shift, count, epsilon):
    parts = two_class_losses(shift, count)
    return TiltedSum(parts, tilt_for_epsilon(parts, epsilon)).delta(epsilon)


def coin(place, shift):
    """Return the odds of class 1 where the votes are ``place`` scales apart, and where the neighbour's are."""
    return beyond(place), beyond(place + shift)


def binomial_delta(pair, count, epsilon):
    """Exact delta of ``count`` labels with equal votes: the sum over how many are of class 1."""
    p, q = pair
    ones = np.arange(count + 1)
    loss = ones * math.log(p / q) + (count - ones) * math.log((1 - p) / (1 - q))
    above = loss > epsilon
    return float(stats.binom.pmf(ones[above], count, p) @ -np.expm1(epsilon - loss[above]))


def test_the_odds_of_a_label_are_those_of_two_laplace_noises():
    for u in (0.0, 0.3, 2.0, -1.5):
        exact = integrate.quad(
            lambda x, u=u: math.exp(-abs(x)) / 2 * stats.laplace.sf(u + x), -40, 40, points=sorted({0.0, -u})
        )[0]
        assert beyond(u) == pytest.approx(exact, rel=1e-9)


# ------------------------------------------------------------------------------------------------ one label


def one_label(shift, epsilon):
    """Exact delta of one label, the votes as bad as can be: where the loss of the released number exceeds epsilon."""
    if abs(epsilon) >= shift:
        return max(0.0, -math.expm1(epsilon))

    def excess(z):
        loss = math.log1p(abs(z)) - abs(z) - math.log1p(abs(z - shift)) + abs(z - shift)
        return loss - epsilon

    place = optimize.brentq(excess, -600, shift + 600, xtol=1e-14)
    return beyond(-place) - math.exp(epsilon) * beyond(shift - place)


@pytest.mark.parametrize("shift", [1e-6, 0.08, 1.0, 6.0, 30.0])
@pytest.mark.parametrize(("share", "excess"), [(0.0, 1e-4), (0.3, 1e-4), (0.8, 5e-3), (0.97, 2.0)])
def test_one_label_has_the_exact_privacy_curve(shift, share, excess):
    exact = one_label(shift, share * shift)  # at 0.97 it is as small as 1e-22
    assert exact * (1 - 1e-9) <= found_delta(shift, 1, share * shift) <= exact * (1 + excess)


@pytest.mark.parametrize("cells", [4, 500])
@pytest.mark.parametrize("shift", [1e-9, 0.3, 39.0])
def test_the_released_number_s_grid_keeps_both_neighbours_and_never_lowers_the_curve(shift, cells):
    grid = two_classes._number_losses(shift, cells)
    assert grid.mass.sum() == pytest.approx(1, abs=1e-13)
    assert grid.mass @ np.exp(-grid.losses) == pytest.approx(1, abs=1e-12)
    assert (grid.mass >= 0).all()
    assert grid.losses[-1] == pytest.approx(shift, rel=1e-12)
    for share in (0.0, 0.25, 0.75):
        at = share * shift  # a grid point: there nothing is added
        above = grid.losses > at * (1 + 1e-12)
        delta = grid.mass[above] @ -np.expm1(at - grid.losses[above])
        assert delta == pytest.approx(one_label(shift, at), rel=1e-9)


def test_the_corners_of_the_polygon_enclose_every_coin():
    shift = 0.4
    p, losses = two_classes._coins(shift, 32)
    q = p * np.exp(-losses)
    assert (p.sum(axis=0), q.sum(axis=0)) == (pytest.approx(1), pytest.approx(1))
    for place in np.linspace(-20, 20, 401):
        mine = coin(place, shift)
        for slope in np.exp(np.linspace(-shift, shift, 41)):
            assert mine[0] - slope * mine[1] <= (p[0] - slope * q[0]).max() + 1e-15


@pytest.mark.parametrize(("shift", "moved"), [(0.5, 0.2), (3.0, 2.9)])
def test_a_smaller_move_and_the_other_direction_reveal_no_more(shift, moved):
    for place in np.linspace(-8, 8, 33):
        for pair in (coin(place, moved), coin(place, moved)[::-1], coin(place, -shift), coin(place, shift)[::-1]):
            for epsilon in (0.0, 0.3 * shift, 0.9 * shift):
                for side in (pair, (1 - pair[0], 1 - pair[1])):
                    assert side[0] - math.exp(epsilon) * side[1] <= found_delta(shift, 1, epsilon)


# ------------------------------------------------------------------------------------------------ many labels


CASES = [(0.08, 81), (0.12, 361), (1.0, 10), (4.0, 4)]


@pytest.mark.parametrize("delta", [1e-5, 1e-10])
@pytest.mark.parametrize(("shift", "count"), CASES)
def test_equal_votes_never_reveal_more_than_claimed_and_nearly_that(shift, count, delta):
    """The exact cross-check: the number of labels of class 1 is binomial under both neighbours."""
    epsilon = claimed(shift, count, delta)
    places = np.linspace(-14, 14, 113) - shift / 2
    assert max(binomial_delta(coin(place, shift), count, epsilon) for place in places) <= delta
    assert max(binomial_delta(coin(place, shift), count, 0.985 * epsilon) for place in places) > delta


@settings(max_examples=10)
@given(st.floats(0.05, 3.0), st.lists(st.floats(-4, 4), min_size=31, max_size=31), st.floats(0.05, 0.9))
def test_votes_chosen_after_each_label_reveal_no_more_than_claimed(shift, places, share):
    """Exactly, by a tree of five labels: which votes come next depends on all labels before, or on none of them."""
    epsilon = share * shift * math.sqrt(5)

    def divergence(node, p, q, depth):
        if depth == 5:
            return max(0.0, p - math.exp(epsilon) * q)
        a, b = coin(places[node], shift)
        ones = divergence(2 * node + 1, p * a, q * b, depth + 1)
        return ones + divergence(2 * node + 2, p * (1 - a), q * (1 - b), depth + 1)

    assert divergence(0, 1.0, 1.0, 0) <= found_delta(shift, 5, epsilon) * (1 + 1e-12)


@pytest.mark.parametrize(("shift", "count"), [(1e-9, 100), (0.08, 81), (3.0, 7), (39.0, 2), (0.002, 10**6)])
def test_blocks_are_distributions_with_nothing_worth_naming_beyond_them(shift, count):
    for grid, _ in two_class_losses(shift, count):
        assert grid.mass.sum() + grid.infinite == pytest.approx(1, abs=1e-12)
        assert (grid.mass >= 0).all()
        assert grid.infinite < 1e-290


def test_a_distribution_made_of_a_curve_has_that_curve():
    step = 0.25
    at = step * np.arange(-8, 9)
    curve = np.array([one_label(2.0, x) for x in at])
    grid = two_classes._distribution(curve, step)
    for x, value in zip(at, curve, strict=True):
        above = grid.losses > x
        delta = grid.mass[above] @ -np.expm1(x - grid.losses[above]) + grid.infinite
        assert delta == pytest.approx(value, rel=1e-9, abs=1e-15)


def test_beyond_forty_a_label_is_taken_for_any_of_its_epsilon():
    ((grid, uses),) = two_class_losses(40.5, 7)
    assert (uses, grid.step, grid.mass.tolist()) == (7, 40.5, pure_losses(40.5).mass.tolist())

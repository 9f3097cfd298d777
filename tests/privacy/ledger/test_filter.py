"""Budgets hold against a server that chooses each request after seeing the answers to earlier ones."""

import math

import dp_accounting as dp
import numpy as np
import pytest
from ledgers import gaussian

from fedkd_flwr.privacy.cost.accountant import Accountant
from fedkd_flwr.privacy.cost.events import ApproximateEvent, PureEvent
from fedkd_flwr.privacy.ledger.entry import plain_events
from fedkd_flwr.privacy.ledger.filter import Cost, cost_of, order, spent, spent_text
from fedkd_flwr.privacy.noise.labels import BitFlip, RandomizedResponse

ONE = np.ones((1, 1), dtype=bool)


def _counted(events, epsilon, delta):
    cost = cost_of(plain_events(events), order(epsilon, delta))
    return float(spent([(0, cost)], ONE, epsilon=epsilon, delta=delta)[0])


def _needed(event, count, delta):
    """Return the least budget whose filter covers so many releases."""
    low, high = 1e-3, 1e3
    while high > low * 1.001:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if _counted([(event, count)], middle, delta) <= middle else (middle, high)
    return high


# ------------------------------------------------------------------------------------------- adaptive servers

MENU = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
DEPTH = 7


def _answers(strategies, epsilon, delta):
    """Play all strategies against the filter at once; return the exact delta at ``epsilon`` of each.

    Each request is binary randomised response of an epsilon from the menu, or none: ``strategies`` (S, 2^DEPTH - 1)
    says which, for each transcript so far. The filter decides as a ledger's does, whether it may be asked.
    """
    alpha, count = order(epsilon, delta), len(strategies)
    costs = [cost_of(plain_events([(PureEvent(step), 1)]), alpha) for step in MENU]
    releases = [(level * len(MENU) + choice, costs[choice]) for level in range(DEPTH) for choice in range(len(MENU))]
    paths = np.zeros((count, 1, DEPTH * len(MENU)), dtype=bool)
    log_p, log_q = np.zeros((count, 1)), np.zeros((count, 1))
    for level in range(DEPTH):
        nodes = 2**level
        choice = strategies[:, nodes - 1 : 2 * nodes - 1]
        asked = paths.copy()
        np.put_along_axis(asked, (level * len(MENU) + np.maximum(choice, 0))[..., None], True, axis=2)
        counted = spent(releases, asked.reshape(-1, asked.shape[2]), epsilon=epsilon, delta=delta)
        allowed = (choice >= 0) & (counted.reshape(count, nodes) <= epsilon)
        paths = np.where(allowed[..., None], asked, paths)
        step = np.where(allowed, np.array(MENU)[np.maximum(choice, 0)], 0.0)
        likely, unlikely = -np.log1p(np.exp(-step)), -np.log1p(np.exp(step))
        paths = np.repeat(paths, 2, axis=1)
        log_p = np.stack([log_p + likely, log_p + unlikely], axis=2).reshape(count, -1)
        log_q = np.stack([log_q + unlikely, log_q + likely], axis=2).reshape(count, -1)
    return np.maximum(np.exp(log_p) - np.exp(epsilon + log_q), 0.0).sum(axis=1)


def _strategies(count, seed=0):
    """Return random strategies, and ones that go on, or go higher, only where they are ahead or behind."""
    rng = np.random.default_rng(seed)
    chosen = rng.integers(-1, len(MENU), (count, 2**DEPTH - 1))
    node = np.arange(2**DEPTH - 1) + 1
    # of the answers so far (the bits of the node's number after its first), how many spoke against P
    against = np.array([bin(i).count("1") - 1 for i in node])
    ahead = np.floor(np.log2(node)) - 2 * against
    for k in range(count // 4):
        small, large = np.sort(rng.integers(0, len(MENU), 2))
        sign = 1 if k % 2 else -1
        chosen[k] = np.where(sign * ahead >= rng.integers(-2, 3), large, small if k % 4 < 2 else -1)
    return chosen


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.05), (0.6, 0.1)])
def test_no_adaptive_strategy_of_four_hundred_gets_beyond_the_promise(epsilon, delta):
    reached = _answers(_strategies(200), epsilon, delta)
    assert reached.max() <= delta
    assert reached.max() > 0.05 * delta  # so that there is something to exceed


def test_the_game_notices_a_filter_that_lets_too_much_pass(monkeypatch):
    from fedkd_flwr.privacy.ledger import filter as filters

    monkeypatch.setattr(filters, "_log_share", lambda tilt: -np.inf)  # a conversion that costs nothing
    assert _answers(_strategies(100), 1.0, 0.05).max() > 0.05


# ------------------------------------------------------------------------------------------------------ prices

RESPONSE = RandomizedResponse(epsilon=1.0, num_classes=10).dp_event()
USUAL = {
    "100 labels of epsilon 1 among ten classes": (RESPONSE, 100),
    "500 labels of epsilon 0.1": (RandomizedResponse(epsilon=0.1, num_classes=10).dp_event(), 500),
    "Laplace votes": (dp.LaplaceDpEvent(12.5), 162),
    "Gaussian scores": (gaussian(3.73), 100),
    "bit flips": (BitFlip(epsilon=0.5, num_classes=10).dp_event(), 200),
    "one subset for ever": (ApproximateEvent(0.11, 8e-6), 1),
}


@pytest.mark.parametrize("name", USUAL)
def test_the_price_of_the_filter_is_at_most_a_tenth_for_usual_releases(name):
    event, count = USUAL[name]
    tight = Accountant().compose(event, count).epsilon(1e-5)
    assert tight * (1 - 1e-9) <= _needed(event, count, 1e-5) <= 1.1 * tight


def test_pure_releases_are_never_counted_above_their_sum():
    assert _counted([(PureEvent(0.3), 3)], 1.0, 1e-5) == pytest.approx(0.9)
    assert _counted([(PureEvent(0.01), 500)], 1.2, 1e-5) <= 1.2 < 5.0


# ------------------------------------------------------------------------------------------------------- rules


def test_a_first_release_that_states_a_delta_makes_epsilons_and_deltas_add_up():
    subset, label = ApproximateEvent(0.1, 0.1), PureEvent(0.01)
    assert _counted([(subset, 1), (label, 500)], 10.0, 0.15) == pytest.approx(5.1)
    assert _counted([(subset, 2)], 10.0, 0.15) == math.inf
    assert _counted([(subset, 1), (gaussian(10.0), 1)], 10.0, 0.15) == math.inf


def test_a_release_that_states_a_delta_after_noise_is_not_covered():
    alpha = order(10.0, 0.15)
    events = PureEvent(0.1), ApproximateEvent(0.1, 0.1)
    releases = [(0, cost_of(plain_events([(event, 1)]), alpha)) for event in events]
    assert spent(releases, ONE, epsilon=10.0, delta=0.15)[0] == math.inf
    assert spent(releases[::-1], ONE, epsilon=10.0, delta=0.15)[0] == pytest.approx(0.2)


def test_the_first_release_of_a_row_decides_its_filter_in_whichever_data_set_it_was():
    label, subset = Cost(plain=0.1, moment=0.01), Cost(plain=0.1, moment=math.inf, stated=0.1)
    both = np.array([[True, True]])
    for first in (0, 1):
        order_of = [(first, subset), (1 - first, label)]
        assert spent(order_of, both, epsilon=10.0, delta=0.15)[0] == pytest.approx(0.2)
        assert spent(order_of[::-1], both, epsilon=10.0, delta=0.15)[0] == math.inf


def test_a_note_that_releases_nothing_does_not_decide_the_filter():
    subset = Cost(plain=0.1, moment=math.inf, stated=0.1)
    assert spent([(0, Cost()), (0, subset)], ONE, epsilon=10.0, delta=0.15)[0] == pytest.approx(0.1)
    assert not Cost(plain=1.0).nothing
    assert not Cost(moment=1.0).nothing
    assert not Cost(stated=1.0).nothing


def test_a_budget_in_which_no_gaussian_noise_fits_counts_the_plain_sum_alone():
    assert order(1e-5, 1e-9) == 0.0
    assert _counted([(PureEvent(4e-6), 2)], 1e-5, 1e-9) == pytest.approx(8e-6)
    assert _counted([(gaussian(1e9), 1)], 1e-5, 1e-9) == math.inf


def test_a_small_renyi_sum_is_never_counted_as_less_than_nothing():
    """A large delta alone is worth more than the sum: the conversion's value is below 0."""
    assert spent([(0, Cost(plain=5.0, moment=1e-9))], ONE, epsilon=0.01, delta=0.05)[0] == 0.0


def test_sums_that_pass_a_budget_by_the_rounding_of_floats_are_covered_and_no_others():
    assert 0.1 + 0.2 > 0.3
    events = [(ApproximateEvent(0.5, 0.1), 1), (ApproximateEvent(0.5, 0.2), 1)]
    assert _counted(events, 1.0, 0.3) == pytest.approx(1.0)
    assert _counted(events, 1.0, 0.3 * (1 - 1e-8)) == math.inf
    assert spent_text(3.0000000000000053) == "3"
    assert spent_text(1.00000001, 9) == "1.00000001"
    assert spent_text(1.0000049) == "1.00001"
    assert spent_text(math.inf) == "infinite"


def test_many_histories_are_counted_in_blocks_and_rows_of_no_data_set_have_spent_nothing(monkeypatch):
    from fedkd_flwr.privacy.ledger import filter as filters

    monkeypatch.setattr(filters, "_BLOCK", 2)
    patterns = np.array([[1, 0], [0, 1], [1, 1], [0, 0], [1, 0]], dtype=bool)
    costs = [(0, Cost(plain=1.0, moment=math.inf)), (1, Cost(plain=2.0, moment=math.inf))]
    assert spent(costs, patterns, epsilon=5.0, delta=0.0).tolist() == [1, 2, 3, 0, 1]
    assert spent([], np.zeros((3, 0), dtype=bool), epsilon=5.0, delta=0.0).tolist() == [0, 0, 0]


def test_gaussian_noise_alone_is_counted_as_its_renyi_divergence_says():
    alpha = order(1.0, 1e-5)
    bound = alpha / 2 / 40**2 + math.log(1 - 1 / alpha) - (math.log(1e-5) + math.log(alpha)) / (alpha - 1)
    assert _counted([(gaussian(40.0), 1)], 1.0, 1e-5) == pytest.approx(bound)
    assert _counted([(gaussian(40.0), 1)], 1.0, 0.0) == math.inf


@pytest.mark.parametrize("epsilon", [1e-10, 1e-9, 1e-7])
def test_releases_of_a_tiny_epsilon_move_the_renyi_sum_so_that_enough_of_them_end_the_budget(epsilon):
    """Rounded down, 10^15 of them left the sum at 0, or below its true value."""
    label = RandomizedResponse(epsilon=epsilon, num_classes=2).dp_event()
    one, many = (cost_of(plain_events([(label, count)]), order(1.0, 1e-5)).moment for count in (1, 10**15))
    tilt = order(1.0, 1e-5) - 1
    # what the Renyi divergence of a nearly fair coin tends to
    assert one == pytest.approx(tilt * (1 + tilt) / 2 * epsilon**2, rel=1e-4, abs=0)
    assert many == pytest.approx(10**15 * one)
    assert (_counted([(label, 10**15)], 1.0, 1e-5) > 1.0) == (epsilon > 1e-9)

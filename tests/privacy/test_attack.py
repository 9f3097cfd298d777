"""An attacker with many runs on two neighbouring inputs: never above the claimed epsilon, and close below it.

The attacker knows both inputs, looks at an event of the output, and bounds ln(P(event | one) / P(event | other)) from
below with 99.9 % confidence (Clopper and Pearson 1934, shared over all events looked at). Deterministic: seeded runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from fedkd_flwr.privacy.cost.accountant import Accountant
from fedkd_flwr.privacy.noise.labels import BitFlip, RandomizedResponse
from fedkd_flwr.privacy.noise.votes import GaussianMax, LaplaceMax

RUNS = 400_000
CONFIDENCE = 0.999

Events = dict[str, Callable[[np.ndarray], np.ndarray]]


def epsilon_found(one: np.ndarray, other: np.ndarray, events: Events) -> float:
    """Return the largest epsilon that the outputs on the two inputs prove, over events and both directions."""
    alpha = (1 - CONFIDENCE) / (4 * len(events))  # events x directions x (lower and upper bound)
    best = 0.0
    for event in events.values():
        hits = [int(event(one).sum()), int(event(other).sum())]
        for more, less in (hits, hits[::-1]):
            lower = stats.beta.ppf(alpha, more, RUNS - more + 1) if more else 0.0
            upper = stats.beta.ppf(1 - alpha, less + 1, RUNS - less)
            if lower > upper:
                best = max(best, math.log(lower / upper))
    return best


def labels_are(*classes: int) -> Events:
    return {f"label {c}": lambda out, c=c: out == c for c in classes}


def winners(mechanism: LaplaceMax | GaussianMax, counts: list[int], seed: int) -> np.ndarray:
    return mechanism.privatize(np.tile([counts], (RUNS, 1)), rng=np.random.default_rng(seed))


def noisy(mechanism: LaplaceMax, counts: list[int], seed: int) -> np.ndarray:
    return mechanism.noisy_counts(np.tile([counts], (RUNS, 1)), rng=np.random.default_rng(seed))


# the loser is so far behind that its chances change by nearly e^(2 gamma votes)
NEIGHBOURS = {1: ([0, 6], [1, 5]), 2: ([0, 12], [2, 10])}
GAMMA = {1: 1.0, 2: 0.5}


@pytest.mark.parametrize("votes", [1, 2])
def test_winners_of_laplace_max_reveal_no_more_than_claimed_and_nearly_that(votes: int) -> None:
    claimed = LaplaceMax(gamma=GAMMA[votes], votes=votes)
    one, other = (winners(claimed, counts, seed) for seed, counts in enumerate(NEIGHBOURS[votes]))
    found = epsilon_found(one, other, labels_are(0, 1))
    assert claimed.pure_epsilon / 2 < found <= claimed.pure_epsilon


@pytest.mark.parametrize("votes", [1, 2])
def test_noisy_counts_of_laplace_max_reveal_no_more_than_claimed_and_nearly_that(votes: int) -> None:
    claimed = LaplaceMax(gamma=0.5 / votes, votes=votes)
    one, other = (noisy(claimed, counts, seed) for seed, counts in enumerate(([5 + votes, 5], [5, 5 + votes])))
    corners: Events = {
        f"above {t}, below {5 + votes - t + 5}": lambda out, t=t: (out[:, 0] > t) & (out[:, 1] < 10 + votes - t)
        for t in (4 + votes, 5 + votes, 6 + votes)
    }
    found = epsilon_found(one, other, corners)
    assert 0.9 * claimed.pure_epsilon < found <= claimed.pure_epsilon


def test_votes_spread_over_more_classes_reveal_no_more_than_claimed() -> None:
    claimed = LaplaceMax(gamma=0.4, votes=2)
    one, other = (noisy(claimed, counts, seed) for seed, counts in enumerate(([4, 4, 3, 3], [3, 3, 4, 4])))
    corner: Events = {"corner": lambda out: (out[:, :2] > 4).all(axis=1) & (out[:, 2:] < 3).all(axis=1)}
    found = epsilon_found(one, other, corner)
    assert claimed.pure_epsilon / 2 < found <= claimed.pure_epsilon


@pytest.mark.parametrize(("epsilon", "num_classes"), [(0.3, 2), (1.0, 10), (3.0, 10)])
def test_randomised_response_reveals_no_more_than_claimed_and_nearly_that(epsilon: float, num_classes: int) -> None:
    claimed = RandomizedResponse(epsilon=epsilon, num_classes=num_classes)
    one, other = (
        claimed.privatize(np.full(RUNS, label), rng=np.random.default_rng(seed)) for seed, label in enumerate((0, 1))
    )
    found = epsilon_found(one, other, labels_are(0, 1))
    assert 0.85 * epsilon < found <= claimed.pure_epsilon <= epsilon


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_bit_flips_reveal_no_more_than_claimed_and_nearly_that(epsilon: float) -> None:
    claimed = BitFlip(epsilon=epsilon, num_classes=4)
    one, other = (
        claimed.privatize(np.full(RUNS, label), rng=np.random.default_rng(seed)) for seed, label in enumerate((0, 1))
    )
    both: Events = {"bits 1, 0": lambda out: (out[:, 0] == 1) & (out[:, 1] == 0)}
    found = epsilon_found(one, other, both)
    assert 0.9 * claimed.pure_epsilon < found <= claimed.pure_epsilon <= epsilon


def test_gaussian_counts_keep_to_the_delta_of_their_event() -> None:
    claimed = GaussianMax(sigma=3.0, votes=2)
    multiplier, epsilon = claimed.dp_event().noise_multiplier, 0.5
    z = epsilon * multiplier
    delta = stats.norm.cdf(0.5 / multiplier - z) - math.exp(epsilon) * stats.norm.cdf(-0.5 / multiplier - z)
    rows = np.ones((RUNS, 1), dtype=int)
    one, other = (
        claimed.noisy_counts(rows * np.array(counts), rng=np.random.default_rng(seed))
        for seed, counts in enumerate(([6, 4], [4, 6]))
    )
    # Neyman and Pearson: the best event is where the likelihoods differ by more than e^epsilon
    hits = [((out[:, 0] - out[:, 1]) * 2 / 9 > epsilon).mean() for out in (one, other)]
    error = 4 * math.sqrt(hits[0] / RUNS) + 4 * math.exp(epsilon) * math.sqrt(hits[1] / RUNS)
    assert abs(hits[0] - math.exp(epsilon) * hits[1] - delta) < error
    assert delta > 2 * error  # so that half, or twice, the noise would be noticed


@pytest.mark.parametrize("votes", [1, 2])
def test_winners_of_two_keep_to_the_delta_of_their_event_and_nearly_reach_it(votes: int) -> None:
    claimed = LaplaceMax(gamma=0.5 / votes, votes=votes, winner_of_two=True)
    accountant = Accountant().compose(claimed.dp_event())
    best = 0.0
    for behind in (2, 3, 4):
        # class 0 is so many votes behind; the neighbour gives it what one change can move
        lost, won = ([10 * votes, (10 + behind) * votes], [11 * votes, (9 + behind) * votes])
        one, other = (winners(claimed, counts, seed) for seed, counts in enumerate((won, lost)))
        for epsilon in (0.3, 0.7):
            hits = [(out == 0).mean() for out in (one, other)]
            error = 4 * math.sqrt(hits[0] / RUNS) + 4 * math.exp(epsilon) * math.sqrt(hits[1] / RUNS)
            reached, delta = hits[0] - math.exp(epsilon) * hits[1], accountant.delta(epsilon)
            assert reached <= delta + error
            best = max(best, reached / delta)
    assert best > 0.9


# ---------------------------------------------------------------- the attack catches what is broken


@pytest.mark.parametrize("votes", [1, 2])
def test_half_the_noise_is_caught_by_the_winners(votes: int) -> None:
    claimed, broken = (LaplaceMax(gamma=factor * GAMMA[votes] / 2, votes=votes) for factor in (1, 2))
    one, other = (winners(broken, counts, seed) for seed, counts in enumerate(NEIGHBOURS[votes]))
    assert epsilon_found(one, other, labels_are(0, 1)) > claimed.pure_epsilon


def test_a_change_of_more_votes_than_assumed_is_caught() -> None:
    claimed = LaplaceMax(gamma=0.5, votes=1)  # but two votes move, as with two students a party
    one, other = (noisy(claimed, counts, seed) for seed, counts in enumerate(([7, 5], [5, 7])))
    corner: Events = {"corner": lambda out: (out[:, 0] > 7) & (out[:, 1] < 5)}
    assert epsilon_found(one, other, corner) > claimed.pure_epsilon


@pytest.mark.parametrize("kind", [RandomizedResponse, BitFlip])
def test_a_label_mechanism_with_too_little_noise_is_caught(kind: type) -> None:
    claimed, broken = kind(epsilon=1.0, num_classes=4), kind(epsilon=1.1, num_classes=4)
    one, other = (
        broken.privatize(np.full(RUNS, label), rng=np.random.default_rng(seed)) for seed, label in enumerate((0, 1))
    )
    bits: Events = {"bits 1, 0": lambda out: (out[:, 0] == 1) & (out[:, 1] == 0)}
    assert epsilon_found(one, other, labels_are(0, 1) if kind is RandomizedResponse else bits) > claimed.pure_epsilon

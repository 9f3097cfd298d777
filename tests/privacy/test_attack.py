"""An attacker with many runs on two neighbouring inputs: never above the claimed epsilon, and close below it.

The attacker knows both inputs, looks at an event of the output, and bounds ln(P(event | one) / P(event | other)) from
below with 99.9 % confidence (Clopper and Pearson 1934, shared over all events looked at). Deterministic: seeded runs.
"""

import math
from collections.abc import Callable
from typing import Any

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


def corner(above: float, below: float) -> Events:
    """Return the event that the first half of the columns lies above, and the other half below."""
    return {"corner": lambda out: (np.split(out, 2, 1)[0] > above).all(1) & (np.split(out, 2, 1)[1] < below).all(1)}


FIRST_BITS: Events = {"bits 1, 0": lambda out: (out[:, 0] == 1) & (out[:, 1] == 0)}


def drawn(mechanism: Any, given: Any, seed: int, *, counts: bool = False) -> np.ndarray:
    """Return so many outputs of the mechanism: of votes the winners or the noisy counts, of a label what leaves."""
    given = np.tile([given], (RUNS, 1)) if isinstance(given, list) else np.full(RUNS, given)
    rng = np.random.default_rng(seed)
    return mechanism.noisy_counts(given, rng=rng) if counts else mechanism.privatize(given, rng=rng)


def laplace(gamma: float, votes: int = 1) -> LaplaceMax:
    return LaplaceMax(gamma=gamma, votes=votes)


def response(epsilon: float, num_classes: int = 10) -> RandomizedResponse:
    return RandomizedResponse(epsilon=epsilon, num_classes=num_classes)


def bits(epsilon: float) -> BitFlip:
    return BitFlip(epsilon=epsilon, num_classes=4)


# what is claimed, two neighbouring inputs, the events looked at, and the share of the claim that they must prove; of
# winners the loser is so far behind that its chances change by nearly e^(2 gamma votes)
HELD = {
    "winners": (laplace(1.0), [0, 6], [1, 5], labels_are(0, 1), 0.5),
    "winners, two votes": (laplace(0.5, 2), [0, 12], [2, 10], labels_are(0, 1), 0.5),
    "counts": (laplace(0.5), [6, 5], [5, 6], corner(6, 5), 0.9),
    "counts, two votes": (laplace(0.25, 2), [7, 5], [5, 7], corner(7, 5), 0.9),
    "counts of more classes": (laplace(0.4, 2), [4, 4, 3, 3], [3, 3, 4, 4], corner(4, 3), 0.5),
    "response of two": (response(0.3, 2), 0, 1, labels_are(0, 1), 0.85),
    "response": (response(3.0), 0, 1, labels_are(0, 1), 0.85),
    "bits": (bits(1.0), 0, 1, FIRST_BITS, 0.9),
    "surer bits": (bits(4.0), 0, 1, FIRST_BITS, 0.9),
}


@pytest.mark.parametrize("name", HELD)
def test_outputs_reveal_no_more_than_claimed_and_nearly_that(name: str) -> None:
    claimed, one, other, events, share = HELD[name]
    outputs = (drawn(claimed, given, seed, counts=name[:6] == "counts") for seed, given in enumerate((one, other)))
    assert share * claimed.pure_epsilon < epsilon_found(*outputs, events) <= claimed.pure_epsilon


# the claim, the mechanism that is broken, two inputs, and the events
BROKEN = {
    "half the noise": (laplace(0.5), laplace(1.0), [0, 6], [1, 5], labels_are(0, 1)),
    "more votes move than assumed": (laplace(0.5), laplace(0.5), [7, 5], [5, 7], corner(7, 5)),
    "response": (response(1.0, 4), response(1.1, 4), 0, 1, labels_are(0, 1)),
    "bits": (bits(1.0), bits(1.1), 0, 1, FIRST_BITS),
}


@pytest.mark.parametrize("name", BROKEN)
def test_the_attack_catches_what_is_broken(name: str) -> None:
    claimed, broken, one, other, events = BROKEN[name]
    outputs = (drawn(broken, given, seed, counts="votes" in name) for seed, given in enumerate((one, other)))
    assert epsilon_found(*outputs, events) > claimed.pure_epsilon


def test_gaussian_counts_keep_to_the_delta_of_their_event() -> None:
    claimed = GaussianMax(sigma=3.0, votes=2)
    multiplier, epsilon = claimed.dp_event().noise_multiplier, 0.5
    z = epsilon * multiplier
    delta = stats.norm.cdf(0.5 / multiplier - z) - math.exp(epsilon) * stats.norm.cdf(-0.5 / multiplier - z)
    one, other = (drawn(claimed, counts, seed, counts=True) for seed, counts in enumerate(([6, 4], [4, 6])))
    # Neyman and Pearson: the best event is where the likelihoods differ by more than e^epsilon
    hits = [((out[:, 0] - out[:, 1]) * 2 / 9 > epsilon).mean() for out in (one, other)]
    error = 4 * math.sqrt(hits[0] / RUNS) + 4 * math.exp(epsilon) * math.sqrt(hits[1] / RUNS)
    assert abs(hits[0] - math.exp(epsilon) * hits[1] - delta) < error
    assert delta > 2 * error  # so that half, or twice, the noise would be noticed


@pytest.mark.parametrize("votes", [1, 2])
def test_winners_of_two_keep_to_the_delta_of_their_event_and_nearly_reach_it(votes: int) -> None:
    best = 0.0
    claimed = LaplaceMax(gamma=0.5 / votes, votes=votes, winner_of_two=True)
    accountant = Accountant().compose(claimed.dp_event())
    for behind in (2, 3, 4):
        # class 0 is so many votes behind; the neighbour gives it what one change can move
        lost, won = ([10 * votes, (10 + behind) * votes], [11 * votes, (9 + behind) * votes])
        one, other = (drawn(claimed, counts, seed) for seed, counts in enumerate((won, lost)))
        for epsilon in (0.3, 0.7):
            hits = [(out == 0).mean() for out in (one, other)]
            error = 4 * math.sqrt(hits[0] / RUNS) + 4 * math.exp(epsilon) * math.sqrt(hits[1] / RUNS)
            reached, delta = hits[0] - math.exp(epsilon) * hits[1], accountant.delta(epsilon)
            assert reached <= delta + error
            best = max(best, reached / delta)
    assert best > 0.9

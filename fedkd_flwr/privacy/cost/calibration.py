"""From a target epsilon to the noise: the least noise whose accounted cost stays within it.

All of it is data-independent: it sees a mechanism's parameters and how often it will be used, never votes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal, TypeVar

from fedkd_flwr.checks import check_number, check_whole
from fedkd_flwr.errors import ConfigError, explain
from fedkd_flwr.privacy.cost.accountant import Accountant
from fedkd_flwr.privacy.cost.events import check_delta
from fedkd_flwr.privacy.noise.labels import BitFlip, RandomizedResponse, label_mechanism
from fedkd_flwr.privacy.noise.plan import Noise, make_noise

__all__ = ["calibrate", "calibrate_labels", "calibrate_votes"]

M = TypeVar("M")

_CLOSE = 1e-6  # ratio of the parameters between which the search ends


def calibrate(
    make: Callable[[float], M], *, count: int, epsilon: float, delta: float, more_is_noisier: bool = True
) -> M:
    """Return the mechanism with the least noise of which ``count`` uses cost at most ``epsilon`` at ``delta``.

    ``make`` builds a mechanism (anything with ``dp_event()``) from its noise parameter, a float > 0: a scale, or
    without ``more_is_noisier`` a rate or an epsilon. A `ConfigError` counts as out of range. ``count`` is how often the
    mechanism will be used, over all partitions and rounds. The accounted epsilon never exceeds the target, and is at
    least 0.99 of it wherever the parameter between 1e-10 and 1e10 allows.

    Raises `ConfigError` for impossible targets, and where no parameter in the range keeps to the target (Gaussian noise
    at delta = 0).
    """
    check_number("epsilon", epsilon, above=0, way_out="For no noise use mechanism none; it claims nothing.")
    check_delta(delta)
    check_whole("count", count, 1)

    def affordable(parameter: float) -> Any:
        """Return the mechanism; None if it costs too much or there is none."""
        try:
            mechanism: Any = make(parameter)
        except ConfigError:
            return None
        accountant = Accountant().compose(mechanism.dp_event(), count)
        # Evaluating delta once is cheaper than solving for epsilon; at delta = 0 only the plain sum counts.
        within = accountant.delta(epsilon) <= delta if delta > 0 else accountant.epsilon(0.0) <= epsilon
        return mechanism if within else None

    powers = range(-10, 11) if more_is_noisier else range(10, -11, -1)  # from the least noise on
    found = next(((10.0**power, one) for power in powers if (one := affordable(10.0**power)) is not None), None)
    if found is None:
        make(1.0)  # If no parameter was accepted, this raises make()'s own error.
        way_out = "Use a larger epsilon, a delta > 0, fewer queries or rounds, or Laplace noise."
        seen = f"{epsilon:g} at delta {delta:g} for {count} uses"
        raise ConfigError(explain("epsilon", "be attainable by some noise", seen, way_out))
    good, best = found
    bad = good / 10 if more_is_noisier else good * 10
    while abs(math.log(good / bad)) > _CLOSE:
        middle = math.sqrt(good) * math.sqrt(bad)
        if (one := affordable(middle)) is not None:
            good, best = middle, one
        else:
            bad = middle
    # Epsilon at delta may be rounded up further than delta at epsilon was: then step back.
    back = _CLOSE if more_is_noisier else -_CLOSE
    while not Accountant().compose(best.dp_event(), count).epsilon(delta) <= epsilon:
        good, back = good * (1 + back), 2 * back
        best = make(good)
    least: M = best
    return least


def calibrate_votes(
    noise: str, *, num_queries: int, epsilon: float, delta: float, counts_per_vote: int = 1, **others: Any
) -> Noise:
    """Return noisy max with the least noise called ``noise``; see `calibrate`, and for the others `make_noise`.

    What is searched for is the noise on a count. Confident-GNMax is charged as if every query were answered.
    """

    def make(parameter: float) -> Noise:
        strength = parameter * counts_per_vote if noise == "laplace" else parameter / counts_per_vote
        return make_noise(noise, counts_per_vote=counts_per_vote, strength=strength, **others)

    return calibrate(make, count=num_queries, epsilon=epsilon, delta=delta, more_is_noisier=noise != "laplace")


@lru_cache(maxsize=64)
def calibrate_labels(
    name: Literal["auto", "randomized-response", "xor"],
    *,
    num_labels: int,
    epsilon: float,
    delta: float,
    num_classes: int,
) -> RandomizedResponse | BitFlip:
    """Return the label mechanism with the least noise of which ``num_labels`` labels cost at most ``epsilon``.

    ``num_labels`` counts labels that may change, over all rounds. ``auto`` takes whichever of the two, each calibrated
    to the same composed target, estimates the counts with the smaller variance. See `calibrate`.
    """

    def best(kind: str) -> RandomizedResponse | BitFlip:
        def make(per_label: float) -> RandomizedResponse | BitFlip:
            return label_mechanism(kind, epsilon=per_label, num_classes=num_classes)

        return calibrate(make, count=num_labels, epsilon=epsilon, delta=delta, more_is_noisier=False)

    return min(map(best, ("randomized-response", "xor") if name == "auto" else (name,)), key=lambda one: one.variance)

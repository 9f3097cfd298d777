"""What released noise costs: events composed into epsilon and delta, always as upper bounds.

An *event* says what one use of a mechanism does (`fedkd_flwr.privacy.cost.events`); an `Accountant` collects events and
states what all of them together cost. Pure, Laplace, two-class and randomised-response events are composed through
privacy loss distributions (`fedkd_flwr.privacy.cost.losses`), Gaussian events exactly.
"""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from scipy.special import log_ndtr

from fedkd_flwr.privacy import dp
from fedkd_flwr.privacy.cost import losses
from fedkd_flwr.privacy.cost.events import (
    ApproximateEvent,
    Event,
    TwoClassEvent,
    check_cost,
    check_count,
    check_delta,
    leaves,
    pure_epsilon,
)
from fedkd_flwr.privacy.cost.two_classes import two_class_losses

__all__ = ["Accountant"]


class Accountant:
    """Collects events and bounds what their composition costs; events may be chosen adaptively.

    Formal guarantees
    -----------------
    `epsilon` and `delta` are upper bounds for the sequential composition of everything composed, under the neighbouring
    relation the events were written for: all events of one accountant must speak of the same unit and relation, e.g.
    the same record seen by a party's s partitions, or the same party over rounds. What different parties release about
    *their own* records does not add up, and does not belong into one accountant.

    ==============================  ===================================================
    nothing composed                epsilon 0
    a `NonPrivateDpEvent`           epsilon inf at every delta, delta 1 at every epsilon
    delta = 0, a Gaussian event     inf: no finite pure guarantee exists
    delta = 0, pure events only     the plain sum, which is tight there
    delta below that of an          inf: the statement itself has a larger delta
    `ApproximateEvent`
    ==============================  ===================================================

    A composition of n uses is the same as n compositions of one: events are kept as a multiset.

    Examples
    --------
    Eighty-one queries of 0.08 each cost 6.48 by plain sum, and less than half of it at delta = 1e-5:

    >>> from fedkd_flwr.privacy.cost.events import PureEvent
    >>> accountant = Accountant().compose(PureEvent(0.08), 81)
    >>> round(accountant.epsilon(0.0), 2), round(accountant.epsilon(1e-5), 2)
    (6.48, 2.94)
    """

    def __init__(self) -> None:
        self._counts: dict[Event, int] = {}

    def compose(self, event: Event, count: int = 1) -> Self:
        """Add ``count`` uses of ``event``; returns the accountant itself.

        Raises `ConfigError` for an event of unknown kind or impossible parameters, or a count that is no int >= 0.
        """
        count = check_count(count)
        for leaf, uses in list(leaves(event, count)):
            if uses:
                self._counts[leaf] = self._counts.get(leaf, 0) + uses
        return self

    @property
    def events(self) -> tuple[tuple[Event, int], ...]:
        """Single mechanisms and how often each was used, in an order that does not depend on the order of composing."""
        return tuple(sorted(self._counts.items(), key=lambda item: repr(item[0])))

    def epsilon(self, delta: float) -> float:
        """Return an epsilon >= 0 such that everything composed is (epsilon, delta)-DP; ``delta`` within [0, 1)."""
        check_delta(delta)
        if not self._counts:
            return 0.0
        plain, infinite = self._plain(), self._infinite()
        basic = plain if infinite <= delta else math.inf
        if delta == 0 or self._non_private():
            return basic
        if (noise := self._only_gaussian()) is not None:
            return _gaussian_epsilon(noise, delta)
        parts = self._parts()
        return min(basic, losses.solve_epsilon(parts, delta, basic)) if parts is not None else basic

    def delta(self, epsilon: float) -> float:
        """Return a delta within [0, 1] such that everything composed is (epsilon, delta)-DP; ``epsilon`` >= 0."""
        check_cost("epsilon", epsilon)
        if self._non_private():
            return 1.0
        if self._plain() <= epsilon:
            return self._infinite()
        if (noise := self._only_gaussian()) is not None:
            return math.exp(_gaussian_log_delta(noise, epsilon))
        if (parts := self._parts()) is None:
            return 1.0
        return losses.TiltedSum(parts, losses.tilt_for_epsilon(parts, epsilon)).delta(epsilon)

    def cumulant(self, tilt: float) -> float:
        """Return a bound on ``ln E exp(tilt * loss)`` of everything composed, ``tilt`` > 0; for a privacy filter.

        That is ``tilt`` times the Renyi divergence of order ``1 + tilt``, of plain (epsilon, delta) statements where
        delta does not strike. It is rounded up, and above 0 for every use of an epsilon above 0. Infinite where none
        is proven.
        """
        if not self._counts:
            return 0.0
        if self._non_private():
            return math.inf
        # Gaussian noise in closed form: a large tilt moves its mass beyond the ends of a grid.
        value = tilt * (1 + tilt) / 2 * _precision(self._gaussian())
        value += math.fsum(count * part.cumulant_bound(tilt) for part, count in self._other_parts())
        return value * (1 + 1e-12)

    def _non_private(self) -> bool:
        return any(isinstance(leaf, dp.NonPrivateDpEvent) for leaf in self._counts)

    def _plain(self) -> float:
        """Sum the epsilons (basic composition): holds at the composed delta of `_infinite`."""
        return math.fsum(count * pure_epsilon(leaf) for leaf, count in self.events)

    def _infinite(self) -> float:
        """Compose the deltas of plain (epsilon, delta) statements."""
        stated = [(leaf.delta, count) for leaf, count in self.events if isinstance(leaf, ApproximateEvent)]
        if len(stated) == 1 and stated[0][1] == 1:
            return float(stated[0][0])  # as stated: no rounding may lift it above a delta that equals it
        return min(1.0, -math.expm1(math.fsum(count * math.log1p(-delta) for delta, count in stated)) * (1 + 2.0**-50))

    def _only_gaussian(self) -> float | None:
        """Return the noise multiplier of one Gaussian that equals the composition, if all events are Gaussian."""
        gaussian = self._gaussian()
        return _one_gaussian(gaussian) if len(gaussian) == len(self._counts) else None

    def _gaussian(self) -> list[tuple[float, int]]:
        """Return the noise multipliers of Gaussian events, and how often each is used."""
        return [(leaf.noise_multiplier, count) for leaf, count in self.events if isinstance(leaf, dp.GaussianDpEvent)]

    def _parts(self) -> list[tuple[Any, int]] | None:
        """Return the composition as loss distributions, or None where Gaussian noise is too little for any grid."""
        parts = self._other_parts()
        if gaussian := self._gaussian():
            noise = _one_gaussian(gaussian)
            if not noise > 1e-6:
                return None
            # Beside other losses, what noise beyond 1e100 costs is too small for a float.
            parts.append((losses.gaussian_losses(min(noise, 1e100)), 1))
        return parts

    def _other_parts(self) -> list[tuple[Any, int]]:
        """Return all events but the Gaussian ones as loss distributions."""
        parts: list[tuple[Any, int]] = []
        for leaf, count in self.events:
            epsilon = pure_epsilon(leaf)
            if isinstance(leaf, dp.GaussianDpEvent):
                continue
            if isinstance(leaf, ApproximateEvent):
                parts.append((losses.pure_losses(max(epsilon, 1e-12), leaf.delta), count))  # a grid needs a step
            elif epsilon > 0 and isinstance(leaf, dp.LaplaceDpEvent):
                parts.append((losses.laplace_losses(epsilon, count), count))
            elif epsilon > 0 and isinstance(leaf, TwoClassEvent):
                parts.extend(two_class_losses(epsilon, count))
            elif epsilon > 0 and isinstance(leaf, dp.RandomizedResponseDpEvent):
                parts.append((losses.response_losses(epsilon, leaf.num_buckets), count))
            elif epsilon > 0:
                parts.append((losses.pure_losses(epsilon), count))
        return parts


def _precision(noises: list[tuple[float, int]]) -> float:
    """Return the summed precision of Gaussian mechanisms: 1 / noise^2 for each use."""
    return math.fsum(count * (1 / noise) * (1 / noise) for noise, count in noises)


def _one_gaussian(noises: list[tuple[float, int]]) -> float:
    """Return the noise multiplier of the Gaussian mechanism that equals this composition: precisions add."""
    precision = _precision(noises)
    return 1 / math.sqrt(precision) if precision > 0 else math.inf


def _gaussian_log_delta(noise: float, epsilon: float) -> float:
    """Return ln(delta) of a Gaussian mechanism (Balle, Wang 2018, Theorem 8), rounded up."""
    if noise == math.inf:
        return -math.inf
    first = float(log_ndtr(0.5 / noise - epsilon * noise))
    second = epsilon + float(log_ndtr(-0.5 / noise - epsilon * noise))
    if first == -math.inf:
        return -math.inf
    # Both terms are rounded: lower their difference by that much, which raises delta.
    gap = min(second - first, 0.0) - 2.0**-50 * (1 + abs(first) + abs(epsilon))
    return min(0.0, first + math.log(-math.expm1(gap)))


def _gaussian_epsilon(noise: float, delta: float) -> float:
    if noise == math.inf or _gaussian_log_delta(noise, 0.0) <= math.log(delta):
        return 0.0
    if not noise > 1e-100:
        return math.inf
    with np.errstate(all="ignore"):  # log(0) on its way, far from the root
        epsilon = float(dp.get_epsilon_gaussian(noise, delta, tol=1e-14))
    step = 1e-13
    while _gaussian_log_delta(noise, epsilon) > math.log(delta):  # The solver may stop just below the root.
        epsilon, step = epsilon * (1 + step) + 1e-15, 4 * step
    return epsilon

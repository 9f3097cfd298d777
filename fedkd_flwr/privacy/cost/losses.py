"""Privacy loss distributions on grids: the numerical part of the accountant. Every result is an upper bound.

A pair of neighbours (P, Q) enters as the distribution of its privacy loss ``ln(P/Q)`` under P. Mass between two grid
points is split over them so that its P-mass and its Q-mass both stay ("connect the dots", Doroshenko et al. 2022,
Algorithm 1): the grid's pair dominates the true one. Grids fit the losses they hold (for randomised response and pure
statements the step *is* the loss), so that composing costs no rounding.

n-fold composition is one FFT of the distribution *tilted* by ``exp(t * loss)``, which puts the bulk where delta is read
off. Without the tilt the FFT's rounding error, 1e-16 for each composition, hides small deltas: dp-accounting 0.6, which
does not tilt, states an epsilon whose true delta is 12 times the asked 1e-13 (500,000 responses of 1e-5 each). What
the window cuts off and the FFT's error are bounded and added to delta.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import fft
from scipy.optimize import brentq

__all__ = ["LossGrid", "TiltedSum", "gaussian_losses", "laplace_losses", "pure_losses", "response_losses"]
__all__ += ["solve_epsilon", "split", "tilt_for_delta", "tilt_for_epsilon"]

Floats: TypeAlias = NDArray[np.float64]

_ROUNDING = float(np.finfo(np.float64).eps)
_CUT = 1e-22  # tilted mass outside the window, on each side
_UNDERFLOW = 1e-290  # more than all tilted masses and weights that a float cannot hold
WINDOW = 2**18  # grid points aimed at; four times as many are the limit
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(5)  # exact to the last bit on cells this small
_VARIANCE_EXCESS = 1e-8  # a grid may widen the loss's variance by this share
_LARGEST_EXPONENT = 500.0  # exp(709) is the largest that a float holds
LARGEST_LAPLACE = 40.0  # beyond it, a Laplace mechanism is taken for any pure mechanism of its epsilon


@dataclass(frozen=True, kw_only=True)
class LossGrid:
    """One mechanism's privacy loss on the grid ``step * (low + 0, 1, 2, ...)``."""

    step: float  # distance between two losses, > 0
    low: int  # the first loss, in steps
    mass: Floats  # probability of each loss under P
    infinite: float = 0.0  # of an outcome that Q excludes, under P: the delta of an (epsilon, delta) statement

    @property
    def losses(self) -> Floats:
        """The losses, ascending."""
        return _grid(self.step, self.low, len(self.mass))

    def moments(self) -> tuple[float, float]:
        """Return mean and standard deviation of the loss under P."""
        mean = float(self.mass @ self.losses)
        return mean, math.sqrt(max(0.0, float(self.mass @ (self.losses - mean) ** 2)))

    def cumulant(self, tilts: Floats) -> Floats:
        """Return ``ln E exp(t * loss)`` for each ``t`` of ``tilts``."""
        with np.errstate(divide="ignore"):
            exponents = tilts[:, None] * self.losses[None, :] + np.log(self.mass)[None, :]
        top = exponents.max(axis=1)
        result: Floats = top + np.log(np.exp(exponents - top[:, None]).sum(axis=1))
        return result

    def cumulant_bound(self, tilt: float) -> float:
        """Return an upper bound on ``ln E exp(tilt * loss)``, given that the loss is finite; ``tilt`` > 0.

        `cumulant` is off by about 1e-16, which is more than the cumulant of a tiny loss. Here the difference between
        the expectation and 1 is summed, and what rounding may have taken from it is added.
        """
        exponents = tilt * self.losses
        largest = float(np.abs(exponents).max())
        rounding = 8 * _ROUNDING * (1 + largest)
        if largest > _LARGEST_EXPONENT:
            return float(self.cumulant(np.array([tilt]))[0]) - math.log1p(-self.infinite) + rounding
        terms = self.mass * np.expm1(exponents)
        more = math.fsum(terms) + rounding * math.fsum(np.abs(terms))
        return math.log1p(max(more, 0.0) / (1 - self.infinite))


Parts: TypeAlias = Sequence[tuple[LossGrid, int]]
"""Mechanisms, and how often each is used."""


def _grid(step: float, low: int, size: int) -> Floats:
    return np.asarray(step * (low + np.arange(size)), dtype=np.float64)


def split(losses: Floats, mass: Floats, step: float, tilt: float = 0.0) -> tuple[int, Floats]:
    """Put masses at ``losses`` on the grid, keeping P-mass and Q-mass; masses are P's, tilted as `TiltedSum` does."""
    below = np.floor(losses / step)
    # both parts between 0 and step, whatever the division rounded
    up = np.clip(losses - below * step, 0.0, step)
    down = step - up
    # of P's mass at l, between g and g + h: expm1(g + h - l) / expm1(h) goes down, written so that it cannot overflow
    share = np.exp(-up) * np.expm1(-down) / np.expm1(-step)
    index = below.astype(np.int64)
    low = int(index.min())
    size = int(index.max()) - low + 2
    grid: Floats = np.zeros(size)
    grid += np.bincount(index - low, mass * share * np.exp(-tilt * up), minlength=size)
    grid += np.bincount(index - low + 1, mass * (1 - share) * np.exp(tilt * down), minlength=size)
    return low, grid


def pure_losses(epsilon: float, infinite: float = 0.0) -> LossGrid:
    """Return the loss that dominates every (epsilon, infinite)-DP mechanism (Kairouz, Oh, Viswanath 2015)."""
    likely = 1 / (1 + math.exp(-epsilon))
    unlikely = math.exp(-epsilon) * likely
    mass = (1 - infinite) * np.array([unlikely, 0.0, likely])
    return LossGrid(step=epsilon, low=-1, mass=mass, infinite=infinite)


def response_losses(epsilon: float, num_classes: int) -> LossGrid:
    """Return the loss of k-ary randomised response when the answer is replaced; ``epsilon`` per answer.

    The true class is reported with probability ``e^epsilon / (e^epsilon + C - 1)``, each other one with the C-th part.
    """
    other = math.exp(-epsilon) / (1 + (num_classes - 1) * math.exp(-epsilon))
    likely = 1 / (1 + (num_classes - 1) * math.exp(-epsilon))
    return LossGrid(step=epsilon, low=-1, mass=np.array([other, (num_classes - 2) * other, likely]))


def laplace_losses(epsilon: float, count: int) -> LossGrid:
    """Return the loss of a Laplace mechanism, ``epsilon`` = sensitivity / scale, on a grid fit for ``count`` of them.

    Half of P lies at ``epsilon``, ``e^-epsilon / 2`` at ``-epsilon``, the rest between with density
    ``e^((l - epsilon) / 2) / 4``.
    """
    if epsilon > LARGEST_LAPLACE:
        return pure_losses(epsilon)
    coarse = _laplace_grid(epsilon, 200)
    spread = coarse.moments()[1]
    inside = max(-math.expm1(-epsilon) / 2, _ROUNDING)
    # mass between grid points adds step^2 / 6 to the variance of each composition
    fine = max(
        math.sqrt(6 * _VARIANCE_EXCESS / inside) * spread, 24 * spread * math.sqrt(count) / WINDOW, epsilon / 20_000
    )
    # cells of 0.5 at most: there the five nodes are still exact
    return _laplace_grid(epsilon, math.ceil(max(2 * epsilon, epsilon / fine)))


def _laplace_grid(epsilon: float, cells: int) -> LossGrid:
    step = epsilon / cells
    edges = step * np.arange(-cells, cells)
    nodes = (edges[:, None] + step * (1 + _NODES) / 2).ravel()
    mass = np.tile(_WEIGHTS * step / 2, 2 * cells) * np.exp((nodes - epsilon) / 2) / 4
    low, grid = split(nodes, mass, step)
    whole = np.zeros(2 * cells + 1)
    whole[low + cells : low + cells + len(grid)] = grid[: 2 * cells + 1 - low - cells]
    whole[0] += math.exp(-epsilon) / 2
    whole[-1] += 0.5
    return LossGrid(step=step, low=-cells, mass=whole)


def gaussian_losses(noise_multiplier: float) -> LossGrid:
    """Return the loss of a Gaussian mechanism (sensitivity 1), cut at 37 standard deviations (1e-299)."""
    mean, spread = 0.5 / noise_multiplier / noise_multiplier, 1 / noise_multiplier
    cells = 2**15
    step = 74 * spread / cells
    edges = mean - 37 * spread + step * np.arange(cells)
    nodes = (edges[:, None] + step * (1 + _NODES) / 2).ravel()
    density = np.exp(-(((nodes - mean) / spread) ** 2) / 2) / (spread * math.sqrt(2 * math.pi))
    low, grid = split(nodes, np.tile(_WEIGHTS * step / 2, cells) * density, step)
    return LossGrid(step=step, low=low, mass=grid, infinite=1e-298)


def _cumulant(parts: Parts, tilts: Floats) -> Floats:
    return sum((count * part.cumulant(tilts) for part, count in parts), np.zeros_like(tilts))


def _infinite(parts: Parts) -> float:
    return -math.expm1(sum(count * math.log1p(-part.infinite) for part, count in parts))


def _tilts(parts: Parts) -> Floats:
    """Return candidate tilts around those that matter for this composition's spread, from which `_nearer` goes on."""
    spread = math.sqrt(sum(count * part.moments()[1] ** 2 for part, count in parts))
    largest = sum(count * float(np.abs(part.losses).max()) for part, count in parts)
    result: Floats = np.geomspace(1e-3, 100.0, 21) / max(spread, 1e-6 * largest)
    return result


def _nearer(tilts: Floats, best: int) -> Floats:
    """Return candidates between the neighbours of the best one: what they are judged by has one minimum."""
    return np.geomspace(tilts[max(best - 1, 0)], tilts[min(best + 1, len(tilts) - 1)], 9)


def _log_share(tilts: Floats) -> Floats:
    """Return the log of the largest ``exp(-t x) (1 - exp(-x))``, x >= 0: no more of the tilted mass counts for delta.

    With it a Chernoff bound is the conversion from Renyi divergence of Canonne, Kamath, Steinke 2020, Proposition 12.
    """
    with np.errstate(divide="ignore"):
        inverse = np.where(tilts > 0, 1 / tilts, 0.0)
    result: Floats = -(np.log1p(tilts) + tilts * np.log1p(inverse))
    return result


def tilt_for_delta(parts: Parts, delta: float) -> tuple[float, float]:
    """Return the tilt of the best Chernoff (Renyi) bound for ``delta`` > 0, and the epsilon this bound gives."""
    tilts = _tilts(parts)
    for _ in range(3):
        bounds = (_cumulant(parts, tilts) + _log_share(tilts) - math.log(delta)) / tilts
        best = int(bounds.argmin())
        tilt, epsilon = float(tilts[best]), float(bounds[best])
        tilts = _nearer(tilts, best)
    return tilt, epsilon


def tilt_for_epsilon(parts: Parts, epsilon: float) -> float:
    """Return the tilt of the best Chernoff (Renyi) bound on delta at ``epsilon``."""
    tilts = _tilts(parts)
    for _ in range(2):
        best = int((_cumulant(parts, tilts) + _log_share(tilts) - tilts * epsilon).argmin())
        tilt, tilts = float(tilts[best]), _nearer(tilts, best)
    return tilt


def _upper(part: LossGrid, count: int, scales: Floats, side: int) -> float:
    """Return a loss that the sum exceeds (side 1) or undercuts (side -1) with probability <= _CUT."""
    base = count * float(part.cumulant(np.zeros(1))[0])
    orders = side * scales
    bounds = (count * part.cumulant(orders) - base - math.log(_CUT)) / orders
    return float(bounds.min() if side > 0 else bounds.max())


class TiltedSum:
    """The summed loss of a composition, tilted: reads off ``delta(epsilon)``, most exactly near the tilt's epsilon.

    Any ``tilt`` >= 0 gives upper bounds; `tilt_for_delta` and `tilt_for_epsilon` give good ones. ``slack`` is what
    summing logarithms may have lost, relative to delta; `delta` is raised by it.
    """

    def __init__(self, parts: Parts, tilt: float) -> None:
        self._tilt = tilt
        self._log_scale = float(_cumulant(parts, np.array([tilt]))[0])
        self._infinite = _infinite(parts)
        grids = [_power(part, count, tilt) for part, count in parts]
        step, low, mass, error = grids[0] if len(grids) == 1 else _convolve(grids, tilt)
        self._error = error + _UNDERFLOW
        self._log_share = float(_log_share(np.array([tilt]))[0])
        self._losses = _grid(step, low, len(mass))
        self._mass = mass
        beyond = _grid(step, 0, len(mass))
        self._weights = np.exp(-tilt * beyond)
        self._shares = self._weights * -np.expm1(-beyond)
        turns = sum(count * (1 + tilt * float(np.abs(part.losses).max())) for part, count in parts)
        self.slack = 1e-9 + 8 * _ROUNDING * turns

    def delta(self, epsilon: float) -> float:
        """Return an upper bound on delta at ``epsilon`` >= 0."""
        start = int(np.searchsorted(self._losses, epsilon, side="right"))
        mass = self._mass[start:]
        first = float(self._losses[start]) - epsilon if len(mass) else 0.0
        # exp(tilt (epsilon - l)) (1 - exp(epsilon - l)) of each loss l above epsilon, all whole steps from the first
        share = -math.expm1(-first) * float(mass @ self._weights[: len(mass)])
        share += math.exp(-first) * float(mass @ self._shares[: len(mass)])
        share *= math.exp(-self._tilt * first)
        # In logarithms, because far below the tilt's epsilon the share underflows while its scale overflows.
        log_share = min(self._log_share, math.log(share + self._error))
        log_delta = log_share + self._log_scale - self._tilt * epsilon + self.slack
        return min(1.0, math.exp(min(log_delta, 0.0)) + self._infinite * (1 + 1e-9))


Grid: TypeAlias = tuple[float, int, Floats, float]  # step, first index, tilted masses, error


def _power(part: LossGrid, count: int, tilt: float) -> Grid:
    """Compose ``part`` with itself under the tilt."""
    with np.errstate(divide="ignore"):
        tilted = np.exp(np.log(part.mass) + tilt * part.losses - float(part.cumulant(np.array([tilt]))[0]))
    tilted /= tilted.sum()
    if count == 1:
        return part.step, part.low, tilted, 0.0
    one = LossGrid(step=part.step, low=part.low, mass=tilted)
    scales = np.geomspace(0.3, 30, 25) / max(math.sqrt(count) * one.moments()[1], part.step)
    low = max(count * part.low, math.floor(_upper(one, count, scales, -1) / part.step))
    high = min(count * (part.low + len(tilted) - 1), math.ceil(_upper(one, count, scales, 1) / part.step))
    return (part.step, *_circular([(part.low, tilted, count)], low, high, 2 * _CUT))


def _circular(pieces: Sequence[tuple[int, Floats, int]], low: int, high: int, cut: float) -> tuple[int, Floats, float]:
    """Convolve by FFT on a circle that holds the indices ``low`` to ``high``; return first index, masses and error."""
    needed = max(high - low + 1, max(len(mass) for _, mass, _ in pieces))
    if needed > 4 * WINDOW:
        # The grid is too wide to hold: give up its shape, so that only the Chernoff bound remains.
        return low, np.zeros(1), 1.0
    size = fft.next_fast_len(needed, real=True)
    product: NDArray[np.complex128] = np.ones(size // 2 + 1, dtype=np.complex128)
    centre, uses = 0, 0
    for first, mass, count in pieces:
        # A mean near index 0 keeps the phases small, and with them the rounding of the power.
        shift = round(float(mass @ np.arange(len(mass))))
        circle = np.zeros(size)
        circle[: len(mass)] = mass
        factor = fft.rfft(np.roll(circle, -shift))
        # Polar form: log(0) * count would be NaN.
        product *= np.abs(factor) ** count * np.exp(1j * count * np.angle(factor)) if count > 1 else factor
        centre += count * (first + shift)
        uses += count
    mass = np.roll(fft.irfft(product, size), (centre - low) % size)[: high - low + 1]
    # each factor is off by some roundings, n of them multiply; in the 1-norm at most by sqrt(size) of the 2-norm
    per_step = 4 * _ROUNDING * math.log2(size + 1)
    in_power = per_step * uses * math.sqrt(2 * float(np.sum(np.abs(product) ** 2)))
    in_inverse = per_step * math.sqrt(size) * math.sqrt(float(np.sum(mass**2)))
    return low, np.maximum(mass, 0.0), cut + in_power + in_inverse


def _convolve(grids: Sequence[Grid], tilt: float) -> Grid:
    """Bring composed grids to one step, fine beside the sum's spread unless they share one, and convolve them."""
    variance, width = 0.0, 0.0
    for own, _, mass, _ in grids:
        at = own * np.arange(len(mass))
        variance += float(mass @ (at - float(mass @ at) / mass.sum()) ** 2) if mass.any() else 0.0
        width += own * len(mass)
    steps = {own for own, _, _, _ in grids}
    step = steps.pop() if len(steps) == 1 else max(math.sqrt(variance) / 4000, width / (2 * WINDOW))
    pieces, error, inflation = [], 0.0, 1.0
    for own, low, mass, own_error in grids:
        error += own_error
        first, put = split(_grid(own, low, len(mass)), mass, step, tilt)
        pieces.append((first, put, 1))
        inflation *= max(1.0, float(put.sum()))
    low = sum(first for first, _, _ in pieces)
    high = low + sum(len(mass) - 1 for _, mass, _ in pieces)
    low, mass, own_error = _circular(pieces, low, high, 0.0)
    return step, low, mass, error * inflation + own_error * inflation


def solve_epsilon(parts: Parts, delta: float, largest: float) -> float:
    """Return the smallest epsilon this room can prove for ``delta`` > 0, at most ``largest``."""
    infinite = _infinite(parts) * (1 + 1e-9)
    if not infinite < delta:
        return largest
    tilt, chernoff = tilt_for_delta(parts, delta - infinite)
    total = TiltedSum(parts, tilt)
    high = min(largest, max(0.0, chernoff + 1.001 * total.slack / tilt))
    best = largest
    for _ in range(3):
        found = _solve(total, delta, high)
        if found > high and high < largest < math.inf:  # rounding took more than the margin on the guess
            found = _solve(total, delta, largest)
        best = min(best, found)
        if not found < 0.999 * high:
            break
        # The rounding error is smallest where the tilt fits the epsilon that was found.
        total, high = TiltedSum(parts, tilt_for_epsilon(parts, found)), found
    return best


def _solve(total: TiltedSum, delta: float, high: float) -> float:
    """Return the smallest epsilon within [0, high] at which ``total`` proves ``delta``; infinity if there is none."""

    def excess(epsilon: float) -> float:
        found = total.delta(epsilon)
        return (math.log(found) if found > 0 else -2000.0) - math.log(delta)

    if excess(0.0) <= 0:
        return 0.0
    if not excess(high) <= 0:
        return math.inf
    root = float(brentq(excess, 0.0, high, xtol=1e-14 * high, rtol=1e-13))
    while excess(root) > 0:  # The result must be a bound, so move up from the root until it is one.
        root = min(high, root * (1 + 1e-12) + 1e-13 * high)
        if root >= high:
            return high
    return root

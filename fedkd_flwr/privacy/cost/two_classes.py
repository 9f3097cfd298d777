"""What labels of two classes cost, voted with Laplace noise: the worst case over votes, as a loss distribution.

With two classes the noisy winner depends on ``v0 - v1 + L0 - L1`` alone. One neighbouring change moves the difference
of the votes by at most ``2 s``, so with x in units of the noise's scale, ``x = (v0 - v1) / scale``, it moves by at most
``shift = 2 s / scale``, and class 1 wins with probability ``G(x)`` on one side and ``G(x + shift)`` on the other, where
``G(u) = P(L1 - L0 > u) = (2 + u) e^-u / 4`` for u >= 0 and ``1 - G(-u)`` below. (A smaller move is a noisier copy of
these two, and exchanging the sides is exchanging the classes.) A label therefore is one of a family of pairs of coins.

Why the result is an upper bound:

1. *One label.* All pairs ``(G(x + shift), G(x))`` lie on one concave curve in the unit square: the ROC of "a number
   with the noise L0 - L1 is released". `_coins` draws a polygon around it: its corners are those of the ROC of the
   released number after its loss ``l(z) - l(z - shift)``, ``l(u) = ln(1 + |u|) - |u|``, was split over a grid, which
   raises the ROC.
2. *n labels, each chosen by somebody who saw all before it.* Let ``V_n(y)`` be the largest hockey-stick divergence, at
   ``y = e^epsilon``, that such a chooser reaches: ``V_0 = max(0, 1 - y)`` and
   ``V_(n+1)(y) = max over coins (p, q) of p V_n(y q / p) + (1 - p) V_n(y (1-q) / (1-p))``. If ``V_n`` is convex then so
   is the term after "max", jointly in p and q (the perspective of a convex function), and ``V_(n+1)`` in y. So the
   corners of a polygon around the curve are enough for the maximum, and straight lines between points of a grid of
   ``y`` lie on or above ``V_n``. All roundings are upwards but for those of floats, 1e-13 of the result.
3. *Blocks.* ``V_n`` is the privacy curve of n labels as one interactive mechanism, whatever else is asked in between.
   It is turned into a loss distribution, and such blocks compose with each other and with everything else as ordinary
   mechanisms do (Vadhan and Zhang, "Concurrent composition theorems for differential privacy", STOC 2023).

One label costs exactly what releasing ``v0 - v1 + L0 - L1`` would. Many labels cost less: a label is a coin, and no
pair of coins is the worst at every epsilon. For 81 labels of 0.08 each the released number would cost 1.51 at delta
1e-5, labels 1.378; the worst of all equal votes, a binomial law, is 1.369.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from fedkd_flwr.privacy.cost.losses import LARGEST_LAPLACE, WINDOW, Floats, LossGrid, pure_losses, split

__all__ = ["two_class_losses"]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(5)
_BLOCK = 64  # labels that are followed together; beyond it little is gained
_STEPS = 16  # grid points for each largest loss, and half the polygon's sides, at least
_POINTS = 512  # grid points for all labels of a short block
_FAR = 60.0  # scales beyond which noise (1e-25 of it) is taken for the most telling there is
_LEAST = 1e-295  # what a divergence is never said to be below: floats underflow


def two_class_losses(epsilon: float, count: int) -> list[tuple[LossGrid, int]]:
    """Return loss distributions, and how often each is used, that together dominate ``count`` labels of two classes.

    ``epsilon`` > 0 is that of one label at delta 0: twice the votes that move, divided by the noise's scale.
    """
    if epsilon > LARGEST_LAPLACE:
        return [(pure_losses(epsilon), count)]
    blocks = -(-count // max(1, int(_BLOCK / max(1.0, epsilon))))
    length, longer = divmod(count, blocks)
    grids = _blocks(epsilon, length)
    # one step for both, on which the sum of all blocks fits into the accountant's window
    step = 24 * grids[1].moments()[1] * math.sqrt(blocks) / WINDOW
    return [(_widened(grid, step), uses) for grid, uses in zip(grids, (blocks - longer, longer), strict=True) if uses]


def _widened(grid: LossGrid, step: float) -> LossGrid:
    """Put a grid on a step that is coarser than its own; leave it where it is not."""
    if step <= grid.step:
        return grid
    low, mass = split(grid.losses, grid.mass, step)
    return LossGrid(step=step, low=low, mass=mass, infinite=grid.infinite)


def _loss(z: Floats, shift: float) -> Floats:
    """Return the log of the noise's density at z over that at z - shift; falling from shift to -shift."""
    outside = shift - np.log1p(shift / (1 + np.maximum(np.maximum(-z, z - shift), 0.0)))
    inside = np.log1p(np.abs(z)) - np.log1p(np.abs(shift - z)) + shift - 2 * z
    return np.where(z < 0, outside, np.where(z > shift, -outside, inside))


def _number_losses(shift: float, cells: int) -> LossGrid:
    """Return the loss of releasing a number with the noise, on ``cells`` steps to ``shift``: the polygon's sides."""
    step = shift / cells
    cuts = np.arange(1 - cells, cells) * step
    # where the loss crosses a grid point, by halving: an interval of the integration must lie within one cell
    left, right = np.full(cuts.shape, -_FAR), np.full(cuts.shape, shift + _FAR)
    for _ in range(70):
        middle = (left + right) / 2
        above = _loss(middle, shift) > cuts
        left, right = np.where(above, middle, left), np.where(above, right, middle)
    tail = np.geomspace(1, 1 + _FAR, 200) - 1
    inside = np.linspace(0, shift, 20 + int(10 * shift))
    edges = np.unique(np.concatenate([-tail, inside, shift + tail, left]))
    width = np.diff(edges)[:, None]
    nodes = edges[:-1, None] + width * (1 + _NODES) / 2
    density = (1 + np.abs(nodes)) * np.exp(-np.abs(nodes)) / 4
    low, grid = split(_loss(nodes, shift).ravel(), (width / 2 * _WEIGHTS * density).ravel(), step)
    # beyond the integral: losses from that of -_FAR to shift, and from -shift to that of shift + _FAR, rounded up
    mass = np.zeros(cells - low + 1)
    mass[: len(grid)] = grid[: len(mass)]
    mass[-1] += (2 + _FAR) * math.exp(-_FAR) / 4
    mass[1] += (2 + _FAR + shift) * math.exp(-_FAR - shift) / 4
    return LossGrid(step=step, low=low, mass=mass)


def _coins(shift: float, cells: int) -> tuple[Floats, Floats]:
    """Return the probability under P, and the loss, of the two sides of each coin: two arrays (2, coins)."""
    number = _number_losses(shift, cells)
    p, q, more = (
        # summed from both ends: 1 - p would lose the digits of a small side
        np.array([np.cumsum(part[::-1])[-2::-1], np.cumsum(part)[:-1]])
        for part in (number.mass, number.mass * np.exp(-number.losses), number.mass * np.expm1(-number.losses))
    )
    # the difference q - p is exact where p and q are close, the ratio where they are not
    return p, np.where(np.abs(more) < p / 2, -np.log1p(np.maximum(more / p, -0.5)), np.log(p / q))


@lru_cache(maxsize=64)
def _blocks(epsilon: float, length: int) -> tuple[LossGrid, LossGrid]:
    """Return the losses of ``length`` labels and of one more."""
    per_label = max(_STEPS, _POINTS // (length + 1))
    step, half = epsilon / per_label, per_label * (length + 1)
    at = step * np.arange(-half, half + 1)
    taps = _taps(epsilon, step, per_label)
    below = -np.expm1(step * np.arange(-per_label - 1, 0))
    curve = np.maximum(_LEAST, -np.expm1(at))
    before = curve
    for _ in range(length + 1):
        before = curve
        # below the grid: the line to V(0) = 1; above it V can only be smaller
        padded = np.concatenate([curve[0] + (1 - curve[0]) * below, curve, np.full(per_label + 1, curve[-1])])
        windows = np.ascontiguousarray(np.lib.stride_tricks.sliding_window_view(padded, len(taps)))
        curve = np.maximum(curve, (windows @ taps).max(axis=1))
    return _distribution(before, step), _distribution(curve, step)


def _taps(epsilon: float, step: float, reach: int) -> Floats:
    """Return, for each coin, the weights of ``V_n`` from ``reach + 1`` grid points below y to above: (points, coin)."""
    sides, losses = _coins(epsilon, 2 * reach)
    taps = np.zeros((2 * reach + 3, sides.shape[1]))
    for p, loss in zip(sides, losses, strict=True):
        # y q / p lies between two grid points; weights in y, not in epsilon
        place = np.clip(-loss / step, -reach, reach)
        down = np.floor(place)
        up = np.expm1((place - down) * step) / np.expm1(step)
        index, coin = down.astype(np.int64) + reach + 1, np.arange(len(p))
        taps[index, coin] += p * (1 - up)
        taps[index + 1, coin] += p * up
    return taps


def _distribution(curve: Floats, step: float) -> LossGrid:
    """Return the loss distribution whose divergence at each grid point is the curve's, linear in y between them."""
    half = len(curve) // 2
    y = np.exp(step * np.arange(-half, half + 1))
    # Q's mass beyond each point is the slope to the right of it
    falls = (curve[:-1] - curve[1:]) / (y[:-1] * np.expm1(step))
    slopes = np.concatenate([[(1 - curve[0]) / y[0]], falls, [0.0]])
    slopes = np.maximum.accumulate(slopes[::-1])[::-1]  # rounding only, and upwards
    return LossGrid(step=step, low=-half, mass=y * (slopes[:-1] - slopes[1:]), infinite=float(curve[-1]))

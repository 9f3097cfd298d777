"""From 64-bit words to noise: whole numbers, so that what is drawn is what is claimed.

Every draw of the privacy room starts at `words`: the operating system's entropy, or a seeded generator in tests and
simulations. Nothing here adds noise to data; the mechanisms beside this file do.

Why not ``rng.laplace``: the floating-point numbers it can return are unevenly spaced, and ``count + noise`` shows in
its lowest bits what the count was (Mironov, "On significance of the least significant bits for differential privacy",
CCS 2012). Here the continuous noise is cut down to a grid of 2^-20 votes ("cell"), its cell's middle is added to the
whole-number count in 64-bit integers, and every count reaches the same points. Cutting down commutes with adding a
whole number, so the sum is a function of "count + continuous noise" and costs no more.

How exact that is:

- *Laplace*: a cell's number is geometric, and the digits of a geometric variable are independent: each is drawn from
  its own table of 64-bit thresholds. Tails are not cut off: an overflowing top digit draws again (the law has no
  memory). Rounding a threshold changes a probability by at most 2^-64, which is below 2^-48 of any digit's probability;
  the rate is lowered by 2^-42 a vote, more than all of it (a test adds it up), so the pure epsilon holds as drawn.
- *Two classes* (`LaplaceMax.winner_of_two`): the winner depends on v0 - v1 + K0 - K1, where K0 and K1 are the numbers
  drawn; equal noisy counts, and the rule for them, are a case of it. It is accounted as if K0 - K1 were the difference
  of two continuous Laplace noises, for which P(difference > u scales) = (2 + u) e^-u / 4. At a rate of rho a cell and
  r = e^-rho, P(K0 - K1 >= d cells) = r^d (a + b d) for d >= 0, a = (3 + r) / (4 (1 + r)), b = (1 - r) / (4 r). Let u(d)
  be the u of equal probability. Then d cells are worth at most rho d: with w(d) = rho (d + a/b) - 2, the derivative is
  u' = (rho - 1/(d + a/b)) (2 + u) / (1 + u) <= rho wherever u >= w, and w' = rho, so u >= w stays true from d = 1 on,
  where it is true; u(0) = -u(1), u(1) <= rho / 2 (a test computes both for all rates up to 1). Where thresholds change
  a draw's probability by at most a factor e^(+-E) for each time the table is crossed, u(d) moves by at most
  2 E (3.5 + u / 2): less than the lowered rate leaves, up to 600 scales. Beyond that lies a probability of 1e-257.
- *Gaussian*: rejection from the former, with the acceptance in float64. A draw is within about 2^-50 of the cut-down
  Gaussian in total variation (floats), plus 0.02 / (2^20 sigma)^2 (the density in the middle of a cell stands for the
  cell: 2^-46 at sigma = 1, 2^-26 at 0.001). The accountant does not add this.
- *Labels and bits*: a probability is a whole number of words out of 2^64, rounded towards more noise. No remainder.
- What is assumed: the words are uniform and independent. The time a draw takes depends on its noise; timing is outside
  every claim.
"""

from __future__ import annotations

import decimal
import math
import os
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.errors import ConfigError, explain

__all__ = ["UNITS_PER_VOTE", "WORDS", "Rng"]
__all__ += ["bernoulli", "flip_words", "gaussian_units", "laplace_units", "response_words", "subset", "words"]

Rng: TypeAlias = np.random.Generator | None
"""``None`` is the operating system's entropy; a seeded generator voids every claim."""

WORDS = 2**64
"""How many words there are: probabilities are whole numbers of them."""

CELLS_PER_VOTE = 2**20
UNITS_PER_VOTE = 2 * CELLS_PER_VOTE
"""Noise is counted in half cells: the middle of a cell is an odd number of them."""

_MAX_RATE = 2**10
_DIGIT_BITS = 10
_BLOCK = 2**18
# every operation names it: operators would use the thread's own context, of 28 digits
_EXACT = decimal.Context(prec=60, rounding=decimal.ROUND_HALF_EVEN)
_RATE_ALLOWANCE = _EXACT.power(Decimal(2), -42)
# lifts a 60-digit quotient above its true value before it is rounded up
_LIFT = _EXACT.add(Decimal(1), Decimal("1e-40"))


def words(count: int, rng: Rng) -> NDArray[np.uint64]:
    """Return ``count`` uniform 64-bit words: from the operating system, or from ``rng`` where one is given.

    Raises `ConfigError` if ``rng`` is neither None nor a generator.
    """
    if rng is None:
        return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)
    if not isinstance(rng, np.random.Generator):
        way_out = "Use np.random.default_rng(seed); None draws from the operating system."
        raise ConfigError(explain("rng", "be a numpy Generator or None", type(rng).__name__, way_out))
    return rng.integers(0, WORDS - 1, size=count, dtype=np.uint64, endpoint=True)


def bernoulli(threshold: int, shape: tuple[int, ...], rng: Rng) -> NDArray[np.bool_]:
    """Return independent bits, each true with probability ``threshold / 2^64`` (0 <= threshold < 2^64)."""
    limit = np.uint64(threshold)
    return _in_blocks(lambda count: words(count, rng) < limit, shape, np.bool_)


def laplace_units(gamma: float, shape: tuple[int, ...], rng: Rng) -> NDArray[np.int64]:
    """Return Laplace noise of rate ``gamma`` (scale 1/gamma votes), in units of 2^-21 votes.

    Above ``gamma`` = 2^10 the noise stays at a scale of 2^-10 votes: more than asked, too little to outvote anybody.
    """
    rate = _EXACT.subtract(min(Decimal(gamma), Decimal(_MAX_RATE)), _RATE_ALLOWANCE)
    tables = _digit_tables(_EXACT.divide(rate, Decimal(CELLS_PER_VOTE)))

    def draw(count: int) -> NDArray[np.int64]:
        return _signed(2 * _geometric(tables, count, rng) + 1, rng)

    return _in_blocks(draw, shape, np.int64)


def gaussian_units(sigma: float, shape: tuple[int, ...], rng: Rng) -> NDArray[np.int64]:
    """Return Gaussian noise of standard deviation ``sigma`` votes, in units of 2^-21 votes.

    By rejection from Laplace noise of the same scale, as Canonne, Kamath and Steinke ("The discrete Gaussian for
    differential privacy", NeurIPS 2020, Algorithm 3) do on the integers; about 1.3 proposals a draw.
    """
    cells = sigma * CELLS_PER_VOTE
    tables = _digit_tables(_EXACT.divide(Decimal(1), Decimal(cells)))

    def draw(count: int) -> NDArray[np.int64]:
        accepted = np.empty(count, dtype=np.int64)
        pending = np.arange(count)
        while pending.size:
            proposal = _geometric(tables, pending.size, rng)
            distance = (proposal + 0.5) / cells - 1.0
            keep = words(pending.size, rng) * 2.0**-64 < np.exp(-0.5 * distance * distance)
            accepted[pending[keep]] = proposal[keep]
            pending = pending[~keep]
        return _signed(2 * accepted + 1, rng)

    return _in_blocks(draw, shape, np.int64)


def response_words(epsilon: float, num_classes: int) -> tuple[int, int]:
    """Return (words that keep a label, words that give each class of the uniform draw) of randomised response.

    With C classes and m words a class, ``2^64 - C m`` words keep the label. An output is then at most
    ``1 + (2^64 - C m) / m`` times likelier under one label than under another, which is ``<= e^epsilon`` exactly if
    ``m >= 2^64 / (e^epsilon - 1 + C)``: m is that, rounded up. All 2^64 words are used: no remainder, no bias.

    >>> kept, each = response_words(1.0, 10)
    >>> kept + 10 * each == 2**64, round(kept / 2**64, 4)
    (True, 0.1466)
    """
    each = _words_at_least(_EXACT.add(_EXACT.exp(Decimal(epsilon)), Decimal(num_classes - 1)))
    return WORDS - num_classes * each, each


def flip_words(epsilon: float) -> int:
    """Return the words that flip a bit, so that two changed bits cost ``epsilon``.

    A flip probability p costs ln((1-p)/p) a bit, so ``p >= 1 / (e^(epsilon/2) + 1)``, rounded up.
    """
    exponent = _EXACT.divide(Decimal(epsilon), Decimal(2))
    return _words_at_least(_EXACT.add(_EXACT.exp(exponent), Decimal(1)))


def subset(num_rows: int, subset_rows: int, *, replacement: bool, rng: Rng) -> NDArray[np.int64]:
    """Return ``subset_rows`` row numbers below ``num_rows``, every choice equally likely, in ascending order."""
    if replacement:
        # words above the largest multiple of num_rows are drawn again: no row is favoured
        limit = np.uint64(WORDS - 1 - WORDS % num_rows)
        chosen = words(subset_rows, rng).copy()
        while (wrong := np.flatnonzero(chosen > limit)).size:
            chosen[wrong] = words(wrong.size, rng)
        return np.sort((chosen % np.uint64(num_rows)).astype(np.int64))
    keys = words(num_rows, rng)
    # equal keys would favour low rows; given that all differ, every order is equally likely
    while np.unique(keys).size < num_rows:
        keys = words(num_rows, rng)
    return np.sort(np.argsort(keys)[:subset_rows].astype(np.int64))


def _words_at_least(reciprocal: Decimal) -> int:
    """Return 2^64 / reciprocal, rounded up (and up once more if 60 digits cannot tell)."""
    quotient = _EXACT.multiply(_EXACT.divide(Decimal(WORDS), reciprocal), _LIFT)
    return int(quotient.to_integral_value(rounding=decimal.ROUND_CEILING))


def _in_blocks(
    draw: Callable[[int], NDArray[Any]], shape: tuple[int, ...], dtype: type[np.int64] | type[np.bool_]
) -> NDArray[Any]:
    """Fill an array block by block, so that the words behind it never need several times its memory."""
    out = np.empty(math.prod(shape), dtype=dtype)
    for start in range(0, out.size, _BLOCK):
        out[start : start + _BLOCK] = draw(min(_BLOCK, out.size - start))
    return out.reshape(shape)


def _signed(magnitude: NDArray[np.int64], rng: Rng) -> NDArray[np.int64]:
    coins = np.unpackbits(words(-(-magnitude.size // 64), rng).view(np.uint8))[: magnitude.size]
    return np.where(coins, magnitude, -magnitude)


@lru_cache(maxsize=32)
def _digit_tables(rate: Decimal) -> tuple[tuple[int, NDArray[np.uint64]], ...]:
    """Return (bits, thresholds) of each digit, lowest first, of the J with P(J >= j) = e^(-rate j).

    A digit is the number of thresholds that are <= its word. The top digit's table has one more: "overflow".
    """
    # the whole table spans 2 to 4 scales: no digit value is rare, so 64 bits are plenty for each
    total_bits = max(1, math.ceil(math.log2(2.0 / float(rate))))
    num_digits = -(-total_bits // _DIGIT_BITS)
    tables = []
    position = 0
    for digit in range(num_digits):
        bits = total_bits // num_digits + (digit < total_bits % num_digits)
        size = 2**bits
        ratio = _EXACT.exp(_EXACT.multiply(rate, Decimal(-(2**position))))
        powers = [Decimal(1)]
        for _ in range(size):
            powers.append(_EXACT.multiply(powers[-1], ratio))
        if digit == num_digits - 1:
            below = [_EXACT.subtract(Decimal(1), power) for power in powers[1:]]
        else:
            whole = _EXACT.subtract(Decimal(1), powers[size])
            below = [_EXACT.divide(_EXACT.subtract(Decimal(1), power), whole) for power in powers[1:size]]
        thresholds = np.array([int(_EXACT.multiply(part, Decimal(WORDS))) for part in below], dtype=np.uint64)
        thresholds.setflags(write=False)
        tables.append((bits, thresholds))
        position += bits
    return tuple(tables)


def _geometric(tables: tuple[tuple[int, NDArray[np.uint64]], ...], count: int, rng: Rng) -> NDArray[np.int64]:
    total = np.zeros(count, dtype=np.int64)
    position = 0
    for bits, thresholds in tables[:-1]:
        total += np.searchsorted(thresholds, words(count, rng), side="right") << position
        position += bits
    bits, thresholds = tables[-1]
    top = np.searchsorted(thresholds, words(count, rng), side="right")
    overflowing = np.flatnonzero(top == 2**bits)
    while overflowing.size:
        more = np.searchsorted(thresholds, words(overflowing.size, rng), side="right")
        top[overflowing] += more
        overflowing = overflowing[more == 2**bits]
    return total + (top << position)

"""Noise on labels, at the party that holds them: randomised response over classes, or over the bits of one-hot codes.

What all mechanisms have in common stands in `fedkd_flwr.privacy.noise`. Of both here:

| case | what holds |
|---|---|
| several labels of one party | compose: one use each |
| a row without a label | refused: an abstention would be visible |
| how many labels, and for which rows | not covered |
| a very large epsilon | 2^-64 is the least probability: `pure_epsilon` stays at about 44.4 (response), 88.7 (bits) |
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.checks import check_choice
from fedkd_flwr.errors import DataError, explain
from fedkd_flwr.labels.voting import Labels, check_labels
from fedkd_flwr.privacy import dp
from fedkd_flwr.privacy.noise import sampling
from fedkd_flwr.privacy.noise.checks import MOST_CLASSES, check_reports, set_number, set_whole
from fedkd_flwr.privacy.noise.none import NoNoise
from fedkd_flwr.privacy.noise.sampling import WORDS, Rng

__all__ = ["BitFlip", "LabelNoise", "RandomizedResponse", "kept_share", "label_mechanism"]


@dataclass(frozen=True, kw_only=True)
class _PerLabel:
    epsilon: float  # per label: within 1e-10..700
    num_classes: int  # C: within 2..32767

    def __post_init__(self) -> None:
        set_number(self, "epsilon", least=1e-10, most=700.0)
        set_whole(self, "num_classes", 2, MOST_CLASSES)

    def _checked(self, labels: NDArray[np.integer[Any]]) -> Labels:
        way_out = "Give every row one of the schema's classes: an abstention would be visible."
        return check_labels(labels, num_classes=self.num_classes, least=0, way_out=way_out)


@dataclass(frozen=True, kw_only=True)
class RandomizedResponse(_PerLabel):
    """Keep a label with probability beta, else draw a uniform class, which may be the same one.

    Kairouz, Bonawitz and Ramage, "Discrete distribution estimation under local privacy" (ICML 2016), k-RR;
    PrivateKT (Nature Communications 2023) writes it with beta = (e^eps - 1)/(e^eps - 1 + C).

    Formal guarantees
    -----------------
    Per label, for any change of it: (epsilon, 0)-DP. The probabilities are whole numbers of 64-bit words, rounded
    towards more noise: `pure_epsilon` is what the code does, at most ``epsilon``. Edge cases stand in the module.

    Examples
    --------
    >>> round(RandomizedResponse(epsilon=1.0, num_classes=10).keep, 4)
    0.1466
    >>> RandomizedResponse(epsilon=50.0, num_classes=3).privatize(np.array([0, 2, 1])).tolist()
    [0, 2, 1]
    """

    payload: ClassVar[str] = "labels"

    @property
    def words(self) -> str:
        """The mechanism and its parameters, for a claim."""
        what = f"randomised response over {self.num_classes} classes"
        return f"{what}, epsilon {self.epsilon:g} a label (kept as it was: {self.keep:.4g}, else drawn anew)"

    @cached_property
    def _words(self) -> tuple[int, int]:
        return sampling.response_words(self.epsilon, self.num_classes)

    @property
    def keep(self) -> float:
        """The probability beta with which a label is kept rather than drawn anew."""
        return self._words[0] / WORDS

    @property
    def variance(self) -> float:
        """What one report adds to the variance of the debiased count of a class that is not its own."""
        kept, each = self._words
        return each / WORDS * (1 - each / WORDS) / (kept / WORDS) ** 2

    @property
    def pure_epsilon(self) -> float:
        """Epsilon of one label at delta 0, of the probabilities used: at most ``epsilon``."""
        kept, each = self._words
        return math.log1p(kept / each)

    def privatize(self, labels: NDArray[np.integer[Any]], /, *, rng: Rng = None) -> Labels:
        """Return privatised labels: int16, of the same shape.

        ``labels`` are integers within 0..C-1 of any shape; no `ABSTAIN`. Without ``rng`` the operating system draws.
        Raises `DataError` if a label is missing, no integer, or out of range.
        """
        labels = self._checked(labels)
        kept, each = (np.uint64(count) for count in self._words)
        words = sampling.words(labels.size, rng).reshape(labels.shape)
        # The words from `kept` on are C blocks of `each` words, one block for each class.
        drawn = (np.maximum(words, kept) - kept) // each
        return np.where(words < kept, labels, drawn.astype(np.int16)).astype(np.int16)

    def debias(self, counts: NDArray[np.integer[Any]], num_reports: int) -> NDArray[np.float64]:
        """Estimate the true counts behind the counts of privatised labels, without bias: (rows, C) float64.

        That is ``(counts - num_reports * (1 - beta) / C) / beta``; it may be negative or above ``num_reports``.
        ``counts``, (rows, C) integers, say how many of the ``num_reports`` reports on a row named each class. Raises
        `DataError` for another shape, type or sum.
        """
        counts = check_reports("counts", counts, self.num_classes, num_reports)
        wrong = np.flatnonzero(counts.sum(axis=1) != num_reports)
        if wrong.size:
            rule, way_out = f"sum to {num_reports} on every row", "Count one label per report and row."
            raise DataError(explain("counts", rule, f"row {wrong[0]} does not", way_out))
        kept, each = self._words
        expected = np.float64(num_reports) * (each / WORDS)
        return np.divide(counts - expected, kept / WORDS, dtype=np.float64)

    def dp_event(self) -> dp.DpEvent:
        """Describe one label."""
        # Round the event to less noise than the code adds, so that the claim is never too small.
        return dp.RandomizedResponseDpEvent(_just_below(self.num_classes * self._words[1]), self.num_classes)


@dataclass(frozen=True, kw_only=True)
class BitFlip(_PerLabel):
    """The XOR mechanism on one-hot labels: each of the C bits is flipped independently with probability p.

    DP-FedCT (AAAI 2025), after Ji et al., "Differentially private binary- and matrix-valued data query: an XOR
    mechanism" (VLDB 2021), in its independent case; the exact condition is that of symmetric unary encoding (RAPPOR).

    Formal guarantees
    -----------------
    Per label, for any change of it (two bits of its one-hot code differ): (epsilon, 0)-DP. One use is two binary
    randomised responses. The probability is a whole number of 64-bit words, rounded towards more noise: `pure_epsilon`
    is what the code does, at most ``epsilon``. Edge cases stand in the module.

    Examples
    --------
    >>> round(BitFlip(epsilon=2.0, num_classes=10).flip_probability, 4)
    0.2689
    >>> BitFlip(epsilon=100.0, num_classes=3).privatize(np.array([0, 2])).tolist()
    [[1, 0, 0], [0, 0, 1]]
    """

    payload: ClassVar[str] = "bits"

    @property
    def words(self) -> str:
        """The mechanism and its parameters, for a claim."""
        return (
            f"bit flips (XOR) on one-hot labels of {self.num_classes} classes, epsilon {self.epsilon:g} a label "
            f"(flipped: {self.flip_probability:.8g})"
        )

    @cached_property
    def _flipped(self) -> int:
        return sampling.flip_words(self.epsilon)

    @property
    def flip_probability(self) -> float:
        """The probability p with which each bit is flipped: below 1/2."""
        return self._flipped / WORDS

    @property
    def _unflipped_more(self) -> float:
        return (WORDS - 2 * self._flipped) / WORDS

    @property
    def variance(self) -> float:
        """What one report adds to the variance of the debiased count of a class that is not its own."""
        p = self.flip_probability
        return p * (1 - p) / self._unflipped_more**2

    @property
    def pure_epsilon(self) -> float:
        """Epsilon of one label at delta 0, of the probability used: at most ``epsilon``."""
        return 2 * math.log1p((WORDS - 2 * self._flipped) / self._flipped)

    def privatize(self, labels: NDArray[np.integer[Any]], /, *, rng: Rng = None) -> NDArray[np.uint8]:
        """Return the flipped one-hot bits: (rows, C) uint8, 0 or 1; column c stands for class c.

        ``labels``, of shape (rows,), and ``rng`` as in `RandomizedResponse.privatize`, as are the errors.
        """
        labels = self._checked(labels)
        if labels.ndim != 1:
            raise DataError(explain("labels", "have shape (rows,)", f"shape {labels.shape}"))
        bits = sampling.bernoulli(self._flipped, (labels.size, self.num_classes), rng).view(np.uint8)
        bits[np.arange(labels.size), labels] ^= 1
        return bits

    def debias(self, bit_sums: NDArray[np.integer[Any]], num_reports: int) -> NDArray[np.float64]:
        """Estimate the true counts behind summed bits, without bias: (rows, C) float64.

        That is ``(bit_sums - num_reports * p) / (1 - 2 p)``; it may be negative or above ``num_reports``. ``bit_sums``
        is an integer array of shape (rows, C), the sums of the bits of ``num_reports`` reports on each row. Raises
        `DataError` for another shape or type, and for sums outside 0..num_reports.
        """
        bit_sums = check_reports("bit_sums", bit_sums, self.num_classes, num_reports)
        expected = np.float64(num_reports) * self.flip_probability
        return np.divide(bit_sums - expected, self._unflipped_more, dtype=np.float64)

    def dp_event(self) -> dp.DpEvent:
        """Describe one label: two binary randomised responses."""
        # Flipping with p is drawing a fair bit with 2p. The event is rounded to less noise than the code adds.
        return dp.SelfComposedDpEvent(dp.RandomizedResponseDpEvent(_just_below(2 * self._flipped), 2), 2)


LabelNoise: TypeAlias = RandomizedResponse | BitFlip | NoNoise
"""What is done to a label."""


def label_mechanism(name: str, *, epsilon: float, num_classes: int) -> RandomizedResponse | BitFlip:
    """Return the label mechanism of a name: auto, randomized-response or xor; raises `ConfigError` for another.

    "auto" is the one whose debiased counts vary less. With x = e^(epsilon/2) the variances are as (x^2 + C - 2) to
    x (x + 1)^2: the response wins iff C - 2 < x^3 + x^2 + x, always for C <= 5.

    >>> [type(label_mechanism("auto", epsilon=e, num_classes=10)).__name__ for e in (0.9, 0.92)]
    ['BitFlip', 'RandomizedResponse']
    """
    check_choice("mechanism", name, ("auto", "randomized-response", "xor"))
    response = RandomizedResponse(epsilon=epsilon, num_classes=num_classes)
    flips = BitFlip(epsilon=epsilon, num_classes=num_classes)
    if name == "auto":
        return response if response.variance < flips.variance else flips
    return response if name == "randomized-response" else flips


def kept_share(mechanism: LabelNoise) -> float | None:
    """Return the expected share of labels (of bits, for `BitFlip`) that leave as they were; None without noise.

    It needs no data, so it is public.

    >>> round(kept_share(RandomizedResponse(epsilon=1.0, num_classes=10)), 4)
    0.232
    """
    if isinstance(mechanism, NoNoise):
        return None
    if isinstance(mechanism, BitFlip):
        return 1 - mechanism.flip_probability
    return mechanism.keep + (1 - mechanism.keep) / mechanism.num_classes


def _just_below(noise_words: int) -> float:
    """Return ``noise_words / 2^64`` as a float that is not above it."""
    return math.nextafter(noise_words / WORDS, 0.0)

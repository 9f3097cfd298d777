"""Noise on votes, at the server or at a party: a noisy count for each class, then the class with the most.

Everything is said in whole votes: the noise, the threshold, and the ``votes`` that one neighbouring change moves.
Counts may arrive in parts of a vote: ``counts_per_vote`` says what one vote adds to a count (2 where votes are counted
in halves), and noisy counts come back in the same parts.

What holds of all three mechanisms, per row and for one neighbouring change:

| case | what holds |
|---|---|
| the votes move between more than two classes | covered: see each mechanism |
| votes appear or vanish (a party abstains) | covered: less than moving |
| noisy counts and argmax of the same draw | one use; two calls draw twice and are two uses |
| a row without votes | gets noise, and a class, like any other: that it had none stays hidden |
| two noisy counts are equal | the lowest class; the rule looks at noisy values only |
| which rows are released, and how many | not covered: choose them before looking at votes |
| noise as drawn | Laplace: covered; Gaussian: within 2^-46 / sigma^2 + 2^-50 of its law (total variation), which no
  epsilon includes (`fedkd_flwr.privacy.noise.sampling`) |
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.checks import check_choice
from fedkd_flwr.errors import ConfigError, DataError, explain
from fedkd_flwr.labels.voting import ABSTAIN, Labels
from fedkd_flwr.privacy import dp
from fedkd_flwr.privacy.cost.events import TwoClassEvent
from fedkd_flwr.privacy.noise import sampling
from fedkd_flwr.privacy.noise.checks import check_votes, set_number, set_whole
from fedkd_flwr.privacy.noise.sampling import UNITS_PER_VOTE, Rng

__all__ = ["ConfidentGaussianMax", "GaussianMax", "LaplaceMax"]

_SIGMA = {"least": 1e-3, "most": 1e9}


@dataclass(frozen=True, kw_only=True)
class _Votes:
    votes: int = 1  # that one neighbouring change can take from classes and give to others
    counts_per_vote: int = 1  # what one vote adds to a count

    def __post_init__(self) -> None:
        set_whole(self, "votes", 1)
        set_whole(self, "counts_per_vote", 1)

    @property
    def _moving(self) -> str:
        return f"{self.votes} vote{'s' * (self.votes > 1)} may move"


class _NoisyMax(_Votes, ABC):
    @abstractmethod
    def _noise(self, shape: tuple[int, ...], rng: Rng) -> NDArray[np.int64]:
        """Return noise in units of 2^-21 counts."""

    def _noisy_units(self, counts: NDArray[np.integer[Any]], rng: Rng) -> NDArray[np.int64]:
        units = check_votes(counts) * UNITS_PER_VOTE
        return units + self._noise(units.shape, rng)

    def noisy_counts(self, counts: NDArray[np.integer[Any]], *, rng: Rng = None) -> NDArray[np.float64]:
        """Return ``counts`` plus noise, on a grid of 2^-21: (rows, classes) float64, unbiased; they may be negative.

        ``counts``, (rows, classes) integers, are ``counts_per_vote`` for each vote; the result is in the same parts.
        Without ``rng`` the operating system draws. Raises `DataError` for another shape or type, fewer than two
        classes, and a count below 0 or above 2^40.
        """
        return self._noisy_units(counts, rng) / UNITS_PER_VOTE

    def privatize(self, counts: NDArray[np.integer[Any]], /, *, rng: Rng = None) -> Labels:
        """Return the class with the highest noisy count of each row: (rows,) int16. Input as in `noisy_counts`."""
        winners: Labels = self._noisy_units(counts, rng).argmax(axis=1).astype(np.int16)
        return winners


@dataclass(frozen=True, kw_only=True)
class LaplaceMax(_NoisyMax):
    r"""Noisy max with Laplace noise: Lap(1/gamma) on every count, then the class with the most (LNMax).

    Papernot et al., "Semi-supervised knowledge transfer for deep learning from private training data" (ICLR 2017),
    section 2.1; FedKT (IJCAI 2021), Theorems 1 and 9: ``votes`` is s at L1, 1 at L2 for a record, t at L2 for a party.

    Formal guarantees
    -----------------
    Per row, for one neighbouring change: counts lose at most ``votes`` votes in all and gain at most ``votes`` in all.
    Releasing the noisy counts is (2 gamma votes, 0)-DP, and so is their argmax, which is post-processing. One use is
    two Laplace mechanisms of sensitivity ``votes``: tighter to compose than the pure epsilon. With ``winner_of_two`` it
    is a coin whose odds depend on the difference of two counts; that of the votes changes by at most ``2 votes``. Edge
    cases stand in the module.

    Where the votes move between more than two classes, Lap(a) and Lap(b) together reveal no more than Lap(a+b): with
    w = a + b - eps, the hockey-stick divergence of Lap(a+b) is 1 - e^{-w/2} for abs(eps) <= a + b. That of the pair is
    1 - e^{-w/2} (1 + min(a, b)/2) for abs(eps) <= abs(a - b), and 1 - e^{-w/2} (1 + w/4) from there to a + b; negative
    eps by symmetry. Neither exceeds it at any eps.

    Examples
    --------
    >>> LaplaceMax(gamma=1e6).privatize(np.array([[1, 4, 0], [5, 0, 0]])).tolist()
    [1, 0]
    >>> LaplaceMax(gamma=0.04, votes=2).pure_epsilon
    0.16
    """

    gamma: float  # inverse scale per vote, >= 1e-9; above 2^10 the noise stays at a scale of 2^-10 votes
    winner_of_two: bool = False  # of two classes the winner alone is released: no `noisy_counts`, a `TwoClassEvent`

    def __post_init__(self) -> None:
        set_number(self, "gamma", least=1e-9)
        check_choice("winner_of_two", self.winner_of_two, (True, False))
        super().__post_init__()

    @property
    def words(self) -> str:
        """The mechanism and its parameters, for a claim."""
        of = " of two classes" if self.winner_of_two else ""
        return f"noisy max{of}, Laplace noise of scale {1 / self.gamma:g} votes (gamma {self.gamma:g}), {self._moving}"

    @property
    def pure_epsilon(self) -> float:
        """Epsilon of one row at delta 0: ``2 * gamma * votes``."""
        return 2 * self.gamma * self.votes

    def dp_event(self) -> dp.DpEvent:
        """Describe one row: two Laplace mechanisms of sensitivity ``votes``, or the winner of two classes."""
        multiplier = 1 / (self.gamma * self.votes)
        if self.winner_of_two:
            return TwoClassEvent(multiplier)
        return dp.SelfComposedDpEvent(dp.LaplaceDpEvent(multiplier), 2)

    def noisy_counts(self, counts: NDArray[np.integer[Any]], *, rng: Rng = None) -> NDArray[np.float64]:
        """As every noisy max; `ConfigError` with ``winner_of_two``, whose event does not cover counts."""
        if self.winner_of_two:
            way_out = "Make the mechanism without it: counts cost more than the winner."
            raise ConfigError(explain("winner_of_two", "be False where noisy counts are released", True, way_out))
        return super().noisy_counts(counts, rng=rng)

    def privatize(self, counts: NDArray[np.integer[Any]], /, *, rng: Rng = None) -> Labels:
        """As every noisy max; with ``winner_of_two`` of two columns, or `DataError`."""
        if self.winner_of_two and np.shape(counts)[1:] != (2,):
            raise DataError(explain("counts", "have shape (rows, 2)", f"shape {np.shape(counts)}"))
        return super().privatize(counts, rng=rng)

    def _noise(self, shape: tuple[int, ...], rng: Rng) -> NDArray[np.int64]:
        return sampling.laplace_units(self.gamma / self.counts_per_vote, shape, rng)


@dataclass(frozen=True, kw_only=True)
class GaussianMax(_NoisyMax):
    """Noisy max with Gaussian noise: N(0, sigma^2) on every count, then the class with the most (GNMax).

    Papernot et al., "Scalable private learning with PATE" (ICLR 2018), section 4.1 and Proposition 8.

    Formal guarantees
    -----------------
    Per row, for one neighbouring change: counts lose at most ``votes`` votes in all and gain at most ``votes`` in all,
    an L2 distance of at most ``votes * sqrt(2)``, also between more than two classes. Releasing the noisy counts is one
    Gaussian mechanism of noise multiplier ``sigma / (votes * sqrt 2)``; their argmax is post-processing. Edge cases
    stand in the module.

    >>> GaussianMax(sigma=0.001).privatize(np.array([[1, 4, 0], [5, 0, 0]])).tolist()
    [1, 0]
    """

    sigma: float  # standard deviation of the noise, in votes: within 1e-3..1e9

    def __post_init__(self) -> None:
        set_number(self, "sigma", **_SIGMA)
        super().__post_init__()

    @property
    def words(self) -> str:
        """The mechanism and its parameters, for a claim."""
        return f"noisy max, Gaussian noise of standard deviation {self.sigma:g} votes, {self._moving}"

    def dp_event(self) -> dp.DpEvent:
        """Describe one row: a Gaussian mechanism of L2 sensitivity ``votes * sqrt(2)``."""
        return dp.GaussianDpEvent(self.sigma / (self.votes * math.sqrt(2)))

    def _noise(self, shape: tuple[int, ...], rng: Rng) -> NDArray[np.int64]:
        return sampling.gaussian_units(self.sigma * self.counts_per_vote, shape, rng)


@dataclass(frozen=True, kw_only=True)
class ConfidentGaussianMax(_Votes):
    """Answer only where the teachers agree: noisy threshold on the highest count, then `GaussianMax` (Confident-GNMax).

    Papernot et al., "Scalable private learning with PATE" (ICLR 2018), Algorithm 1. Rows are answered where the highest
    count + N(0, sigma_threshold^2) is at least ``threshold``.

    Formal guarantees
    -----------------
    Per row, for one neighbouring change as in `GaussianMax`: the comparison is a Gaussian mechanism of sensitivity
    ``votes`` (the highest count changes by no more), the answer one of ``votes * sqrt(2)``. One use is both, also where
    a row is not answered: how many are answered depends on votes, and cannot lower a guarantee.

    >>> votes = np.array([[2, 9, 0], [4, 3, 4]])
    >>> ConfidentGaussianMax(threshold=6, sigma_threshold=0.01, sigma=0.01).privatize(votes).tolist()
    [1, -1]
    """

    threshold: float  # in votes, finite
    sigma_threshold: float  # standard deviation of the comparison's noise, in votes: within 1e-3..1e9
    sigma: float  # standard deviation of the answer's noise, likewise

    def __post_init__(self) -> None:
        set_number(self, "threshold", way_out="Use GaussianMax to answer every row.")
        set_number(self, "sigma_threshold", **_SIGMA)
        set_number(self, "sigma", **_SIGMA)
        super().__post_init__()

    @property
    def words(self) -> str:
        """The mechanism and its parameters, for a claim."""
        return (
            f"confident noisy max, threshold {self.threshold:g} votes, Gaussian noise of standard deviation "
            f"{self.sigma_threshold:g} (threshold) and {self.sigma:g} (answer) votes, {self._moving}"
        )

    def privatize(self, counts: NDArray[np.integer[Any]], /, *, rng: Rng = None) -> Labels:
        """Return (rows,) int16: the noisy winner, `ABSTAIN` where the noisy highest count is below the threshold."""
        units, vote = check_votes(counts) * UNITS_PER_VOTE, self.counts_per_vote
        highest = units.max(axis=1) + sampling.gaussian_units(self.sigma_threshold * vote, units.shape[:1], rng)
        winner = (units + sampling.gaussian_units(self.sigma * vote, units.shape, rng)).argmax(axis=1)
        return np.where(highest >= self.threshold * vote * UNITS_PER_VOTE, winner, ABSTAIN).astype(np.int16)

    def dp_event(self) -> dp.DpEvent:
        """Describe one row, answered or not: comparison and answer."""
        comparison = dp.GaussianDpEvent(self.sigma_threshold / self.votes)
        return dp.ComposedDpEvent([comparison, dp.GaussianDpEvent(self.sigma / (self.votes * math.sqrt(2)))])

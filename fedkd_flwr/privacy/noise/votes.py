"""The only code that adds noise: noisy votes, noisy labels, noisy choice of rows; each knows what one use of it is.

Describing (``dp_event()``, one query or one label) and measuring (`accounting`) are two files. Every guarantee below
is stated for *one neighbouring change*, a change of the input of one use; which change of whose data that is (one
record, one party) is the caller's to say, in a claim. Noise comes from the operating system's entropy; a seeded ``rng``
is for tests and simulations, and whoever passes one must not claim privacy. How exactly the noise follows its law
stands in `fedkd_flwr.privacy.noise.sampling`.

| mechanism | input | released | one neighbouring change |
|---|---|---|---|
| `LaplaceMax`, `GaussianMax` | vote counts of a row | class, or noisy counts | ``votes`` votes go to other classes |
| `ConfidentGaussianMax` | vote counts of a row | class, or `ABSTAIN` | ``votes`` votes go to other classes |
| `RandomizedResponse` | a label | a label | the label becomes any other |
| `BitFlip` | a label | C bits | the label becomes any other |
| `Subsampling` | a party's rows | what is computed from the drawn rows | a row is added or removed |
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.labels.voting import ABSTAIN, Labels
from fedkd_flwr.privacy.noise import sampling
from fedkd_flwr.privacy.noise.checks import check_int, check_votes, set_float
from fedkd_flwr.privacy.noise.labels import BitFlip, RandomizedResponse, kept_share, label_mechanism
from fedkd_flwr.privacy.noise.sampling import UNITS_PER_VOTE, Rng
from fedkd_flwr.privacy.noise.subset import Subsampling

if TYPE_CHECKING:
    from dp_accounting import dp_event as events

__all__ = [
    "BitFlip",
    "ConfidentGaussianMax",
    "GaussianMax",
    "LaplaceMax",
    "Mechanism",
    "NoPrivacy",
    "RandomizedResponse",
    "Subsampling",
    "kept_share",
    "label_mechanism",
]

_LEAST_GAMMA = 1e-9
_LEAST_SIGMA, _MOST_SIGMA = 1e-3, 1e9


@runtime_checkable
class Mechanism(Protocol):
    """What every mechanism offers; write your own against it.

    A mechanism's fields are public knowledge; what depends on private data arrives in ``privatize``.
    """

    @property
    def words(self) -> str:
        """The mechanism and its parameters, for a claim."""

    def privatize(self, x: NDArray[Any], /, *, rng: Rng = None) -> NDArray[Any]:
        """Return what may be released of ``x``; ``rng=None`` draws from the operating system."""

    def dp_event(self) -> events.DpEvent:
        """Describe one use (one row of votes, one label) to an accountant."""


@dataclass(frozen=True, kw_only=True)
class NoPrivacy:
    """Release the input as it is.

    Formal guarantees
    -----------------
    None: one use is a ``NonPrivateDpEvent``, epsilon is infinite.
    """

    @property
    def words(self) -> str:
        """The mechanism, for a claim."""
        return "no noise"

    @property
    def pure_epsilon(self) -> float:
        """Infinite."""
        return math.inf

    def privatize(self, x: NDArray[Any], /, *, rng: Rng = None) -> NDArray[Any]:
        """Return ``x`` itself."""
        return x

    def dp_event(self) -> events.DpEvent:
        """Describe one use: it is not private."""
        from dp_accounting import dp_event as events

        return events.NonPrivateDpEvent()


@dataclass(frozen=True, kw_only=True)
class LaplaceMax:
    r"""Noisy max with Laplace noise: Lap(1/gamma) on every count, then the class with the most (LNMax).

    Papernot et al., "Semi-supervised knowledge transfer for deep learning from private training data" (ICLR 2017),
    section 2.1; FedKT (IJCAI 2021), Theorems 1 and 9.

    Parameters
    ----------
    gamma : float
        Inverse scale of the noise, per vote: >= 1e-9, finite. Above 2^10 the noise stays at a scale of 2^-10 votes.
    votes : int
        Votes that one neighbouring change can take from classes and give to others (FedKT: s at L1, 1 at L2 for a
        record, t at L2 for a party).

    Formal guarantees
    -----------------
    Per row, for one neighbouring change: counts lose at most ``votes`` votes in all and gain at most ``votes`` in all.
    Releasing the noisy counts is (2 gamma votes, 0)-DP, and so is their argmax, which is post-processing. One use is
    two Laplace mechanisms of sensitivity ``votes``: tighter to compose than the pure epsilon.

    | case | what holds |
    |---|---|
    | the votes move between more than two classes | covered: Lap(a), Lap(b) together reveal no more than Lap(a+b) |
    | votes appear or vanish (a party abstains) | covered: one of the two Laplace mechanisms alone |
    | noisy counts and argmax of the same draw | one use; two calls draw twice and are two uses |
    | a row without votes | gets noise, and a class, like any other: that it had none stays hidden |
    | two noisy counts are equal | the lowest class; the rule looks at noisy values only |
    | which rows are released, and how many | not covered: choose them before looking at votes |

    Proof of the first case: with w = a + b - eps, the hockey-stick divergence of Lap(a+b) is 1 - e^{-w/2} for
    abs(eps) <= a + b. That of the pair is 1 - e^{-w/2} (1 + min(a, b)/2) for abs(eps) <= abs(a - b), and
    1 - e^{-w/2} (1 + w/4) from there to a + b; negative eps by symmetry. Neither exceeds it at any eps.

    Examples
    --------
    >>> LaplaceMax(gamma=1e6).privatize(np.array([[1, 4, 0], [5, 0, 0]])).tolist()
    [1, 0]
    >>> LaplaceMax(gamma=0.04, votes=2).pure_epsilon
    0.16
    """

    gamma: float
    votes: int = 1

    def __post_init__(self) -> None:
        set_float(self, "gamma", _LEAST_GAMMA, math.inf, "Use NoPrivacy for no noise.")
        check_int("votes", self.votes, 1)

    @property
    def words(self) -> str:
        """The mechanism and its parameters, for a claim."""
        return (
            f"noisy max, Laplace noise of scale {1 / self.gamma:g} votes (gamma {self.gamma:g}), {_moving(self.votes)}"
        )

    @property
    def pure_epsilon(self) -> float:
        """Epsilon of one row at delta 0: ``2 * gamma * votes``."""
        return 2 * self.gamma * self.votes

    def noisy_counts(self, counts: NDArray[np.integer[Any]], *, rng: Rng = None) -> NDArray[np.float64]:
        """Return ``counts`` plus noise, on a grid of 2^-21 votes.

        Parameters
        ----------
        counts : ndarray of shape (rows, classes), integers
            Votes per row and class, at least two classes.
        rng : Generator or None
            None draws from the operating system.

        Returns
        -------
        ndarray of shape (rows, classes), float64
            Unbiased noisy counts, in votes; they may be negative.

        Raises
        ------
        DataError
            If ``counts`` has another shape or type, or a count is negative or above 2^40.
        """
        return self._noisy_units(counts, rng) / UNITS_PER_VOTE

    def privatize(self, counts: NDArray[np.integer[Any]], /, *, rng: Rng = None) -> Labels:
        """Return the class with the highest noisy count of each row: (rows,) int16. Input as in `noisy_counts`."""
        winners: Labels = self._noisy_units(counts, rng).argmax(axis=1).astype(np.int16)
        return winners

    def dp_event(self) -> events.DpEvent:
        """Describe one row: two Laplace mechanisms of sensitivity ``votes``."""
        from dp_accounting import dp_event as events

        return events.SelfComposedDpEvent(events.LaplaceDpEvent(1 / (self.gamma * self.votes)), 2)

    def _noisy_units(self, counts: NDArray[np.integer[Any]], rng: Rng) -> NDArray[np.int64]:
        units = check_votes(counts) * UNITS_PER_VOTE
        return units + sampling.laplace_units(self.gamma, units.shape, rng)


@dataclass(frozen=True, kw_only=True)
class GaussianMax:
    """Noisy max with Gaussian noise: N(0, sigma^2) on every count, then the class with the most (GNMax).

    Papernot et al., "Scalable private learning with PATE" (ICLR 2018), section 4.1 and Proposition 8.

    Parameters
    ----------
    sigma : float
        Standard deviation of the noise, in votes: within 1e-3..1e9.
    votes : int
        Votes that one neighbouring change can take from classes and give to others.

    Formal guarantees
    -----------------
    Per row, for one neighbouring change: counts lose at most ``votes`` votes in all and gain at most ``votes`` in all,
    an L2 distance of at most ``votes * sqrt(2)``. Releasing the noisy counts is one Gaussian mechanism of noise
    multiplier ``sigma / (votes * sqrt 2)``; their argmax is post-processing.

    | case | what holds |
    |---|---|
    | the votes move between more than two classes, or vanish | covered: the distance is smaller |
    | noisy counts and argmax of the same draw | one use; two calls draw twice and are two uses |
    | a row without votes | gets noise, and a class, like any other |
    | two noisy counts are equal | the lowest class; the rule looks at noisy values only |
    | which rows are released, and how many | not covered: choose them before looking at votes |
    | small sigma | the draw is within 2^-46 / sigma^2 + 2^-50 of its law (total variation), which no epsilon includes |

    Examples
    --------
    >>> GaussianMax(sigma=0.001).privatize(np.array([[1, 4, 0], [5, 0, 0]])).tolist()
    [1, 0]
    """

    sigma: float
    votes: int = 1

    def __post_init__(self) -> None:
        set_float(self, "sigma", _LEAST_SIGMA, _MOST_SIGMA, "Use NoPrivacy for no noise.")
        check_int("votes", self.votes, 1)

    @property
    def words(self) -> str:
        """The mechanism and its parameters, for a claim."""
        return f"noisy max, Gaussian noise of standard deviation {self.sigma:g} votes, {_moving(self.votes)}"

    @property
    def pure_epsilon(self) -> float:
        """Infinite: Gaussian noise has no epsilon at delta 0."""
        return math.inf

    def noisy_counts(self, counts: NDArray[np.integer[Any]], *, rng: Rng = None) -> NDArray[np.float64]:
        """Return ``counts`` plus noise, on a grid of 2^-21 votes; see `LaplaceMax.noisy_counts`."""
        return self._noisy_units(counts, rng) / UNITS_PER_VOTE

    def privatize(self, counts: NDArray[np.integer[Any]], /, *, rng: Rng = None) -> Labels:
        """Return the class with the highest noisy count of each row: (rows,) int16. Input as in `noisy_counts`."""
        winners: Labels = self._noisy_units(counts, rng).argmax(axis=1).astype(np.int16)
        return winners

    def dp_event(self) -> events.DpEvent:
        """Describe one row: a Gaussian mechanism of L2 sensitivity ``votes * sqrt(2)``."""
        from dp_accounting import dp_event as events

        return events.GaussianDpEvent(self.sigma / (self.votes * math.sqrt(2)))

    def _noisy_units(self, counts: NDArray[np.integer[Any]], rng: Rng) -> NDArray[np.int64]:
        units = check_votes(counts) * UNITS_PER_VOTE
        return units + sampling.gaussian_units(self.sigma, units.shape, rng)


@dataclass(frozen=True, kw_only=True)
class ConfidentGaussianMax:
    """Answer only where the teachers agree: noisy threshold on the highest count, then `GaussianMax` (Confident-GNMax).

    Papernot et al., "Scalable private learning with PATE" (ICLR 2018), Algorithm 1.

    Parameters
    ----------
    threshold : float
        Rows are answered where the highest count + N(0, sigma_threshold^2) is at least this, in votes: finite.
    sigma_threshold : float
        Standard deviation of the noise of the comparison, in votes: within 1e-3..1e9.
    sigma : float
        Standard deviation of the noise of the answer, in votes: within 1e-3..1e9.
    votes : int
        Votes that one neighbouring change can take from classes and give to others.

    Formal guarantees
    -----------------
    Per row, for one neighbouring change as in `GaussianMax`: the comparison is a Gaussian mechanism of sensitivity
    ``votes`` (the highest count changes by no more), the answer one of ``votes * sqrt(2)``. One use is both.

    | case | what holds |
    |---|---|
    | a row is not answered | still both: how many are answered depends on votes, and cannot lower a guarantee |
    | at most m answers are released, m fixed in advance | `threshold_event` for each row, `answer_event` m times |
    | everything else | as `GaussianMax` |

    Examples
    --------
    >>> votes = np.array([[2, 9, 0], [4, 3, 4]])
    >>> ConfidentGaussianMax(threshold=6, sigma_threshold=0.01, sigma=0.01).privatize(votes).tolist()
    [1, -1]
    """

    threshold: float
    sigma_threshold: float
    sigma: float
    votes: int = 1

    def __post_init__(self) -> None:
        set_float(self, "threshold", -math.inf, math.inf, "Use GaussianMax to answer every row.")
        set_float(self, "sigma_threshold", _LEAST_SIGMA, _MOST_SIGMA)
        set_float(self, "sigma", _LEAST_SIGMA, _MOST_SIGMA)
        check_int("votes", self.votes, 1)

    @property
    def words(self) -> str:
        """The mechanism and its parameters, for a claim."""
        return (
            f"confident noisy max, threshold {self.threshold:g} votes, Gaussian noise of standard deviation "
            f"{self.sigma_threshold:g} (threshold) and {self.sigma:g} (answer) votes, {_moving(self.votes)}"
        )

    @property
    def pure_epsilon(self) -> float:
        """Infinite: Gaussian noise has no epsilon at delta 0."""
        return math.inf

    def privatize(self, counts: NDArray[np.integer[Any]], /, *, rng: Rng = None) -> Labels:
        """Return (rows,) int16: the noisy winner, `ABSTAIN` where the noisy highest count is below the threshold."""
        units = check_votes(counts) * UNITS_PER_VOTE
        highest = units.max(axis=1) + sampling.gaussian_units(self.sigma_threshold, units.shape[:1], rng)
        winner = (units + sampling.gaussian_units(self.sigma, units.shape, rng)).argmax(axis=1)
        return np.where(highest >= self.threshold * UNITS_PER_VOTE, winner, ABSTAIN).astype(np.int16)

    def threshold_event(self) -> events.DpEvent:
        """Describe the comparison of one row."""
        from dp_accounting import dp_event as events

        return events.GaussianDpEvent(self.sigma_threshold / self.votes)

    def answer_event(self) -> events.DpEvent:
        """Describe the answer to one row."""
        from dp_accounting import dp_event as events

        return events.GaussianDpEvent(self.sigma / (self.votes * math.sqrt(2)))

    def dp_event(self) -> events.DpEvent:
        """Describe one row, answered or not: comparison and answer."""
        from dp_accounting import dp_event as events

        return events.ComposedDpEvent([self.threshold_event(), self.answer_event()])


def _moving(votes: int) -> str:
    return f"{votes} vote{'s' * (votes > 1)} may move"

"""Gaussian noise on sums that are released themselves: counts, products of vectors, and clipped updates (DP-FedAvg).

The noise is whole numbers on a grid finer than what is added (`fedkd_flwr.privacy.noise.sampling`). A draw is within
2^-46 / sigma^2 + 2^-50 of its law (total variation, sigma in votes of that module), which no epsilon includes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.errors import DataError, explain
from fedkd_flwr.privacy import dp
from fedkd_flwr.privacy.noise import sampling
from fedkd_flwr.privacy.noise.checks import check_votes, set_number, set_whole
from fedkd_flwr.privacy.noise.sampling import CELLS_PER_VOTE, UNITS_PER_VOTE, Rng

__all__ = ["LENGTH", "ClippedSum", "NoisyCounts", "NoisyProducts"]

LENGTH = 2**10
"""The most length of a record's vectors together, in whole steps: a squared length is as fine as the noise's grid."""


_VOTES = 2**10  # of `sampling`, in one clipping norm: a finer grid than that of votes, because updates are many numbers
_CELLS = _VOTES * CELLS_PER_VOTE  # grid cells in one clipping norm, 2^30


def _event(noise: float, distance: float) -> dp.DpEvent:
    """Describe a sum that one change moves so far: root and quotient may round up, the event must not."""
    return dp.GaussianDpEvent(noise / distance * (1 - 2.0**-51))


@dataclass(frozen=True, kw_only=True)
class _RecordSum:
    sigma: float  # standard deviation of the noise on a number, in records: within 1e-3..1e9

    def __post_init__(self) -> None:
        set_number(self, "sigma", least=1e-3, most=1e9)


@dataclass(frozen=True, kw_only=True)
class NoisyCounts(_RecordSum):
    """Whole-number Gaussian noise on each cell of several tables, in each of which a record has one cell.

    Formal guarantees
    -----------------
    For one record replaced by any other, which may have another class too: in each table at most one cell loses 1 and
    at most one other gains 1, so the squared distance is at most 2 a table and ``2 tables`` together. The L2
    sensitivity is therefore ``sqrt(2 tables)``; a record with another class moves the tables by just that.

    | case | what holds |
    |---|---|
    | one record is added or removed | covered: each table changes by 1 in one cell, a distance of ``sqrt(tables)`` |
    | how many records there are | covered by that, where it decides nothing else (which rows are kept for tests) |
    | sums, shares, rows and models made of the release | post-processing: nothing more is spent |
    | one person has k records | only as k records: they move the cells up to k times as far, as with ``sigma / k`` |
    | which cells there are | not covered: schema and bins are fixed before a record is looked at |

    The noisy sum is rounded to a whole number of records: rounding sees the noisy sum alone.

    Examples
    --------
    >>> counts = np.array([[3, 0], [1, 2]])
    >>> NoisyCounts(sigma=0.001, tables=1).privatize(counts).tolist()
    [[3, 0], [1, 2]]
    >>> round(NoisyCounts(sigma=10.0, tables=2).dp_event().noise_multiplier, 6)
    5.0
    """

    tables: int  # how many are released together: one for each column

    def __post_init__(self) -> None:
        super().__post_init__()
        set_whole(self, "tables", 1, 10**6)

    def dp_event(self) -> dp.DpEvent:
        """Describe the release of all tables: a replaced record changes two cells of each by one."""
        return _event(self.sigma, math.sqrt(2 * self.tables))

    @property
    def words(self) -> str:
        """The mechanism and its parameters, for a claim."""
        return (
            f"Gaussian noise of standard deviation {self.sigma:g} records, in whole numbers, on each count of a "
            f"column's value and a class; {self.tables} columns"
        )

    def privatize(self, counts: NDArray[np.integer[Any]], /, *, rng: Rng = None) -> NDArray[np.int64]:
        """Return ``counts`` plus noise as whole numbers, int64 of the same shape; they may be negative.

        ``counts``, (cells, classes) integers, are records of each cell, within 0..2^40; at least two classes. Raises
        `DataError` for anything else. Without ``rng`` the operating system draws.
        """
        units = check_votes(counts) * UNITS_PER_VOTE
        units += sampling.gaussian_units(self.sigma, units.shape, rng)  # odd: never half-way between two records
        noisy: NDArray[np.int64] = (units + UNITS_PER_VOTE // 2) // UNITS_PER_VOTE
        return noisy


@dataclass(frozen=True, kw_only=True)
class NoisyProducts(_RecordSum):
    """Whole-number Gaussian noise on the sum over records of the products of each two of a record's vectors.

    Formal guarantees
    -----------------
    A record's vectors v_1 .. v_m have whole numbers, and squared lengths that add up to `LENGTH` squared, L, at most:
    the party sees to it. Their products are a matrix P, with P_ij = <v_i, v_j>: positive semidefinite, of trace L at
    most, hence of Frobenius norm L at most. For one record replaced by any other the sum moves by P - Q, and
    ``|P - Q|^2 = |P|^2 + |Q|^2 - 2 <P, Q> <= 2 L^2``, since the inner product of two such matrices is not negative. The
    L2 sensitivity of the whole matrix is ``sqrt(2) L``. Released is one of its symmetric halves: a product of two
    vectors stands twice in the matrix, so it gets noise of ``sigma / sqrt(2)`` where a square gets ``sigma``.

    | case | what holds |
    |---|---|
    | one record is added or removed | covered: a distance of L |
    | which vectors records have | chosen by the server, adaptively: any choice is covered |

    ``sigma`` is that of a square, in squared `LENGTH`.

    Examples
    --------
    >>> mechanism = NoisyProducts(sigma=0.001, vectors=2)
    >>> (mechanism.privatize(np.array([3 * LENGTH**2, 0, LENGTH**2])) / (2 * LENGTH**2)).round().astype(int).tolist()
    [3, 0, 1]
    """

    vectors: int  # how many a record has

    def __post_init__(self) -> None:
        super().__post_init__()
        set_whole(self, "vectors", 2, 10**6)

    def dp_event(self) -> dp.DpEvent:
        """Describe the release of the whole matrix: two positive ones of norm 1 at most are so far apart."""
        return _event(self.sigma, math.sqrt(2))

    @property
    def words(self) -> str:
        """The mechanism and its parameters, for a claim."""
        return (
            f"Gaussian noise of standard deviation {self.sigma:g} longest records, in whole numbers, on the sums of "
            f"products of a record's vectors; {self.vectors} vectors"
        )

    def privatize(self, products: NDArray[np.integer[Any]], /, *, rng: Rng = None) -> NDArray[np.int64]:
        """Return the half matrix ``products``, row by row, plus noise, int64: in halves of a whole step's square.

        Raises `DataError` for another length, or numbers beyond 2^60. Without ``rng`` the operating system draws.
        """
        first, second = np.triu_indices(self.vectors)
        if products.shape != first.shape or products.dtype.kind not in "iu":
            seen = f"{products.dtype} of shape {products.shape}"
            raise DataError(explain("products", f"be whole numbers of shape {first.shape}", seen))
        if not -(2**60) <= products.min() <= products.max() <= 2**60:
            raise DataError(explain("products", "be within 2^60", f"{products.min()} to {products.max()}"))
        of_squares = sampling.gaussian_units(self.sigma, (self.vectors,), rng)
        # the factor rounds up
        of_others = sampling.gaussian_units(self.sigma * math.sqrt(0.5) * (1 + 2.0**-50), first.shape, rng)
        noise = np.where(first == second, of_squares[first], of_others)
        return np.asarray(2 * products.astype(np.int64) + noise)


@dataclass(frozen=True, kw_only=True)
class ClippedSum:
    r"""Scale each update down to an L2 norm of at most ``clip``, add them, and add Gaussian noise to each number.

    McMahan, Ramage, Talwar, Zhang, "Learning Differentially Private Recurrent Language Models", ICLR 2018, section 2.2
    (flat clipping, equal weights, a fixed denominator).

    Formal guarantees
    -----------------
    Per sum, for any change of one update: it replaces a vector of norm <= ``clip`` by another, which moves the sum by
    at most 2 ``clip``. An update that is there or not moves it by half of that, which is covered.

    | case | what holds |
    |---|---|
    | the sum is divided by a number of updates | post-processing if the number is public: that of parties asked, not
      of those that answered |
    | several sums (rounds) | compose: one use each for a party in it |
    | floats | an update's numbers are cut down towards zero to a grid of 2^-30 ``clip``, and its norm is compared in
      whole numbers; noise is added to whole numbers |

    Examples
    --------
    An update of norm 5 is scaled to norm 1, one of norm 0.5 is left as it is:

    >>> tiny = ClippedSum(clip=1.0, noise_multiplier=0.001)
    >>> updates = [np.array([3.0, 4.0]), np.array([0.0, 0.5])]
    >>> tiny.privatize(updates, rng=np.random.default_rng(1)).round(1).tolist()
    [0.6, 1.3]
    >>> round(ClippedSum(clip=1.0, noise_multiplier=3.0).dp_event().noise_multiplier, 6)
    1.5
    """

    clip: float  # the largest norm of one update over all of its numbers: within 1e-6..1e6
    noise_multiplier: float  # standard deviation of the noise on each number, in units of ``clip``: within 1e-3..1e6

    def __post_init__(self) -> None:
        set_number(self, "clip", least=1e-6, most=1e6)
        set_number(self, "noise_multiplier", least=1e-3, most=1e6)

    @property
    def words(self) -> str:
        """The mechanism and its parameters, for a claim."""
        return (
            f"Gaussian noise of standard deviation {self.noise_multiplier * self.clip:g} on each number of the sum of "
            f"the parties' updates, each clipped to an L2 norm of {self.clip:g}"
        )

    def privatize(self, updates: Iterable[NDArray[Any]], /, *, rng: Rng = None) -> NDArray[np.float64]:
        """Return the noisy sum of one or more finite vectors of equal length, as float64.

        Raises `DataError` for anything else; without ``rng`` the operating system draws.
        """
        total: NDArray[np.int64] | None = None
        for update in updates:
            cells = self._cells(update)
            if total is not None and len(cells) != len(total):
                raise DataError(explain("updates", f"have {len(total)} numbers each", len(cells)))
            total = cells if total is None else total + cells
        if total is None:
            raise DataError(explain("updates", "be one or more", 0))
        noise = sampling.gaussian_units(self.noise_multiplier * _VOTES, total.shape, rng)
        noisy: NDArray[np.float64] = np.multiply(2 * total + noise, self.clip / (2 * _CELLS), dtype=np.float64)
        return noisy

    def _cells(self, update: NDArray[Any]) -> NDArray[np.int64]:
        """Return an update as whole numbers of grid cells, of a norm of at most 2^30 of them."""
        values = np.asarray(update, dtype=np.float64)
        if values.ndim != 1 or not np.isfinite(values).all():
            raise DataError(explain("updates", "be flat arrays of finite numbers", f"shape {values.shape}"))
        largest = float(np.abs(values).max(initial=0.0))
        norm = largest * float(np.linalg.norm(values / largest)) if largest else 0.0
        scale = _CELLS / max(norm, self.clip)
        while True:
            cells = np.trunc(values * scale).astype(np.int64)  # towards zero: no norm grows
            if int(cells @ cells) <= _CELLS**2:  # exact: squares of such a norm fit 64 bits
                return cells
            scale *= 1 - 2.0**-40  # floats had rounded the norm down

    def dp_event(self) -> dp.DpEvent:
        """Describe one sum: an update moves it by at most twice the norm."""
        return _event(self.noise_multiplier, 2)

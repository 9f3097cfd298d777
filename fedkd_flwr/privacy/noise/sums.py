"""Noise on sums over records that are released themselves: counts of values, and products of vectors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.errors import DataError, explain
from fedkd_flwr.privacy import dp
from fedkd_flwr.privacy.noise import sampling
from fedkd_flwr.privacy.noise.checks import check_votes, set_number, set_whole
from fedkd_flwr.privacy.noise.sampling import UNITS_PER_VOTE, Rng

__all__ = ["LENGTH", "NoisyCounts", "NoisyProducts"]

LENGTH = 2**10
"""The most length of a record's vectors together, in whole steps: a squared length is as fine as the noise's grid."""


@dataclass(frozen=True, kw_only=True)
class NoisyCounts:
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
    | small sigma | a draw is within 2^-46 / sigma^2 + 2^-50 of its law (total variation), which no epsilon includes |

    The noise is cut to a grid finer than a record (`fedkd_flwr.privacy.noise.sampling`), added to the count in whole
    numbers, and the sum is rounded to a whole number of records: rounding sees the noisy sum alone.

    Examples
    --------
    >>> counts = np.array([[3, 0], [1, 2]])
    >>> NoisyCounts(sigma=0.001, tables=1).privatize(counts).tolist()
    [[3, 0], [1, 2]]
    >>> round(NoisyCounts(sigma=10.0, tables=2).dp_event().noise_multiplier, 6)
    5.0
    """

    sigma: float  # standard deviation of the noise on a cell, in records: within 1e-3..1e9
    tables: int  # how many are released together: one for each column

    def __post_init__(self) -> None:
        set_number(self, "sigma", least=1e-3, most=1e9)
        set_whole(self, "tables", 1, 10**6)

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

    def dp_event(self) -> dp.DpEvent:
        """Describe the release of all tables: one Gaussian mechanism of L2 sensitivity ``sqrt(2 tables)``."""
        # root and quotient may round up; the event must not have more noise than is added
        return dp.GaussianDpEvent(self.sigma / math.sqrt(2 * self.tables) * (1 - 2.0**-51))


@dataclass(frozen=True, kw_only=True)
class NoisyProducts:
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
    | small sigma | as for `NoisyCounts` |

    Examples
    --------
    >>> mechanism = NoisyProducts(sigma=0.001, vectors=2)
    >>> (mechanism.privatize(np.array([3 * LENGTH**2, 0, LENGTH**2])) / (2 * LENGTH**2)).round().astype(int).tolist()
    [3, 0, 1]
    """

    sigma: float  # standard deviation of the noise on a square, in squared `LENGTH`: within 1e-3..1e9
    vectors: int  # how many a record has

    def __post_init__(self) -> None:
        set_number(self, "sigma", least=1e-3, most=1e9)
        set_whole(self, "vectors", 2, 10**6)

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

    def dp_event(self) -> dp.DpEvent:
        """Describe the release: one Gaussian mechanism of L2 sensitivity ``sqrt(2)``."""
        return dp.GaussianDpEvent(self.sigma / math.sqrt(2) * (1 - 2.0**-51))

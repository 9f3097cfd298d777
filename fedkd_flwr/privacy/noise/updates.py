"""Noise on a sum of updates, of which each is scaled down to a largest length first (DP-FedAvg)."""

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
from fedkd_flwr.privacy.noise.checks import set_number
from fedkd_flwr.privacy.noise.sampling import CELLS_PER_VOTE, Rng

__all__ = ["ClippedSum"]

_VOTES = 2**10  # of `sampling`, in one clipping norm: a finer grid than that of votes, because updates are many numbers
_CELLS = _VOTES * CELLS_PER_VOTE  # grid cells in one clipping norm, 2^30


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

    How exactly the noise follows its law stands in `fedkd_flwr.privacy.noise.sampling`.

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
        """Describe one sum."""
        # The quotient may round up; the event must not have more noise than is added.
        return dp.GaussianDpEvent(math.nextafter(self.noise_multiplier / (2 * (1 + 2.0**-52)), 0.0))

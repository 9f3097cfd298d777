"""Noise on class scores at the party that holds them: Laplace or Gaussian, on probabilities or clipped logits.

FedMD-LDP of Sun and Lyu, "Federated model distillation with noise-free differential privacy" (IJCAI 2021), section 3,
which states neither sensitivity nor composition. Here a row's scores may change entirely, and each row of each round is
one use.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.checks import check_choice
from fedkd_flwr.errors import ConfigError, DataError, explain
from fedkd_flwr.privacy import dp
from fedkd_flwr.privacy.noise import sampling
from fedkd_flwr.privacy.noise.checks import MOST_CLASSES, set_number, set_whole
from fedkd_flwr.privacy.noise.sampling import CELLS_PER_VOTE, UNITS_PER_VOTE, Rng

__all__ = ["NoisyScores"]


@dataclass(frozen=True, kw_only=True)
class NoisyScores:
    r"""Add Laplace or Gaussian noise to each score of a row.

    Formal guarantees
    -----------------
    Per row, for any change of it. Two rows of probabilities (one-hot ones too) differ by at most 2 in L1 and sqrt(2) in
    L2: classes lose at most 1 in all and gain at most 1 in all, which with Laplace noise costs at most two mechanisms
    of sensitivity 1. Clipped logits differ by at most 2 B in each of C places: C Laplace mechanisms of sensitivity 2 B,
    or an L2 distance of 2 B sqrt(C).

    | case | what holds |
    |---|---|
    | several rows, or several rounds | compose: one use each |
    | which rows are asked, and how many | not covered: choose them without looking at private rows |
    | floats | scores are rounded to a grid of 2^-20 first (rows of probabilities keep their sum), noise is added to
      whole numbers; what is sent afterwards at float16 or float32 is post-processing |

    How exactly the noise follows its law stands in `fedkd_flwr.privacy.noise.sampling`.

    Examples
    --------
    >>> NoisyScores(noise="laplace", kind="probs", num_classes=3, scale=4.0).pure_epsilon
    0.5
    >>> NoisyScores(noise="gaussian", kind="probs", num_classes=3, scale=1.0).dp_event().noise_multiplier.__round__(4)
    0.7071
    """

    noise: Literal["laplace", "gaussian"]
    kind: Literal["probs", "logits"]
    num_classes: int
    scale: float  # of Laplace noise, or standard deviation, in units of the scores: within 1e-3..1e9
    bound: float = 0.0  # for logits: B; they are clipped to [-B, B]

    def __post_init__(self) -> None:
        check_choice("score_noise", self.noise, ("laplace", "gaussian"))
        check_choice("kind", self.kind, ("probs", "logits"))
        set_whole(self, "num_classes", 2, MOST_CLASSES)
        if self.kind == "logits":
            set_number(self, "bound", least=1 / CELLS_PER_VOTE, most=1e6, way_out="Logits beyond it are cut off.")
            # Round the bound down to the grid, so that clipped values stay within it when they are rounded.
            object.__setattr__(self, "bound", math.floor(self.bound * CELLS_PER_VOTE) / CELLS_PER_VOTE)
        elif self.bound:
            raise ConfigError(explain("bound", "be 0 for probabilities", self.bound, "They lie within [0, 1]."))
        set_number(self, "scale", least=1e-3, most=1e9)

    @property
    def words(self) -> str:
        """The mechanism and its parameters, for a claim."""
        noise = "Laplace noise of scale" if self.noise == "laplace" else "Gaussian noise of standard deviation"
        where = "probabilities" if self.kind == "probs" else f"logits clipped to +-{self.bound:g}"
        return f"{noise} {self.scale:g} on each of {self.num_classes} {where}"

    @property
    def pure_epsilon(self) -> float:
        """Epsilon of one row at delta 0: infinite for Gaussian noise."""
        if self.noise == "gaussian":
            return math.inf
        return (2.0 if self.kind == "probs" else 2 * self.bound * self.num_classes) / self.scale

    def privatize(self, scores: NDArray[Any], /, *, rng: Rng = None) -> NDArray[np.float64]:
        """Return scores plus noise, on a grid of 2^-20: (rows, C) float64; without ``rng`` the operating system draws.

        ``scores`` are finite floats of the same shape, or `DataError` is raised; probabilities are brought to a sum of
        1, logits clipped.
        """
        cells = self._cells(scores)
        if self.noise == "laplace":
            noise = sampling.laplace_units(math.nextafter(1 / self.scale, 0.0), cells.shape, rng)
        else:
            noise = sampling.gaussian_units(self.scale, cells.shape, rng)
        return (2 * cells + noise) / UNITS_PER_VOTE

    def _cells(self, scores: NDArray[Any]) -> NDArray[np.int64]:
        """Return scores as whole numbers of grid cells of 2^-20, within the sensitivity the event states."""
        array = np.asarray(scores)
        if array.dtype.kind != "f" or array.ndim != 2 or array.shape[1] != self.num_classes:
            rule = f"be floats of shape (rows, {self.num_classes})"
            raise DataError(explain(self.kind, rule, f"{array.dtype} of shape {array.shape}"))
        if not np.isfinite(array).all():
            raise DataError(explain(self.kind, "be finite", "NaN or infinity", "Lower the model's learning rate."))
        values = array.astype(np.float64)
        if self.kind == "logits":
            clipped: NDArray[np.float64] = np.clip(values, -self.bound, self.bound)
            return np.rint(clipped * CELLS_PER_VOTE).astype(np.int64)
        values = np.maximum(values, 0)
        totals = values.sum(axis=1, keepdims=True)
        if not (totals > 0).all():
            raise DataError(explain("probs", "have a sum above 0 in every row", 0.0))
        exact = values / totals * CELLS_PER_VOTE
        cells: NDArray[np.int64] = np.floor(exact).astype(np.int64)
        # Keep every row's sum exactly one: plain rounding could widen the distance between two rows.
        missing = CELLS_PER_VOTE - cells.sum(axis=1)
        ranks = np.argsort(np.argsort(-(exact - cells), axis=1, kind="stable"), axis=1, kind="stable")
        cells += ranks < missing[:, None]
        return cells

    def dp_event(self) -> dp.DpEvent:
        """Describe one row."""
        if self.noise == "laplace":
            change, places = (1, 2) if self.kind == "probs" else (2 * self.bound, self.num_classes)
            return dp.SelfComposedDpEvent(dp.LaplaceDpEvent(self.scale / change), places)
        distance = math.sqrt(2) if self.kind == "probs" else 2 * self.bound * math.sqrt(self.num_classes)
        # The quotient may round up; the event must not have more noise than is added.
        return dp.GaussianDpEvent(math.nextafter(self.scale / (distance * (1 + 2.0**-52)), 0.0))

"""The mechanism that adds nothing, so that code need not ask whether there is one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from numpy.typing import NDArray

from fedkd_flwr.privacy import dp
from fedkd_flwr.privacy.noise.sampling import Rng

__all__ = ["NoNoise"]


@dataclass(frozen=True)
class NoNoise:
    """Lets every answer out as it is, and promises nothing: its epsilon is infinite.

    >>> import numpy as np
    >>> NoNoise().privatize(np.array([0, 2])).tolist(), NoNoise().pure_epsilon
    ([0, 2], inf)
    """

    payload: ClassVar[str] = "labels"
    words: ClassVar[str] = "no noise"
    pure_epsilon: ClassVar[float] = math.inf

    def privatize(self, answers: NDArray[Any], /, *, rng: Rng = None) -> NDArray[Any]:
        """Return the answers themselves."""
        return answers

    def debias(self, counts: NDArray[Any], num_reports: int) -> NDArray[Any]:
        """Return the counts themselves: there is nothing to take out."""
        return counts

    def dp_event(self) -> dp.DpEvent:
        """Describe one answer: no bound holds."""
        return dp.NonPrivateDpEvent()

"""The results of a sweep: runs of one configuration that differ only in their noise and their seed.

``benchmarks/sweep.py`` makes them; `sweep_plot` and `sweep_page` show them.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Any

from fedkd_flwr.errors import DataError, explain
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.report.formatting import is_number

__all__ = ["Point", "Sweep", "accuracy_of"]


def accuracy_of(record: RunRecord) -> float | None:
    """Return the accuracy of the server's model, else the parties' mean on common test rows, else None."""
    if is_number(record.server_accuracy):
        return record.server_accuracy
    return record.mean_accuracies().get("federated-common")


@dataclass(frozen=True, kw_only=True)
class Point:
    """One amount of noise: the value of the varied setting, the publishable epsilon, and the accuracy for each seed."""

    value: float | str
    epsilon: float
    accuracies: list[float] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """The results of a sweep.

    Parameters
    ----------
    name : str
        The configuration's name.
    varied : str
        The setting that was varied.
    measure : str
        What ``accuracies`` are of: ``"the server's model"`` or ``"mean of the parties"``.
    claim : dict
        The claim of the first point, as `PrivacyClaim.as_dict` wrote it: whom the epsilons are about.
    seeds : list of int
        The seeds of each point's runs.
    points : list of Point
        At least one.
    without_noise, alone : list of float
        Accuracies of the same runs without noise, and of parties alone (SOLO, mean over parties); one a seed, or none.
    command : str
        What made it.

    Raises
    ------
    DataError
        If there is no point, a point has no accuracy, or a number is none.
    """

    name: str
    varied: str
    measure: str
    claim: dict[str, Any]
    seeds: list[int]
    points: list[Point]
    without_noise: list[float] = field(default_factory=list)
    alone: list[float] = field(default_factory=list)
    command: str = ""

    def __post_init__(self) -> None:
        if not self.points:
            raise DataError(explain("points", "hold at least one point", 0))
        for point in self.points:
            if not (is_number(point.epsilon) and point.epsilon > 0):
                raise DataError(explain("epsilon of a point", "be finite and > 0", point.epsilon))
            if not point.accuracies:
                raise DataError(explain("accuracies of a point", "hold at least one run", 0))
        for value in [a for point in self.points for a in point.accuracies] + self.without_noise + self.alone:
            if not (is_number(value) and 0.0 <= value <= 1.0):
                raise DataError(explain("accuracy", "be within [0, 1]", value))

    def to_json(self) -> str:
        """Return the sweep as indented JSON text."""
        return json.dumps(dataclasses.asdict(self), indent=1, allow_nan=False) + "\n"

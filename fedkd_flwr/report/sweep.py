"""The results of a sweep: runs of one configuration that differ only in their noise and their seed.

``benchmarks/sweep.py`` writes them; `sweep_plot` and `sweep_page` show them.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedkd_flwr.errors import DataError, explain
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.report.claims import ordered, public
from fedkd_flwr.report.formatting import is_number

__all__ = ["Point", "Sweep", "accuracy_of", "claim_of"]


def accuracy_of(record: RunRecord) -> float | None:
    """Return the accuracy of the server's model, else the parties' mean on common test rows, else None."""
    if is_number(record.server_accuracy):
        return record.server_accuracy
    return record.mean_accuracies().get("federated-common")


def claim_of(record: RunRecord, unit: str = "") -> dict[str, Any] | None:
    """Return a run's first publishable claim with a finite epsilon, None if there is none.

    ``unit`` ("record" or "party") selects claims about that unit; "" accepts any.
    """
    for claim in ordered(record.claims):
        if public(claim) and is_number(claim.get("epsilon")) and unit in ("", claim.get("unit")):
            return claim
    return None


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

    @classmethod
    def load(cls, path: str | Path) -> Sweep:
        """Read a sweep from a JSON file.

        Raises
        ------
        DataError
            If there is no such file, or it does not hold the results of a sweep.
        """
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            way_out = "Give the file that benchmarks/sweep.py --out wrote."
            raise DataError(explain("sweep", "be a readable JSON file", f"{path} ({why})", way_out)) from error
        return cls.from_dict(data)

    @classmethod
    def from_dict(cls, data: Any) -> Sweep:
        """Rebuild a sweep from what `to_json` wrote."""
        kinds: Mapping[str, type] = {
            "name": str, "varied": str, "measure": str, "claim": dict, "seeds": list, "points": list,
            "without_noise": list, "alone": list, "command": str,
        }  # fmt: skip
        if not isinstance(data, dict) or set(data) != set(kinds):
            seen = sorted(map(str, data)) if isinstance(data, dict) else type(data).__name__
            raise DataError(explain("sweep", f"be an object with the fields {', '.join(kinds)}", seen))
        for key, kind in kinds.items():
            if not isinstance(data[key], kind):
                raise DataError(explain(f"sweep: {key}", f"be a {kind.__name__}", data[key]))
        points = []
        for entry in data["points"]:
            if not (isinstance(entry, dict) and set(entry) == {"value", "epsilon", "accuracies"}):
                raise DataError(explain("sweep: a point", "have value, epsilon and accuracies", entry))
            if not isinstance(entry["accuracies"], list):
                raise DataError(explain("sweep: accuracies of a point", "be a list", entry["accuracies"]))
            points.append(Point(**entry))
        return cls(**{**data, "points": points})

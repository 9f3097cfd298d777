"""The result of `fedkd choose`: what candidates reached, which is the best if that is clear, and all of it as text."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pandas as pd

from fedkd_flwr.report.formatting import columns
from fedkd_flwr.report.paired import LEAST_PAIRS, LEVEL, Paired, paired

__all__ = ["ALONE", "FIXED", "WHOSE", "Comparison"]

ALONE, FIXED = "each party alone", "one fixed answer"
Whose = Literal["parties", "home", "server"]
WHOSE = {
    "parties": "the parties' models on common test rows",
    "home": "the parties' models on their own test rows",
    "server": "the server's model on common test rows",
}
TREES = "Not compared: federated XGBoost, for parties that all trust a server with histograms (docs/howto/choose.md)."


@dataclass(kw_only=True)
class Comparison:
    """What all candidates reached, and by which figure they are ranked.

    ``values`` has a row for each candidate and seed: its figure for the ``parties``, at ``home`` and at the ``server``,
    ``kilobytes_up`` of a party over the whole run, ``seconds``; NaN where a run did not say. `ALONE` and `FIXED`
    (always answering the commonest class of the test rows) are rows too.
    """

    values: pd.DataFrame
    names: list[str]  # all that were tried, those that failed too
    seeds: list[int]
    whose: Whose
    figure: str
    test_rows: int = 0  # of the first seed; at home of all parties together
    not_ranked: dict[str, str] = field(default_factory=dict)  # why one failed, or whose figure it lacks
    stopped: str = ""  # how many runs were done when it was stopped; empty: all

    def of(self, name: str, column: str = "") -> list[float]:
        """Return a candidate's values of a column, by default of the one that ranks; [] if a run did not say."""
        found = self.values.loc[self.values.candidate == name, column or self.whose]
        return [] if found.isna().any() else found.astype(float).tolist()

    def why_not_ranked(self, name: str) -> str:
        """Return why a candidate has no place in the ranking; "" if it has one."""
        if len(self.of(name)) == len(self.seeds) and name not in self.not_ranked:
            return ""
        return self.not_ranked.get(name, f"not every run gave {self._figure} of {WHOSE[self.whose]}")

    @property
    def _figure(self) -> str:
        return self.figure.replace("_", " ")

    @property
    def ranked(self) -> list[str]:
        """The candidates that have a value for each seed, the best mean first."""
        known = [name for name in self.names if not self.why_not_ranked(name)]
        return sorted(known, key=lambda name: -statistics.fmean(self.of(name)))

    def behind(self, name: str) -> Paired:
        """Return by how much a ranked candidate is behind the best one, seed by seed."""
        return paired(self.of(self.ranked[0]), self.of(name), comparisons=math.comb(len(self.ranked), 2))

    def within_noise(self) -> list[str]:
        """Return the candidates that the best one cannot be told from."""
        return [name for name in self.ranked[1:] if not self.behind(name).clear]

    def frame(self) -> pd.DataFrame:
        """Return a row for each candidate, the best first, as `fedkd_flwr.choose` does."""
        ranked, several = self.ranked, len(self.seeds) > 1
        equal = self.within_noise() if several and ranked else []
        table = pd.DataFrame(
            {
                "candidate": name,
                self.figure: statistics.fmean(self.of(name)) if name in ranked else None,
                "deviation": statistics.stdev(self.of(name)) if several and name in ranked else None,
                "clear": name not in equal if several and name in ranked[1:] else None,
                "kilobytes_up": statistics.fmean(self.of(name, "kilobytes_up") or [0.0]),
                "seconds": statistics.fmean(self.of(name, "seconds") or [0.0]),
                "not_ranked": self.why_not_ranked(name),
            }
            for name in [*ranked, *(name for name in self.names if name not in ranked)]
        ).set_index("candidate")
        table.attrs["text"] = self.text()
        return table

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison as plain JSON types, with the values of each run; NaN where one did not say."""
        known = {key: getattr(self, key) for key in ("seeds", "whose", "figure", "test_rows", "stopped")}
        ranking = self.frame().reset_index().to_dict("records")
        return {**known, "candidates": ranking, "values": self.values.to_dict("records")}

    def text(self) -> str:
        """Return the comparison as text: a table with the best candidate on top, and what it shows."""
        ranked = self.ranked
        rest = [name for name in self.names if name not in ranked]
        seeds = "1 seed" if len(self.seeds) == 1 else f"{len(self.seeds)} seeds"
        head = ["", *WHOSE, "behind the first", "KB up", "s"]
        table = [
            [
                name,
                *(_spread(self.of(name, whose)) for whose in WHOSE),
                _gap(self.behind(name)) if name in ranked[1:] else "",
                *(_mean(self.of(name, cost), 1) for cost in ("kilobytes_up", "seconds")),
            ]
            for name in [*ranked, *rest, FIXED]
        ]
        lines = [f"Stopped after {self.stopped}. The same command goes on there."] if self.stopped else []
        lines += [f"{self._figure.capitalize()}: mean (standard deviation) over {seeds}, {self.test_rows:,} test rows."]
        lines += [*columns([head, *table], left=1), ""]
        lines += [f"{name} is not ranked: {self.why_not_ranked(name)}." for name in rest]
        if not ranked:
            return "\n".join(lines)
        lines.append(f"Ranked by {self._figure} of {WHOSE[self.whose]}.")
        if any(self.behind(name).known for name in ranked[1:]):
            lines.append(f"± is a {LEVEL:.0%} interval for all pairs together (by seed, Student's t, Bonferroni).")
        return "\n".join([*lines, *self._finding(ranked), TREES])

    def _finding(self, ranked: Sequence[str]) -> list[str]:
        """Return which candidate is the best, if that can be said."""
        others = [name for name in ranked if name != ALONE]
        fixed = self.of(FIXED)
        if others and len(fixed) == len(self.seeds):
            above = paired(self.of(others[0]), fixed, comparisons=len(ranked))
            if above.mean <= 0 or (above.n >= LEAST_PAIRS and not above.clear):
                noise = " by more than noise" if above.mean > 0 else ""
                return [f"No candidate is above one fixed answer ({_mean(fixed, 3)}){noise}."]
        if len(self.seeds) < LEAST_PAIRS:
            return ["One or two seeds say nothing about noise: no best is named. Give --thorough, or --seeds 5."]
        equal = self.within_noise()
        if ALONE in equal or ranked[0] == ALONE:
            return ["No candidate is better than staying alone by more than noise."]
        told = f", but it cannot be told from {', '.join(equal)}. More --seeds tell more apart" if equal else ""
        alone = [] if ALONE in ranked else ["Whether it is better than staying alone is not known here."]
        return [f"Best: {ranked[0]}{told}. The seeds that chose it make its mean a little optimistic.", *alone]


def _gap(found: Paired) -> str:
    width = f" ± {found.half:.3f}" if found.known else ""
    return f"{found.mean:.3f}{width}"


def _mean(values: Sequence[float], digits: int) -> str:
    return f"{statistics.fmean(values):,.{digits}f}" if values else "–"


def _spread(values: Sequence[float]) -> str:
    return f"{_mean(values, 3)} ({statistics.stdev(values):.3f})" if len(values) > 1 else _mean(values, 3)

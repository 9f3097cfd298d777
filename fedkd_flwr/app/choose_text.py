"""The result of `fedkd choose`: what candidates reached, which is the best if that is clear, and all of it as text."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from fedkd_flwr.report.paired import LEAST_PAIRS, LEVEL, Paired, paired

__all__ = ["ALONE", "FIGURES", "FIXED", "WHOSE", "Comparison", "Outcome", "comparison_text"]

ALONE, FIXED = "each party alone", "one fixed answer"
Whose = Literal["parties", "home", "server"]
WHOSE = {
    "parties": "the parties' models on common test rows",
    "home": "the parties' models on their own test rows",
    "server": "the server's model on common test rows",
}
FIGURES = ("accuracy", "balanced_accuracy")

TREES = "Not compared: federated XGBoost, for parties that all trust a server with histograms (docs/howto/choose.md)."


@dataclass
class Outcome:
    """What one candidate reached, one entry a seed; NaN where a run did not say.

    ``figures``: (whose, figure) -> values. ``kilobytes``: sent by a party over the whole run. ``failed``: why a run of
    it failed. ``missing``: by whose models: which parties lack a figure that they have elsewhere, so that a mean over
    the others would be of other parties.
    """

    name: str
    figures: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    kilobytes: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    failed: str = ""
    missing: dict[str, str] = field(default_factory=dict)

    def of(self, whose: str, figure: str) -> list[float]:
        """Return the values of a figure; [] if a run did not give it."""
        values = self.figures.get((whose, figure), [])
        return [] if any(map(math.isnan, values)) else values


@dataclass(kw_only=True)
class Comparison:
    """The outcomes of all candidates, and by which figure they are ranked."""

    seeds: list[int]
    whose: Whose
    figure: str
    outcomes: list[Outcome]
    fixed: Outcome | None = None  # what always answering the commonest class of the test rows has; None: not known
    test_rows: dict[str, list[int]] = field(default_factory=dict)  # whose -> test rows of each seed
    alone_of: str = ""  # with which candidate parties alone were trained as shown; empty: alike with all
    stopped: str = ""  # how many runs were done when it was stopped; empty: all

    @property
    def ranked(self) -> list[Outcome]:
        """The candidates that have a value for each seed, the best mean first."""
        known = [one for one in self.outcomes if not self.why_not_ranked(one)]
        return sorted(known, key=lambda one: -statistics.fmean(one.of(self.whose, self.figure)))

    def why_not_ranked(self, outcome: Outcome) -> str:
        """Return why an outcome has no place in the ranking; "" if it has one."""
        if outcome.failed:
            return f"failed, {outcome.failed}"
        if missing := outcome.missing.get(self.whose):
            return missing
        if len(outcome.of(self.whose, self.figure)) != len(self.seeds):
            return f"not every run gave {self.figure.replace('_', ' ')} of {WHOSE[self.whose]}"
        return ""

    def ahead(self, best: Outcome, other: Outcome) -> Paired:
        """Return by how much one ranked candidate is ahead of another, seed by seed."""
        values = [one.of(self.whose, self.figure) for one in (best, other)]
        return paired(*values, comparisons=math.comb(len(self.ranked), 2))

    def above_fixed(self, outcome: Outcome) -> Paired | None:
        """Return by how much a ranked candidate is above one fixed answer, seed by seed; None: not known."""
        fixed = self.fixed.of(self.whose, self.figure) if self.fixed else []
        if len(fixed) != len(self.seeds):
            return None
        return paired(outcome.of(self.whose, self.figure), fixed, comparisons=len(self.ranked))

    def within_noise(self) -> list[Outcome]:
        """Return the candidates that the best one cannot be told from."""
        best, *others = self.ranked
        return [one for one in others if not self.ahead(best, one).clear]

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison as plain JSON types; NaN where a run did not say."""
        equal = {one.name for one in self.within_noise()} if len(self.seeds) > 1 and self.ranked else set()
        return {
            "seeds": self.seeds,
            "whose": self.whose,
            "figure": self.figure,
            "ranking": [one.name for one in self.ranked],
            "not_told_from_the_first": sorted(equal) if len(self.seeds) > 1 else None,
            "test_rows": self.test_rows,
            "one_fixed_answer": _figures_by_name(self.fixed) if self.fixed else None,
            "alone_as_trained_with": self.alone_of or None,
            "stopped": self.stopped or None,
            "candidates": [
                {
                    "name": one.name,
                    "failed": one.failed,
                    "not_ranked": self.why_not_ranked(one),
                    "figures": _figures_by_name(one),
                    "kilobytes_up": one.kilobytes,
                    "seconds": one.seconds,
                }
                for one in self.outcomes
            ],
        }


def _figures_by_name(outcome: Outcome) -> dict[str, list[float]]:
    return {f"{whose}:{figure}": values for (whose, figure), values in outcome.figures.items()}


def comparison_text(found: Comparison) -> str:
    """Return the comparison as text: the figure that ranks in the first column, the best candidate on top."""
    lead = found.figure.replace("_", " ")
    figures = [found.figure, *(name for name in FIGURES if name != found.figure)]
    columns = [(whose, name) for whose in (found.whose, *(w for w in WHOSE if w != found.whose)) for name in figures]
    ranked = found.ranked
    outcomes = [*ranked, *(one for one in found.outcomes if one not in ranked), *([found.fixed] if found.fixed else [])]
    width = max(len(one.name) for one in outcomes)
    titles = "".join(f"  {_title(whose, name, first=name == figures[0]):>16}" for whose, name in columns)
    seeds = "1 seed" if len(found.seeds) == 1 else f"{len(found.seeds)} seeds"
    which = f"{found.seeds[0]} to {found.seeds[-1]}" if len(found.seeds) > 1 else f"{found.seeds[0]}"
    lines = [f"Stopped after {found.stopped}. The same command goes on there."] if found.stopped else []
    lines += [f"mean (standard deviation) over {seeds}, {which}{_rows_text(found)}"]
    lines.append(f"{'':<{width}}{titles}  {'KB up':>8}  {'s':>6}")
    for one in outcomes:
        if one.failed:
            lines.append(f"{one.name:<{width}}  failed, {one.failed}")
            continue
        cells = "".join(f"  {_cell(one.of(whose, figure)):>16}" for whose, figure in columns)
        cost = f"  {_mean(one.kilobytes, 1):>8}  {_mean(one.seconds, 1):>6}"
        lines.append(f"{one.name:<{width}}{cells}{cost}")
    if found.alone_of:
        lines.append(f"{ALONE}: trained for as long as with {found.alone_of}, which is best for it.")
    if found.fixed:
        lines.append(f"{FIXED}: always the commonest class of the test rows.")
    lines.append("")
    if not ranked:
        return "\n".join([*lines, f"No candidate has {lead} of {WHOSE[found.whose]} for each seed.", *_left_out(found)])
    best = ranked[0]
    lines.append(f"Ranked by {lead} of {WHOSE[found.whose]}.")
    lines += _left_out(found)
    gaps = [(other, found.ahead(best, other)) for other in ranked[1:]]
    lines += [_gap_sentence(best, other, gap) for other, gap in gaps]
    if any(gap.known for _, gap in gaps):
        lines.append(f"± is a {LEVEL:.0%} interval for all pairs together (paired by seed, Student's t, Bonferroni).")
    return "\n".join([*lines, *_finding(found, best), TREES])


def _title(whose: str, figure: str, *, first: bool) -> str:
    """Return the heading of a column; the first column of a group also names whose models it is about.

    >>> _title("home", "balanced_accuracy", first=True), _title("home", "accuracy", first=False)
    ('home: bal. acc.', 'accuracy')
    """
    of = {"home": "home: ", "server": "server: "}.get(whose, "") if first else ""
    return f"{of}{'bal. acc.' if figure == 'balanced_accuracy' else figure}"


def _rows_text(found: Comparison) -> str:
    """Return how many test rows there are, as a clause after the seeds; "" where it is not known."""
    told = [
        f"{min(counts):,}{f' to {max(counts):,}' if len(set(counts)) > 1 else ''} {words}"
        for whose, words in (("parties", "common test rows"), ("home", "test rows at home, of all parties together"))
        if any(counts := found.test_rows.get(whose, []))
    ]
    return "".join(f"; {one}" for one in told)


def _left_out(found: Comparison) -> list[str]:
    """Return a sentence on each outcome that is not ranked."""
    said = []
    for one in found.outcomes:
        if one.name == ALONE and found.whose == "server":
            said.append("Staying alone is not ranked: it gives no server's model.")
        elif why := found.why_not_ranked(one):
            said.append(f"{one.name} is not ranked: {why}.")
    return said


def _gap_sentence(best: Outcome, other: Outcome, gap: Paired) -> str:
    if gap.same:
        return f"{best.name} and {other.name} reach the same in each seed."
    words = f"{best.name} is ahead of {other.name} by {gap.mean:.3f}"
    if gap.n < 2:
        return f"{words}, of one seed."
    words += f" ± {gap.half:.3f}" if gap.known else ""
    return f"{words}." if gap.clear else f"{words}: {gap.verdict('seed')}."


def _finding(found: Comparison, best: Outcome) -> list[str]:
    """Return which candidate is the best, if that can be said."""
    seeds, others = len(found.seeds), [one for one in found.ranked if one.name != ALONE]
    above = found.above_fixed(others[0]) if others else None
    if above and above.mean <= 0:
        return [f"No candidate is above {_fixed_words(found)}."]
    if seeds < LEAST_PAIRS:
        few = "One seed says nothing" if seeds == 1 else f"{seeds} seeds say too little"
        return [f"{few} about noise: no best candidate is named. Give --thorough, or --seeds 5 or more."]
    if above and not above.clear:
        return [f"No candidate is above {_fixed_words(found)} by more than noise."]
    equal = [one.name for one in found.within_noise()]
    if ALONE in equal or best.name == ALONE:
        return ["No candidate is better than staying alone by more than noise."]
    told = f", but it cannot be told from {', '.join(equal)}. More --seeds tell more apart" if equal else ""
    said = [f"Best: {best.name}{told}."] if len(others) > 1 else [f"{best.name} is the only candidate{_ranked(found)}."]
    if ALONE not in [one.name for one in found.ranked]:
        said.append("Whether it is better than staying alone is not known here.")
    elif len(others) == 1:
        said.append("It is better than staying alone by more than noise.")
    if len(others) > 1:
        said.append("The seeds that its mean is taken over also chose it, so this mean is a little optimistic.")
    return said


def _fixed_words(found: Comparison) -> str:
    value = _mean(found.fixed.of(found.whose, found.figure) if found.fixed else [], 3)
    return f"one fixed answer ({found.figure.replace('_', ' ')} {value})"


def _ranked(found: Comparison) -> str:
    """Return " that is ranked" where other candidates are not; else nothing."""
    return " that is ranked" if sum(one.name != ALONE for one in found.outcomes) > 1 else ""


def _cell(values: Sequence[float]) -> str:
    if not values:
        return "–"
    spread = f" ({statistics.stdev(values):.3f})" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.3f}{spread}"


def _mean(values: Sequence[float], digits: int) -> str:
    return f"{statistics.fmean(values):,.{digits}f}" if values else "–"

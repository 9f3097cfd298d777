"""The result of `fedkd choose` as plain text: a table, and which candidate is the best, if that is clear."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from fedkd_flwr.app.choose import ALONE, FIGURES, FIXED, WHOSE, Comparison, Outcome
from fedkd_flwr.report.paired import LEAST_PAIRS, LEVEL, Paired

__all__ = ["comparison_text"]

TREES = "Not compared: federated XGBoost, for parties that all trust a server with histograms (docs/howto/choose.md)."


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

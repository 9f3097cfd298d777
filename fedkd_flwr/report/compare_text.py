"""A comparison of runs as tables of plain text: what `fedkd compare` prints."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from fedkd_flwr.report import derived
from fedkd_flwr.report.compare import WHOSE, Comparison, Gap, Group, deviation, verdict
from fedkd_flwr.report.derived import ROWS
from fedkd_flwr.report.formatting import count, plain, rounds_text
from fedkd_flwr.report.paired import LEAST_PAIRS, LEVEL
from fedkd_flwr.rounding import bound_text
from fedkd_flwr.terminal import columns

__all__ = [
    "cell",
    "comparison_text",
    "figure_rows",
    "figure_title",
    "gap_sentence",
    "group_title",
    "how",
    "setting_rows",
]

_VALUE = 30  # the longest setting shown


def comparison_text(found: Comparison) -> str:
    """Return a comparison as text, without a line break at the end."""
    letters = [group.letter for group in found.groups]
    lines = [f"WARNING: {warning}" for warning in found.warnings]
    lines += [f"{group.letter}  {group_title(group)}" for group in found.groups]
    if found.differs:
        lines += ["", *columns([["setting", *letters], *setting_rows(found)])]
    head = [figure_title(found), *(f"{group.letter} ({count(len(group.records), 'run')})" for group in found.groups)]
    lines += ["", *columns([head, *figure_rows(found)])]
    if found.gaps:
        lines += ["", *(gap_sentence(found, gap) for gap in found.gaps)]
    return "\n".join([*lines, "", *how(found)])


def figure_title(found: Comparison) -> str:
    """Return which figure is compared, on which rows and how many."""
    n = f"{found.n[0]:,}" if len(found.n) == 1 else f"{found.n[0]:,} to {found.n[-1]:,}"
    rare = [derived.rarest_class(record, found.rows) for group in found.groups for record in group.records]
    held = sorted({one[1] for one in rare if one is not None}) if found.figure == "balanced_accuracy" else []
    few = f"{held[0]:,}{f' to {held[-1]:,}' if len(held) > 1 else ''} of them of the rarest class" if held else ""
    return f"{found.figure.replace('_', ' ')} on {ROWS[found.rows]}, n = {n}{f', {few}' if few else ''}"


def group_title(group: Group) -> str:
    """Return what a group is: its name, its runs and its seeds."""
    seeds = rounds_text(group.seeds).replace("round", "seed")
    if _repeats(group):
        seeds = f"all with the same seed, {group.seeds[0]}"
    ids = ", ".join(plain(record.run_id, 24) for record in group.records[:3])
    ids += f" and {len(group.records) - 3} more" if len(group.records) > 3 else ""
    name = f"{plain(group.name, 40)}: " if group.name else ""
    return f"{name}{count(len(group.records), 'run')}, {seeds} ({ids})"


def setting_rows(found: Comparison) -> list[list[str]]:
    """Return the settings that differ, one row each."""
    return [[plain(key), *(_setting(group.settings.get(key)) for group in found.groups)] for key in found.differs]


def figure_rows(found: Comparison) -> list[list[str]]:
    """Return what the groups reached, one row a figure; without figures that no group has."""
    rows = []
    for column in found.columns():
        values = [group.values(column.of) for group in found.groups]
        if any(values):
            shown = []
            for group, one in zip(found.groups, values, strict=True):
                alike = one[:1] if _repeats(group) and len({*one}) == 1 else one
                shown.append(_bound(one) if column.bound else cell(alike, column.digits))
            rows.append([column.title, *shown])
    return rows


def _bound(values: Sequence[float]) -> str:
    return bound_text(max(values)) if values else "–"


def _repeats(group: Group) -> bool:
    """Tell whether a group's runs, several, have one seed: they repeat each other but for noise that has none."""
    return len(group.records) > 1 and len(group.seeds) == 1


def cell(values: Sequence[float], digits: int = 3) -> str:
    """Return the mean of some runs and their standard deviation.

    >>> cell([0.5, 0.7]), cell([0.5]), cell([])
    ('0.600 ± 0.141', '0.500', '–')
    """
    if not values:
        return "–"
    spread = deviation(values)
    return f"{statistics.fmean(values):,.{digits}f}" + (f" ± {spread:,.{digits}f}" if spread is not None else "")


def gap_sentence(found: Comparison, gap: Gap) -> str:
    """Return one difference as a sentence."""
    d = gap.difference
    words = f"{gap.second} minus {gap.first}, {WHOSE[gap.whose]}: {d.mean:+.3f}"
    if d.known:
        words += f" ± {d.half:.3f} (standard error {d.error:.3f}, {count(d.n, 'seed')}): {verdict(gap)}"
    else:
        words += f" ({f'{d.n} seeds' if d.n > 1 else f'seed {gap.seeds[0]}'}): {verdict(gap)}"
    if gap.compared:
        words += f". {gap.better} of {gap.compared} parties reach more, {gap.worse} less"
        words += f", counted over {count(len(gap.seeds), 'seed')}" if len(gap.seeds) > 1 else ""
    if gap.parties is not None:
        words += f"; over the parties of this seed {gap.parties.mean:+.3f}, standard error {gap.parties.error:.3f}"
    return f"{words}."


def how(found: Comparison) -> list[str]:
    """Return what the numbers are."""
    lines = []
    for group in filter(_repeats, found.groups):
        lines.append(f"{group.letter}: runs with the same seed and settings repeat each other; other seeds tell noise.")
    if any("±" in shown for row in figure_rows(found) for shown in row[1:]):
        lines.append("In the table: mean over runs ± their standard deviation; of parties first the mean of each run.")
    if any(gap.difference.known for gap in found.gaps):
        lines.append(
            f"Differences are paired by seed; ± is a {LEVEL:.0%} interval (Student's t) for all "
            f"{len(found.gaps)} of them together (Bonferroni)."
            if len(found.gaps) > 1
            else f"The difference is paired by seed; ± is a {LEVEL:.0%} interval (Student's t)."
        )
    if any(gap.difference.n < LEAST_PAIRS or not (gap.difference.known or gap.difference.same) for gap in found.gaps):
        lines.append("Run both with more seeds to tell a difference from noise: fedkd simulate ... --seeds 5")
    return lines


def _setting(value: object) -> str:
    return "–" if value is None else plain(value, _VALUE) or '""'

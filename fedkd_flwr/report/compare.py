"""Several runs beside each other: which settings differ, what each reached, and which differences are more than noise.

Runs that differ only in their seed are one group. Differences between groups are paired: runs of one seed share their
parties and their test rows, so that what the seed does to both of them cancels out.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fedkd_flwr.errors import DataError, explain
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.report import derived
from fedkd_flwr.report.formatting import is_number, plain
from fedkd_flwr.report.paired import LEVEL, Paired, paired
from fedkd_flwr.report.runs import data_name
from fedkd_flwr.report.sweep import claim_of

__all__ = ["WHOSE", "Column", "Comparison", "Gap", "Group", "compare", "deviation", "verdict"]

WHOSE = {
    "alone": "each party alone",
    "federated": "parties with the federation",
    "server": "the server's model",
    "centralised": "one model trained on all rows",
}
_PAIRED = ("federated", "server")
_NAMED = 4  # further parties and seeds are counted, not named

# settings that do not change what a run finds
_IDLE = {"seed", "name", "output-dir", "data-root", "resume-from", "save-party-models", "tracking", "round-timeout-s"}
_IDLE |= {"node-settle-s", "node-deadline-s"}

_DATA: tuple[str, ...] = (
    "dataset",
    "table",
    "label",
    "label-space",
    "schema-path",
    "synthetic-rows",
    "synthetic-features",
)
_DATA += ("synthetic-classes",)
_COMMON_ROWS: tuple[str, ...] = ("num-test", "public-from")
_PUBLIC_ROWS: tuple[str, ...] = (*_COMMON_ROWS, "num-public", "num-private", "public-label")
_OWN_ROWS: tuple[str, ...] = (
    *_COMMON_ROWS,
    "num-public",
    "num-private",
    "partitioner",
    "dirichlet-alpha",
    "second-dirichlet-alpha",
    "classes-per-party",
)
_OWN_ROWS += ("shards-per-party", "min-party-rows", "class-order", "partition-path", "partition-index")
_OWN_ROWS += ("party-test-fraction", "num-parties")


@dataclass(kw_only=True)
class Group:
    """Runs that differ only in their seed.

    Attributes
    ----------
    letter : str
        By which it is spoken of: A for the group of the run that was given first.
    records : list of RunRecord
        By seed. Noise for privacy has no seed, so one seed may have several runs.
    settings : dict
        Those that differ between groups.
    """

    letter: str
    records: list[RunRecord]
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def seeds(self) -> list[int]:
        """The seeds, each once."""
        return sorted({record.seed for record in self.records})

    @property
    def name(self) -> str:
        """The name that all its runs have, "" if there is none."""
        names = {str(record.config.get("name", "")) for record in self.records}
        return names.pop() if len(names) == 1 else ""

    def values(self, of: Callable[[RunRecord], float | None]) -> list[float]:
        """Return a number of each run; [] if a run has none."""
        found = [of(record) for record in self.records]
        return [value for value in found if value is not None] if all(map(is_number, found)) else []

    def by_seed(self, of: Callable[[RunRecord], float | None]) -> dict[int, float]:
        """Return the mean over the runs of each seed; {} if a run has none."""
        values = self.values(of)
        pairs = list(zip(self.records, values, strict=True)) if values else []
        return {seed: statistics.fmean(v for r, v in pairs if r.seed == seed) for seed in self.seeds} if pairs else {}


@dataclass(frozen=True, kw_only=True)
class Gap:
    """By how much one group is above another, by a figure of the same models on the same rows.

    Attributes
    ----------
    first, second : str
        Letters of the groups; the difference is ``second`` minus ``first``.
    whose : str
        ``federated`` or ``server``.
    seeds : list of int
        The seeds that both have.
    difference : Paired
        Over those seeds; of parties, the mean over those that both have.
    parties : Paired or None
        Of one seed alone: over its parties. It says nothing of other seeds.
    better, worse, compared : int
        Parties, counted once for each seed, that reach more with the second group, less, and all; 0 for the server.
    """

    first: str
    second: str
    whose: str
    seeds: list[int]
    difference: Paired
    parties: Paired | None = None
    better: int = 0
    worse: int = 0
    compared: int = 0


class Column(NamedTuple):
    """A figure of a group: its key in JSON, its title, how to read it from a record, and its decimals.

    A ``bound`` is shown as the largest over the runs, rounded up, without decimals of its own; anything else as a mean.
    """

    key: str
    title: str
    of: Callable[[RunRecord], float | None]
    digits: int
    bound: bool = False

    def as_dict(self, values: Sequence[float]) -> dict[str, float | int | None]:
        """Return what some runs say of it as plain JSON types."""
        if self.bound:
            return {"runs": len(values), "largest": max(values)}
        return {"runs": len(values), "mean": statistics.fmean(values), "deviation": deviation(values)}


@dataclass(kw_only=True)
class Comparison:
    """What several runs say beside each other.

    Attributes
    ----------
    groups : list of Group
        Each with its runs.
    differs : list of str
        The settings that differ between groups.
    figure, rows : str
        By which figure they are compared, and on which test rows (`fedkd_flwr.report.derived`).
    n : list of int
        Numbers of test rows that occur.
    gaps : list of Gap
        Each group against the first.
    warnings : list of str
        Why the runs should not be compared, where that was asked for nevertheless, and what could not be paired.
    """

    groups: list[Group]
    differs: list[str]
    figure: str
    rows: str
    n: list[int]
    gaps: list[Gap] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def value(self, whose: str) -> Callable[[RunRecord], float | None]:
        """Return what reads the figure of some models from a record: the mean over parties."""

        def of(record: RunRecord) -> float | None:
            models = dict(derived.models(record))[whose]
            found = derived.spread(derived.known(one, self.rows, self.figure) for one in models)
            return found.mean if found else None

        return of

    def columns(self) -> list[Column]:
        """Return what is shown of each group."""
        return [
            *(Column(whose, title, self.value(whose), 3) for whose, title in WHOSE.items()),
            Column("kilobytes_up", "KB sent by a party, whole run", _kilobytes, 1),
            Column("rounds", "rounds", lambda record: float(len(record.rounds)), 1),
            Column("seconds", "seconds", lambda record: record.seconds or None, 1),
            Column("epsilon", "epsilon (publishable claim), largest of the runs", _epsilon, 0, bound=True),
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison as plain JSON types."""
        return {
            "figure": self.figure,
            "rows": self.rows,
            "n": self.n,
            "differs": self.differs,
            "groups": [
                {
                    "letter": group.letter,
                    "name": group.name,
                    "runs": [record.run_id for record in group.records],
                    "seeds": group.seeds,
                    "settings": group.settings,
                    "figures": {
                        one.key: one.as_dict(values) for one in self.columns() if (values := group.values(one.of))
                    },
                }
                for group in self.groups
            ],
            "differences": [
                {
                    "first": gap.first,
                    "second": gap.second,
                    "whose": gap.whose,
                    "seeds": gap.seeds,
                    **_plain_pairs(gap.difference),
                    "over_parties_of_one_seed": _plain_pairs(gap.parties) if gap.parties else None,
                    "parties_better": gap.better,
                    "parties_worse": gap.worse,
                    "parties_compared": gap.compared,
                    "verdict": verdict(gap),
                }
                for gap in self.gaps
            ],
            "level": LEVEL,
            "warnings": self.warnings,
        }


def compare(records: Sequence[RunRecord], *, figure: str = "", force: bool = False) -> Comparison:
    """Compare runs.

    Parameters
    ----------
    records : sequence of RunRecord
        Two or more. The first one's group is what the others are compared with.
    figure : {"", "accuracy", "balanced_accuracy", ...}
        A key of `fedkd_flwr.report.derived.FIGURES`; by default balanced accuracy where the classes of any run are
        imbalanced, else accuracy.
    force : bool
        Compare also what cannot be compared; `Comparison.warnings` says why.

    Raises
    ------
    DataError
        If there are fewer than two runs, one of them has no test figures, or (unless ``force``) they were measured on
        other data or other test rows.
    """
    chosen = list({(record.run_id, record.started): record for record in records}.values())
    if len(chosen) < 2:
        raise DataError(explain("the comparison", "have two or more different runs", len(chosen)))
    chosen, warnings = _tested(chosen, force=force)
    rows = "common" if all(derived.rows_used(record) == "common" for record in chosen) else "own"
    used = {derived.figure_used(record, rows) for record in chosen}
    groups = _groups(chosen)
    found = Comparison(
        groups=groups,
        differs=_differing(groups),
        figure=figure or ("balanced_accuracy" if "balanced_accuracy" in used else "accuracy"),
        rows=rows,
        n=sorted({one.n for record in chosen for one in derived.figures(record) if one.rows == rows}),
    )
    for group in groups:
        group.settings = {key: _setting(group.records[0], key) for key in found.differs}
    problems = _problems(chosen, rows)
    if problems and not force:
        way_out = "Give --force to see them beside each other nevertheless, without paired differences."
        raise DataError(f"These runs cannot be compared: {'; '.join(problems)}. {way_out}")
    found.warnings = warnings + [f"These runs cannot really be compared: {problem}." for problem in problems]
    if not any(group.values(found.value(whose)) for group in groups for whose in WHOSE):
        known = ", ".join(key for key in derived.FIGURES if any(key in one.means for one in derived.figures(chosen[0])))
        raise DataError(explain("the figure", f"be one that the runs have: {known}", found.figure))
    if not problems:
        found.gaps = _gaps(found)
        if len(groups) > 1 and not found.gaps:
            found.warnings.append("Nothing can be paired: the groups have no seed in common, or no party in it.")
    return found


def verdict(gap: Gap) -> str:
    """Return what can be said of a difference: a few words."""
    if gap.difference.n > 1 and gap.compared and not (gap.better or gap.worse):
        return "each party reaches the same in every run"
    return gap.difference.verdict("seed")


def deviation(values: Sequence[float]) -> float | None:
    """Return the standard deviation over runs; None of a single one."""
    return statistics.stdev(values) if len(values) > 1 else None


def _tested(records: list[RunRecord], *, force: bool) -> tuple[list[RunRecord], list[str]]:
    """Return the runs that have figures, and a warning about each of the others."""
    without = [record for record in records if not derived.figures(record)]
    if without and (not force or len(records) - len(without) < 2):
        named = ", ".join(f"{plain(record.run_id)} ({plain(record.status)})" for record in without)
        rule = "have figures of models on test rows"
        way_out = "Leave it out." if len(without) == 1 else "Leave them out."
        raise DataError(explain("each run", rule, f"none in {named}", way_out))
    warnings = [
        f"Run {plain(one.run_id)} ({plain(one.status)}) has no test figures and is left out." for one in without
    ]
    return [record for record in records if record not in without], warnings


def _setting(record: RunRecord, key: str) -> Any:
    """Return a setting, or what became of it: num-parties may be 0, for as many as there are."""
    facts = {"algorithm": record.algorithm, "num-parties": len(record.parties)}
    return facts[key] if key in facts else record.config.get(key)


def _groups(records: Sequence[RunRecord]) -> list[Group]:
    groups: dict[str, list[RunRecord]] = {}
    for record in records:
        keys = sorted({"algorithm", "num-parties", *record.config} - _IDLE)
        audited = record.audit is not None  # its models learnt half of the rows
        key = repr((record.simulation, audited, [(key, _setting(record, key)) for key in keys]))
        groups.setdefault(key, []).append(record)
    return [
        Group(letter=_letter(i), records=sorted(found, key=lambda r: (r.seed, r.started, r.run_id)))
        for i, found in enumerate(groups.values())
    ]


def _letter(number: int) -> str:
    """Return A to Z, and then A2, B2 and so on."""
    return chr(ord("A") + number % 26) + (str(number // 26 + 1) if number >= 26 else "")


def _differing(groups: Sequence[Group]) -> list[str]:
    """Return the settings that differ; not those that one algorithm lacks and the others leave at their defaults."""
    first = [group.records[0] for group in groups]
    keys = dict.fromkeys(["algorithm", "num-parties", *(key for record in first for key in record.config)])
    found = []
    for key in keys:
        chosen = [r for r in first if key in r.config and (r.changed is None or key in r.changed)]
        shared = key in ("algorithm", "num-parties") or all(key in record.config for record in first)
        if key not in _IDLE and (shared or chosen) and len({repr(_setting(record, key)) for record in first}) > 1:
            found.append(key)
    return found


def _problems(records: Sequence[RunRecord], rows: str) -> list[str]:
    """Return why runs cannot be compared: other data, or other test rows."""
    first, *others = records
    for other in others:
        if first.simulation != other.simulation:
            return [f"{_two(first, other)}: one is a simulation, the other is not"]
        if data_name(first.config) != data_name(other.config):
            names = f"{plain(data_name(first.config), 40)} and {plain(data_name(other.config), 40)}"
            return [f"{_two(first, other)} have other data sets, {names}"]
        if (first.audit is None) != (other.audit is None):
            return [f"{_two(first, other)}: one was audited, so that its models learnt half of the rows"]
        if first.classes != other.classes:
            return [f"{_two(first, other)} have other classes"]
        settings = (*_DATA, *(_OWN_ROWS if rows == "own" else _COMMON_ROWS))
        if first.config.get("public-from") == "test":  # public and test rows are cut from one file
            settings += ("num-public",)
        changed = [key for key in settings if _setting(first, key) != _setting(other, key)]
        if changed:
            kind = "other data" if set(changed) & set(_DATA) else "other test rows"
            said = ", ".join(f"{key} {_setting(first, key)!r} and {_setting(other, key)!r}" for key in changed[:3])
            return [f"{_two(first, other)} have {kind}: {plain(said, 160)}"]
    by_seed: dict[int, RunRecord] = {}
    for record in records:
        other = by_seed.setdefault(record.seed if record.simulation else 0, record)
        if other.seed == record.seed and _rows_of(other, rows) != _rows_of(record, rows):
            return [f"{_two(other, record)} have seed {record.seed}, and yet other test rows"]
        if other.fingerprint != record.fingerprint:  # in a simulation, seed and settings choose the public rows
            same = [_setting(other, key) for key in _PUBLIC_ROWS] == [_setting(record, key) for key in _PUBLIC_ROWS]
            if same or not record.simulation:
                return [f"{_two(other, record)} had other public rows: the data were changed between them"]
    return []


def _two(first: RunRecord, second: RunRecord) -> str:
    return f"runs {plain(first.run_id, 24)} and {plain(second.run_id, 24)}"


def _rows_of(record: RunRecord, rows: str) -> dict[str, Any]:
    """Return what a record knows of its test rows, by whose they are: their number, and how many of each class."""
    found: dict[str, set[Any]] = {}
    for party in record.parties:
        for one in (party.solo, party.federated):
            if (m := one.get(rows)) is not None:
                found.setdefault(party.name if rows == "own" else "", set()).add((m.n, tuple(m.support)))
    return found


def _gaps(found: Comparison) -> list[Gap]:
    """Return the differences of each group to the first, for all models that both have.

    A warning is added to ``found`` where the parties of two groups are not the same.
    """
    base, *others = found.groups
    pairs = []
    for whose in _PAIRED:
        for group in others:
            values = _by_seed(found, whose, base, group)
            if values:
                pairs.append((whose, group, values))
    gaps = []
    for whose, group, values in pairs:
        both = [pair for seed in values for pair in _parties(found, base, group, seed)] if whose == "federated" else []
        one_seed = paired([b for _, b in both], [a for a, _ in both]) if len(values) == 1 and len(both) > 1 else None
        before, after = zip(*values.values(), strict=True)
        gaps.append(
            Gap(
                first=base.letter,
                second=group.letter,
                whose=whose,
                seeds=list(values),
                difference=paired(after, before, comparisons=len(pairs)),
                parties=one_seed,
                better=sum(b > a for a, b in both),
                worse=sum(b < a for a, b in both),
                compared=len(both),
            )
        )
    found.warnings += [told for group in others if (told := _missing(found, base, group))]
    return gaps


def _by_seed(found: Comparison, whose: str, base: Group, group: Group) -> dict[int, tuple[float, float]]:
    """Return by seed what both groups reach: of parties, the mean over those that have a figure in both."""
    of = found.value(whose)
    before, after = base.by_seed(of), group.by_seed(of)
    means = {seed: (before[seed], after[seed]) for seed in sorted(before.keys() & after.keys())}
    if whose != "federated" or not _same_parties(base, group):
        return means
    shared = {seed: _parties(found, base, group, seed) for seed in means}
    return {
        seed: (statistics.fmean(a for a, _ in both), statistics.fmean(b for _, b in both))
        for seed, both in shared.items()
        if both
    }


def _same_parties(base: Group, group: Group) -> bool:
    """Tell whether a party's name means the same party in both: not in simulations of so many and so many parties."""
    one, other = (found.records[0] for found in (base, group))
    return not one.simulation or one.config.get("num-parties") == other.config.get("num-parties")


def _missing(found: Comparison, base: Group, group: Group) -> str:
    """Return a warning that names the parties of which one side alone has figures; "" if there is none."""
    if not _same_parties(base, group):
        return ""
    told = []
    for seed in sorted({*base.seeds} & {*group.seeds}):
        before, after = _figures(found, base, seed).keys(), _figures(found, group, seed).keys()
        for side, names in ((base, after - before), (group, before - after)):
            if names:
                shown = ", ".join(plain(name, 24) for name in sorted(names)[:_NAMED])
                more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
                told.append(f"{side.letter} lacks {shown}{more} (seed {seed})")
    if not told:
        return ""
    rest = f", and so on for {len(told) - _NAMED} more" if len(told) > _NAMED else ""
    return (
        f"{base.letter} and {group.letter} do not have the same parties: {'; '.join(told[:_NAMED])}{rest}. Their "
        "difference is over the parties that both have; the means of each group are over all that it has."
    )


def _figures(found: Comparison, group: Group, seed: int) -> dict[str, float]:
    """Return the figure of each party with the federation, for one seed; of several runs of it, their mean."""
    values: dict[str, list[float]] = {}
    for record in group.records:
        for party in record.parties if record.seed == seed else []:
            if (value := derived.known(party.federated, found.rows, found.figure)) is not None:
                values.setdefault(party.name, []).append(value)
    return {name: statistics.fmean(ones) for name, ones in values.items()}


def _parties(found: Comparison, base: Group, group: Group, seed: int) -> list[tuple[float, float]]:
    """Return the figures of each party that both groups have, for one seed."""
    before, after = _figures(found, base, seed), _figures(found, group, seed)
    return [(before[name], after[name]) for name in sorted(before.keys() & after.keys())]


def _kilobytes(record: RunRecord) -> float | None:
    sent = [one.bytes_up / len(one.answered) for one in record.rounds if one.answered]
    return sum(sent) / 1000 if any(sent) else None


def _epsilon(record: RunRecord) -> float | None:
    claim = claim_of(record)
    return float(claim["epsilon"]) if claim else None


def _plain_pairs(found: Paired) -> Mapping[str, float | int | None]:
    return {
        "difference": found.mean,
        "standard_error": found.error if found.known else None,
        "half_interval": found.half if found.known else None,
        "n": found.n,
    }

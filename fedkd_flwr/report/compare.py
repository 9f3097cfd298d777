"""Runs compared: which settings differ, what each run reached, and which differences are more than noise.

Runs that differ only in their seed are one group. Groups are compared seed by seed: runs of one seed share their
parties and their test rows, so that what the seed does to both of them cancels out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any

import pandas as pd

from fedkd_flwr.errors import DataError, explain
from fedkd_flwr.privacy.rounding import bound_text
from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.report import results
from fedkd_flwr.report.claims import claim_of
from fedkd_flwr.report.formatting import columns, count, is_number, plain
from fedkd_flwr.report.paired import LEVEL, Paired, paired
from fedkd_flwr.report.status import data_name

__all__ = ["Comparison", "compare"]

_WHOSE = {
    "alone": "each party alone",
    "federated": "parties with the federation",
    "server": "the server's model",
    "centralised": "one model trained on all rows",
}
_NUMBERS = _WHOSE | {"kilobytes_up": "KB sent by a party, whole run", "rounds": "rounds", "seconds": "seconds"}
_NUMBERS |= {"epsilon": "epsilon (publishable claim), largest of the runs"}

# settings that do not change what a run finds
_IDLE = {"seed", "name", "output-dir", "data-root", "resume-from", "save-party-models", "tracking", "round-timeout-s"}
_IDLE |= {"nodes-stable-s", "node-deadline-s"}
# settings that choose the data with the test rows, and those that choose the public rows
_DATA = ("dataset", "table", "label", "schema-path", "num-test", "test-table")
_PUBLIC = ("num-test", "num-public", "num-private", "paper.public-label-column", "public-rows", "draw-public-epsilon")


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Runs beside each other.

    ``table`` has a row for each group and number that all its runs have: ``group``, ``whose``, ``mean`` (of epsilons
    the largest: a mean would be below some run's claim) and ``deviation``. Rows of later groups have the ``difference``
    to the first one, half its interval (``plus_minus``), over how many ``seeds`` it is, and a ``verdict`` on noise.
    """

    groups: dict[str, list[RunRecord]]  # the runs of each group, by its letter: A for that of the first run
    differs: list[str]  # the settings that differ between groups
    figure: str
    rows: str  # on which test rows (`fedkd_flwr.report.results`)
    table: pd.DataFrame
    warnings: list[str]  # what could not be paired

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison as plain JSON types."""
        groups = {letter: [record.run_id for record in records] for letter, records in self.groups.items()}
        known = {key: getattr(self, key) for key in ("figure", "rows", "differs", "warnings")}
        return {**known, "groups": groups, "numbers": self.frame().to_dict("records"), "level": LEVEL}

    def frame(self) -> pd.DataFrame:
        """Return the table with each group's settings, as `fedkd_flwr.compare` does."""
        first = [self.groups[letter][0] for letter in self.table.group]
        settings = pd.DataFrame({key: [_setting(record, key) for record in first] for key in self.differs})
        table = pd.concat([self.table.group, settings, self.table.drop(columns="group")], axis=1)
        table.attrs["text"] = self.text()
        return table

    def text(self) -> str:
        """Return the comparison as text, without a line break at the end."""
        head = ["", f"{self.figure.replace('_', ' ')} on {results.ROWS[self.rows]}", "", "beside A", "seeds", ""]
        of = {key: i for i, key in enumerate(_NUMBERS)}
        rows = [_cells(row) for row in sorted(self.table.itertuples(), key=lambda row: of[str(row.whose)])]
        parts = [
            [f"WARNING: {warning}" for warning in self.warnings],
            [f"{letter}  {self._title(records)}" for letter, records in self.groups.items()],
            columns([head, *rows]),
            [_EXPLAINED] if self.table.verdict.notna().any() else [],
        ]
        return "\n\n".join("\n".join(lines) for lines in parts if lines)

    def _title(self, records: Sequence[RunRecord]) -> str:
        """Return what a group is: its settings that differ, its runs and its seeds."""
        seeds = ", ".join(dict.fromkeys(str(record.seed) for record in records))
        names = [*dict.fromkeys(plain(record.config.get("name") or record.run_id, 24) for record in records)]
        ids = ", ".join(names[:3]) + (" ..." if names[3:] else "")
        words = [f"{plain(key)}={plain(_setting(records[0], key), 30)}" for key in self.differs]
        return f"{' '.join([*words, count(len(records), 'run')])}, seed {seeds} ({ids})"


_EXPLAINED = f"""Means over runs ± their standard deviation. Differences are paired by seed; ± is a {LEVEL:.0%} interval
(Student's t) for all of them together. More seeds tell a difference from noise: --seeds 5"""


def _cells(row: Any) -> list[str]:
    digits = 3 if row.whose in _WHOSE else 1
    mean = bound_text(row.mean) if row.whose == "epsilon" else f"{row.mean:,.{digits}f}"
    mean += f" ± {row.deviation:,.{digits}f}" if row.deviation > 0 and row.whose != "epsilon" else ""
    if row.verdict != row.verdict:  # none
        return [row.group, _NUMBERS[row.whose], mean, "", "", ""]
    width = f" ± {row.plus_minus:.3f}" if 0 < row.plus_minus < float("inf") else ""
    return [row.group, _NUMBERS[row.whose], mean, f"{row.difference:+.3f}{width}", f"{row.seeds:.0f}", row.verdict]


def compare(records: Sequence[RunRecord], *, figure: str = "") -> Comparison:
    """Compare runs by what their models reached on test rows.

    ``figure`` is a key of `fedkd_flwr.report.results.FIGURES`; by default R2 of numbers and grades, balanced accuracy
    where the classes of any run are imbalanced, else accuracy. The first run's group is what the others are compared
    with. Raises `DataError` if there are fewer than two runs, one of them has no test figures, or they were measured on
    other data or other test rows.
    """
    chosen = list({(record.run_id, record.started): record for record in records}.values())
    if len(chosen) < 2:
        raise DataError(explain("the comparison", "have two or more different runs", len(chosen)))
    if without := [f"{plain(one.run_id)} ({plain(one.status)})" for one in chosen if not results.figures(one)]:
        rule = "have figures of models on test rows"
        raise DataError(explain("each run", rule, f"none in {', '.join(without)}", "Leave it out."))
    rows = "common" if all(results.rows_used(record) == "common" for record in chosen) else "own"
    for problem in _problems(chosen, rows):
        raise DataError(f"These runs cannot be compared: {problem}. `fedkd runs list` lists what each reached.")
    used = {results.figure_used(record, rows) for record in chosen}
    leading = next((one for one in ("r2", "balanced_accuracy") if one in used), "accuracy")
    figure = figure or leading
    groups = _groups(chosen)
    values = pd.DataFrame(
        [
            (letter, record.seed, f"{record.started} {record.run_id}", *number)
            for letter, group in groups.items()
            for record in group
            for number in _numbers(record, rows, figure)
        ],
        columns=["group", "seed", "run", "whose", "party", "value"],
    )
    if not values.whose.isin(_WHOSE).any():
        known = ", ".join(key for key in results.FIGURES if any(key in one.means for one in results.figures(chosen[0])))
        raise DataError(explain("the figure", f"be one that the runs have: {known}", figure))
    gaps, warnings = _gaps(groups, values)
    rows_of = [
        {"group": letter, **_number(letter, whose, values, gaps)}
        for letter, records in groups.items()
        for whose in _NUMBERS
        if len(values[(values.group == letter) & (values.whose == whose)].run.unique()) == len(records)
    ]
    return Comparison(
        groups=groups,
        differs=_differing([group[0] for group in groups.values()]),
        figure=figure,
        rows=rows,
        table=pd.DataFrame(rows_of, columns=_COLUMNS),
        warnings=warnings,
    )


_COLUMNS = ["group", "whose", "mean", "deviation", "difference", "plus_minus", "seeds", "verdict"]


def _number(letter: str, whose: str, values: pd.DataFrame, gaps: dict[tuple[str, str], Paired]) -> dict[str, Any]:
    """Return a number of a group: over its runs, of parties the mean of each run, and its difference to the first."""
    runs = values[(values.group == letter) & (values.whose == whose)].groupby("run").value.mean()
    row = {"whose": whose, "mean": runs.max() if whose == "epsilon" else runs.mean(), "deviation": runs.std()}
    if (gap := gaps.get((whose, letter))) is not None:
        row |= {"difference": gap.mean, "plus_minus": gap.half, "seeds": gap.n, "verdict": gap.verdict("seed")}
    return row


def _groups(records: Sequence[RunRecord]) -> dict[str, list[RunRecord]]:
    """Return the runs by their settings, each group with a letter: A to Z, then A2 and so on."""
    groups: dict[str, list[RunRecord]] = {}
    for record in records:
        keys = sorted({"algorithm", "num-parties", *record.config} - _IDLE)
        groups.setdefault(repr([(key, _setting(record, key)) for key in keys]), []).append(record)
    letters = (letter + number for number in ("", *map(str, range(2, 1000))) for letter in ascii_uppercase)
    in_order = (sorted(group, key=lambda one: (one.seed, one.started, one.run_id)) for group in groups.values())
    return dict(zip(letters, in_order, strict=False))


def _setting(record: RunRecord, key: str) -> Any:
    """Return a setting, or what became of it: num-parties may be 0, for as many as there are."""
    if key == "public-rows" and record.config.get("draw-public-epsilon"):
        return ""  # each run drew its own
    facts = {"algorithm": record.algorithm, "num-parties": len(record.parties)}
    return facts[key] if key in facts else record.config.get(key)


def _differing(records: Sequence[RunRecord]) -> list[str]:
    """Return the settings that differ; not those that one algorithm lacks and the others leave at their defaults."""
    found = []
    for key in dict.fromkeys(["algorithm", "num-parties", *(key for record in records for key in record.config)]):
        chosen = any(key in r.config and (r.changed is None or key in r.changed) for r in records)
        shared = key in ("algorithm", "num-parties") or all(key in record.config for record in records)
        if key not in _IDLE and (shared or chosen) and len({repr(_setting(record, key)) for record in records}) > 1:
            found.append(key)
    return found


def _numbers(record: RunRecord, rows: str, figure: str) -> Iterator[tuple[str, str, float]]:
    """Yield the numbers of a run: (kind, party or "", value)."""
    measured = [("alone", p.name, p.solo) for p in record.parties]
    measured += [("federated", p.name, p.federated) for p in record.parties]
    measured += [("server", "", record.server), ("centralised", "", record.centralised)]
    for whose, name, metrics in measured:
        if (value := results.known(metrics, rows, figure)) is not None:
            yield whose, name, value
    yield "rounds", "", float(len(record.rounds))
    if sent := sum(one.bytes_up / len(one.answered) for one in record.rounds if one.answered):
        yield "kilobytes_up", "", sent / 1000
    if record.seconds and is_number(record.seconds):
        yield "seconds", "", record.seconds
    if claim := claim_of(record):
        yield "epsilon", "", float(claim["epsilon"])


def _problems(records: Sequence[RunRecord], rows: str) -> Iterator[str]:
    """Yield why runs cannot be compared: other data, or other test rows."""
    first, mine = records[0], _facts(records[0])
    by_seed: dict[int, RunRecord] = {}
    for record in records:
        for key, value in _facts(record).items():
            if value != mine[key]:
                yield f"{_two(first, record)} differ in {key}: {plain(mine[key], 60)} and {plain(value, 60)}"
        other = by_seed.setdefault(record.seed if record.simulation else 0, record)
        if other.seed == record.seed and _test_rows(other, rows) != _test_rows(record, rows):
            yield f"{_two(other, record)} have seed {record.seed}, and yet other test rows"
        if other.fingerprint != record.fingerprint:  # in a simulation, seed and settings choose the public rows
            same = all(other.config.get(key) == record.config.get(key) for key in _PUBLIC)
            if same or not record.simulation:
                yield f"{_two(other, record)} had other public rows: the data were changed between them"


def _facts(record: RunRecord) -> dict[str, Any]:
    """Return what all runs that are compared must have in common."""
    return {
        "whether they are simulations": record.simulation,
        "whether they were audited, so that models learnt half of the rows": record.audit is not None,
        "the data set": data_name(record.config),
        "the classes": record.classes,
        **{key: _setting(record, key) for key in _DATA},
    }


def _two(first: RunRecord, second: RunRecord) -> str:
    return f"runs {plain(first.run_id, 24)} and {plain(second.run_id, 24)}"


def _test_rows(record: RunRecord, rows: str) -> set[Any]:
    """Return what a record knows of its test rows: whose they are, their number, and how many of each class."""
    measured = [(p.name, one.get(rows)) for p in record.parties for one in (p.solo, p.federated)]
    return {(name if rows == "own" else "", m.n, tuple(m.support)) for name, m in measured if m is not None}


def _gaps(groups: dict[str, list[RunRecord]], values: pd.DataFrame) -> tuple[dict[tuple[str, str], Paired], list[str]]:
    """Return by how much each group is above the first, seed by seed, over the parties that both have; and warnings."""
    base, *others = groups
    both: dict[tuple[str, str], pd.DataFrame] = {}
    warnings: list[str] = []
    for whose in ("federated", "server"):
        mine = values[values.whose == whose]
        means = mine.groupby(["group", "seed", "party"]).value.mean().unstack("group").reindex(columns=[*groups])
        for group in others:
            one, other = (groups[letter][0] for letter in (base, group))
            two = means[[base, group]].groupby("seed").filter(lambda seed: bool(seed.notna().any().all()))
            # in simulations of other numbers of parties, a name is another party's
            if not one.simulation or one.config.get("num-parties") == other.config.get("num-parties"):
                if lost := sorted({plain(party, 24) for _, party in two.index[two.isna().any(axis=1)]}):
                    who = f"{len(lost)} parties" if len(lost) > 4 else ", ".join(lost)
                    text = f"{base} and {group} do not have the same parties: one of them lacks {who}. Their difference"
                    warnings.append(f"{text} is over the parties that both have, the means over all.")
                two = two.dropna()
            by_seed = two.groupby("seed").mean().dropna()
            if len(by_seed):
                both[whose, group] = by_seed
    if others and not both:
        warnings.append("Nothing can be paired: the groups have no seed in common, or no party in it.")
    gaps = {
        (whose, group): paired(list(one[group]), list(one[base]), comparisons=len(both))
        for (whose, group), one in both.items()
    }
    return gaps, warnings

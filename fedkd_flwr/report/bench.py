"""A benchmark table from the records of its runs: means, deviations and the paper's figures, as Markdown and JSON."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fedkd_flwr.record.run_record import RunRecord
from fedkd_flwr.report.formatting import count
from fedkd_flwr.report.paired import paired

__all__ = ["BenchTable", "Line", "figure_of", "lines_of"]

_NO_SHARES = ("up-kb", "down-kb", "seconds")
_KINDS = ("solo", "federated", "server", "centralised")


def figure_of(record: RunRecord, name: str) -> float | None:
    """Return a figure of a run, None if the record does not have it.

    Parameters
    ----------
    record : RunRecord
        The run.
    name : str
        ``solo``, ``federated``, ``server`` or ``centralised``: accuracy on common test rows, of the first two the mean
        over parties (``solo-own``: on their own rows; ``balanced-solo``: balanced accuracy; ``server@5``,
        ``federated@5``: after round 5); ``consensus``: share of the last round's labels of public rows that are right,
        which says nothing of rows without a label; ``up-kb``, ``down-kb``: what a party that was asked sent and
        received in the rounds, in kilobytes (the final result, which goes down once, is not in it); ``seconds``;
        ``auc``: of the membership attack.

    Raises
    ------
    ValueError
        If there is no such figure.
    """
    kind, _, after = name.partition("@")
    if after:
        rounds = [one for one in record.rounds if one.server_round == int(after)]
        if kind == "server":
            return rounds[0].server_accuracy if rounds else None
        if kind == "federated":
            return _mean(rounds[0].accuracy.values()) if rounds else None
    if name in _OTHER:
        return _OTHER[name](record)
    figure = "balanced_accuracy" if name.startswith("balanced-") else "accuracy"
    kind, _, own = name.removeprefix("balanced-").partition("-")
    if after or kind not in _KINDS or own not in ("", "own"):
        raise ValueError(f"no figure {name!r}")
    rows = own or "common"
    if kind in ("solo", "federated"):
        return record.mean_accuracies(figure).get(f"{kind}-{rows}")
    metrics = (record.server if kind == "server" else record.centralised).get(rows)
    return getattr(metrics, figure, None)


def _mean(values: Any) -> float | None:
    known = list(values)
    return statistics.fmean(known) if known else None


def _kilobytes(way: str) -> Callable[[RunRecord], float]:
    return lambda record: sum(getattr(r, f"bytes_{way}") / max(r.asked, 1) for r in record.rounds) / 1e3


_OTHER: dict[str, Callable[[RunRecord], float | None]] = {
    "consensus": lambda record: record.rounds[-1].consensus_accuracy if record.rounds else None,
    "up-kb": _kilobytes("up"),
    "down-kb": _kilobytes("down"),
    "seconds": lambda record: record.seconds,
    "auc": lambda record: record.audit.everybody.auc.value if record.audit else None,
}


@dataclass(frozen=True, kw_only=True)
class Line:
    """One figure of one row, over seeds.

    Attributes
    ----------
    values : dict of int to float
        By seed; a run that does not have the figure is left out.
    printed, deviation : float, optional
        What the paper prints: the value, and its standard deviation over ``trials`` trials.
    """

    row: str
    figure: str
    values: dict[int, float]
    printed: float | None = None
    deviation: float | None = None
    trials: int = 0

    @property
    def n(self) -> int:
        """How many runs gave the figure."""
        return len(self.values)

    @property
    def mean(self) -> float | None:
        """The mean over runs, None without a run."""
        return statistics.fmean(self.values.values()) if self.values else None

    @property
    def spread(self) -> float | None:
        """The standard deviation over runs, None with fewer than two."""
        return statistics.stdev(self.values.values()) if self.n > 1 else None

    @property
    def difference(self) -> float | None:
        """By how much the mean is above what is printed."""
        return None if self.mean is None or self.printed is None else self.mean - self.printed

    @property
    def error(self) -> float | None:
        """The standard error of the difference; what the paper's trials add is in it only where it prints a deviation.

        >>> line = Line(row="", figure="solo", values={1: 0.5, 2: 0.7}, printed=0.6, deviation=0.1, trials=4)
        >>> f"{line.error:.4f}"
        '0.1118'
        """
        if self.difference is None or self.spread is None:
            return None
        theirs = self.deviation**2 / self.trials if self.deviation is not None and self.trials else 0.0
        return math.sqrt(self.spread**2 / self.n + theirs)

    @property
    def verdict(self) -> str:
        """How the mean compares with what is printed, in words; "" where that cannot be said.

        A mean may be within one deviation of single runs and yet, over many of them, below the print by more than two
        standard errors: then that is said.
        """
        if self.difference is None:
            return ""
        if self.spread is None:
            return "one run"
        gain = -self.difference if _less_is_better(self.figure) else self.difference
        if gain >= 0 or gain < -self.spread:
            return "as good or better" if gain >= 0 else "worse"
        clear = self.error is not None and gain < -2 * self.error
        return "short of the print, within one deviation" if clear else "within one deviation"

    def as_dict(self) -> dict[str, Any]:
        """Return the line as plain JSON types."""
        known = ("row", "figure", "n", "mean", "spread", "printed", "deviation", "difference", "error", "verdict")
        return {key: getattr(self, key) for key in known} | {"by seed": {str(k): v for k, v in self.values.items()}}


def _less_is_better(figure: str) -> bool:
    return figure in ("auc", *_NO_SHARES)


@dataclass(frozen=True, kw_only=True)
class BenchTable:
    """The results of a table.

    Attributes
    ----------
    name, title, source, note : str
        The table's own, and with what it is compared.
    lines : list of Line
        In the order of its rows.
    against : list of tuple
        (row, other row): pairs that are compared seed by seed, by the figure that both show first.
    notes : dict
        What a reader of a row must know, by row.
    seeds : list of int
        Those that were asked for.
    missing : dict
        Why a run is missing, by ``row, seed``; by ``row`` where no seed of it was run.
    runs : dict
        The key of each run (`fedkd_flwr.app.bench_tables.Job.key`), by row and seed.
    taken : dict
        Seeds whose figures are from the table as it was published before, by row.
    made : dict
        What made it: the command, versions, cores.
    """

    name: str
    title: str
    source: str
    lines: list[Line]
    note: str = ""
    against: list[tuple[str, str]] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)
    seeds: list[int] = field(default_factory=list)
    seeds_note: str = ""
    missing: dict[str, str] = field(default_factory=dict)
    runs: dict[str, dict[int, str]] = field(default_factory=dict)
    taken: dict[str, list[int]] = field(default_factory=dict)
    made: dict[str, Any] = field(default_factory=dict)

    def compared(self) -> list[str]:
        """Return a sentence for each pair of rows: the difference, and whether it is more than noise."""
        said = []
        for row, other in self.against:
            mine = {line.figure: line for line in self.lines if line.row == row}
            theirs = {line.figure: line for line in self.lines if line.row == other}
            figure = next((figure for figure in mine if figure in theirs), "")
            seeds = [seed for seed in mine[figure].values if seed in theirs[figure].values] if figure else []
            if not seeds:
                continue
            gap = paired(
                [mine[figure].values[seed] for seed in seeds],
                [theirs[figure].values[seed] for seed in seeds],
                comparisons=len(self.against),
            )
            width = f" ± {gap.half:.4f} (standard error {gap.error:.4f})" if gap.known or gap.same else ""
            verdict = f": {gap.verdict()}" if gap.n > 1 else " in one pair"
            said.append(f"{row} − {other}, {figure}: {gap.mean:+.4f}{width}{verdict}, n = {gap.n}")
        return said

    def as_dict(self) -> dict[str, Any]:
        """Return the results as plain JSON types."""
        return {
            **{key: getattr(self, key) for key in ("name", "title", "source", "note", "seeds", "seeds_note", "made")},
            "lines": [line.as_dict() for line in self.lines],
            "compared": self.compared(),
            "notes": self.notes,
            "missing": self.missing,
            "taken": self.taken,
            "runs": {row: {str(seed): key for seed, key in seeds.items()} for row, seeds in self.runs.items()},
        }

    def to_json(self) -> str:
        """Return `as_dict` as indented JSON."""
        return json.dumps(self.as_dict(), indent=1, allow_nan=False) + "\n"

    def table(self) -> str:
        """Return the figures as a Markdown table whose columns stand below each other in plain text, too."""
        header = ["row", "figure", "n", "mean", "sd", "printed", "difference", "its s.e.", ""]
        rows, before = [], ""
        for line in self.lines:
            printed = _number(line.printed, line.figure)
            if line.deviation is not None:
                printed += f" ± {line.deviation:g}"
            cells = [_number(value, line.figure) for value in (line.mean, line.spread, line.difference, line.error)]
            mean, spread, difference, error = cells
            if line.difference is not None and line.difference >= 0:
                difference = f"+{difference}"
            name = "" if line.row == before else line.row
            rows.append([name, line.figure, str(line.n), mean, spread, printed, difference, error, line.verdict])
            before = line.row
        widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
        rule = [("-" * width + ":" if 1 < i < len(header) - 1 else "-" * (width + 1)) for i, width in enumerate(widths)]
        lines = [
            "| " + " | ".join(row[i].ljust(w) if i < 2 else row[i].rjust(w) for i, w in enumerate(widths)) + " |"
            for row in [header, *rows]
        ]
        return "\n".join([lines[0], "|" + "|".join(f"-{cell}" for cell in rule) + "|", *lines[1:]])

    def _missing_lines(self) -> Iterator[str]:
        """Yield a line for each reason and set of seeds, with the rows that lack them."""
        seeds: dict[tuple[str, str], list[str]] = {}
        for what, why in self.missing.items():
            row, _, seed = what.rpartition(", seed ")
            seeds.setdefault((row or seed, why), []).extend([seed] if row else [])
        rows: dict[tuple[tuple[str, ...], str], list[str]] = {}
        for (row, why), found in seeds.items():
            rows.setdefault((tuple(found), why), []).append(row)
        for (lacking, why), names in rows.items():
            which = f"seed{'s' * (len(lacking) > 1)} {', '.join(lacking)} of " if lacking else ""
            yield f"{which}{'; '.join(names)}: {why}"

    def markdown(self, *, picture: str = "", level: int = 1) -> str:
        """Return the whole page as Markdown; ``picture`` is the name of a file beside it."""
        parts = [f"{'#' * level} {self.title}", f"Compared with: {self.source}.", self.note, self.table()]
        parts += ["\n".join(f"- {text}" for text in self.compared())]
        parts += ["\n".join(f"- {row}: {text}" for row, text in self.notes.items())]
        parts += ["\n".join(f"- **missing**: {line}" for line in self._missing_lines())]
        grouped: dict[str, list[str]] = {}
        for row, seeds in self.taken.items():
            grouped.setdefault(", ".join(map(str, seeds)), []).append(row)
        before = "run before, with the code of that time"
        parts += ["\n".join(f"- {before}: seeds {seeds} of {'; '.join(rows)}" for seeds, rows in grouped.items())]
        parts += [f"![{self.title}]({picture})" if picture else "", self.seeds_note]
        made = self.made
        if made:
            parts.append(f"Made by `{made['command']}` with {made['versions']}, on {count(made['cores'], 'core')}.")
        return "\n\n".join(part for part in parts if part) + "\n"


def _number(value: float | None, figure: str) -> str:
    if value is None:
        return "–"
    if figure in _NO_SHARES:
        return f"{value:,.2f}" if abs(value) < 10 else f"{value:,.1f}"
    return f"{value:.4f}"


def lines_of(
    row: str,
    figures: Sequence[str],
    records: Mapping[int, RunRecord],
    printed: Mapping[str, float],
    deviations: Mapping[str, float],
    trials: int,
    *,
    taken: Mapping[int, Mapping[str, float | None]] | None = None,
) -> list[Line]:
    """Return the lines of a row, from its records by seed, and from figures by seed where there is no record."""
    others = taken or {}
    return [
        Line(
            row=row,
            figure=figure,
            values=dict(
                sorted(
                    (seed, value)
                    for seed in {*records, *others}
                    if (value := figure_of(records[seed], figure) if seed in records else others[seed].get(figure))
                    is not None
                )
            ),
            printed=printed.get(figure),
            deviation=deviations.get(figure),
            trials=trials,
        )
        for figure in figures
    ]

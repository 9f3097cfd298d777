"""Benchmark tables as data: their rows, and the runs that they consist of.

A table is a TOML file in ``benchmarks/tables/``, whose rows name run configs of ``simulations/``. Each run is named by
its settings and its seed, so that tables that need the same run share it.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fedkd_flwr.errors import ConfigError, explain

__all__ = ["FRESH", "ROOT", "Job", "Row", "Table", "load_tables", "needs", "plan", "seeds_note"]

FRESH = 1001
"""Seeds from here on chose nothing, but what a table names (`Table.exception`): settings, rules and their constants
were chosen on smaller ones."""

ROOT = Path(__file__).parents[2]
_QUICK_SEEDS = 2
_HERE = ("data-root", "paper.partition-path")  # where files lie is not what a run computes
_EMBEDDED = ("digits", "breast-cancer", "wine", "synthetic")
_EXTRAS = (("torch", r"mlp|cnn|resnet"), ("xgboost", "xgboost"), ("rulefit", "rulefit"), ("text", "transformer"))


class _Strict(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=lambda name: name.replace("_", "-"), populate_by_name=True
    )


class Row(_Strict):
    """One row of a table: what is run, and what the paper prints for it.

    Attributes
    ----------
    run : str
        A file of ``simulations/``, without ``.toml``; "" where ``set`` says all.
    set : dict
        Settings that differ from the file, by dotted key.
    vary : dict
        Settings that take the next value with each seed, and start anew after the last one.
    figures : list of str
        What is shown (`benchmarks.harness.results.figure_of`); besides these, all that is printed.
    printed, deviations : dict
        Figure -> what the paper prints, and its standard deviation over ``trials`` trials where it prints one.
    against : str
        Another row of the table, which is compared with this one seed by seed.
    seeds : int
        How many seeds it asks for; 0: as many as the table.
    minutes : float
        About how long one seed takes on 2 cores.
    quick : bool
        Whether ``--quick`` runs it.
    shadows : int
        Shadow runs of a membership audit; 0: the run is not attacked.
    """

    name: str
    run: str = ""
    set: dict[str, Any] = {}
    vary: dict[str, list[Any]] = {}
    figures: list[str] = []
    printed: dict[str, float] = {}
    deviations: dict[str, float] = {}
    trials: int = Field(0, ge=0)
    against: str = ""
    seeds: int = Field(0, ge=0)
    minutes: float = Field(gt=0)
    quick: bool = False
    shadows: int = Field(0, ge=0)
    note: str = ""


class Table(_Strict):
    """A benchmark table: its title, what it is compared with, and its rows; ``name`` is that of its file.

    ``exception`` says what was chosen after a look at its seeds, although they are fresh ones; "" nothing was.
    """

    name: str
    title: str
    source: str
    figures: list[str]
    seeds: int = Field(5, ge=1)
    note: str = ""
    exception: str = ""
    row: list[Row] = Field(min_length=1)

    @property
    def seeds_asked(self) -> str:
        """How many seeds its rows ask for, in words.

        >>> rows = [Row(name="a", minutes=1), Row(name="b", minutes=20, seeds=3)]
        >>> Table(name="x", title="", source="", figures=[], row=rows).seeds_asked
        '3 to 5'
        """
        asked = sorted({row.seeds or self.seeds for row in self.row})
        return str(asked[0]) if len(asked) == 1 else f"{asked[0]} to {asked[-1]}"

    def shown(self, row: Row) -> list[str]:
        """Return the figures of a row, in the order of the table."""
        return list(dict.fromkeys([*(row.figures or self.figures), *row.printed]))


@dataclass(frozen=True, kw_only=True)
class Job:
    """One run: a row of a table with one seed."""

    row: Row
    seed: int
    settings: dict[str, Any]
    figures: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The name of the file that keeps the run's record: equal for equal settings and seed, wherever files lie."""
        said = {key: value for key, value in self.settings.items() if key not in _HERE}
        text = json.dumps([said, self.row.shadows], sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:10]
        return f"{self.row.run or self.settings.get('algorithm', 'run')}-{digest}-{self.seed}"


def load_tables(names: Sequence[str], root: Path) -> list[Table]:
    """Return the named tables, or all of them.

    Raises
    ------
    ConfigError
        If a table is not known, or not written as it should be.
    """
    files = {path.stem: path for path in sorted((root / "benchmarks" / "tables").glob("*.toml"))}
    for name in names:
        if name not in files:
            way_out = "`python -m benchmarks.harness --list` says what each table is, and what it needs."
            raise ConfigError(explain("table", f"be one of {', '.join(files)}", name, way_out))
    return [_load(files[name]) for name in (names or files)]


def _load(path: Path) -> Table:
    try:
        table = Table(name=path.stem, **tomllib.loads(path.read_text(encoding="utf-8")))
    except (tomllib.TOMLDecodeError, ValidationError) as error:
        seen = str(error).replace("\n", " ")
        raise ConfigError(explain(f"table {path}", "be written as docs/evidence/results.md says", seen)) from error
    known = {row.name for row in table.row}
    if len(known) < len(table.row) or any(row.against and row.against not in known for row in table.row):
        raise ConfigError(explain(f"table {path}", "have rows of different names, and compare rows that it has", known))
    return table


def plan(
    table: Table, root: Path, *, seeds: int = 0, first_seed: int = 0, quick: bool = False, data_root: str = ""
) -> list[Job]:
    """Return the runs that a table consists of, row by row.

    Parameters
    ----------
    table : Table
        The table.
    root : Path
        The folder with ``simulations/``.
    seeds, first_seed : int
        How many seeds, and the first one; 0: as many as each row asks for, from `FRESH` on.
    quick : bool
        Only the rows marked as quick, with 2 seeds unless ``seeds`` is given.
    data_root : str
        Where the data sets lie; a file of partitions is looked for there, and in ``oracles`` beside it.

    Raises
    ------
    ConfigError
        If a run config of ``simulations/`` is missing.
    """
    first, asked = first_seed or FRESH, seeds or (_QUICK_SEEDS if quick else 0)
    jobs = []
    for row in table.row:
        if quick and not row.quick:
            continue
        config = _settings(row, root)
        folders = {"data-root": str(Path(data_root).expanduser().absolute())} if data_root and needs(row, root) else {}
        if str(config.get("partitioner")).partition("(")[0] == "file" and data_root:
            folders["paper.partition-path"] = _partitions(config["paper.partition-path"], Path(folders["data-root"]))
        for i in range(asked or row.seeds or table.seeds):
            varied = {key: values[i % len(values)] for key, values in row.vary.items()}
            settings = {**config, **folders, **varied, "seed": first + i}
            jobs.append(Job(row=row, seed=first + i, settings=settings, figures=tuple(table.shown(row))))
    return jobs


def _settings(row: Row, root: Path) -> dict[str, Any]:
    from fedkd_flwr.settings.run_settings import read_toml

    path = root / "simulations" / f"{row.run}.toml"
    if row.run and not path.is_file():
        raise ConfigError(explain(f"run of row {row.name!r}", "be a file of simulations/", str(path)))
    return {**(read_toml(path) if row.run else {}), **row.set}


def _partitions(name: str, data_root: Path) -> str:
    places = [data_root / name, data_root.parent / "oracles" / name]
    return str(next((place for place in places if place.is_file()), places[0]))


def needs(row: Row, root: Path) -> list[str]:
    """Return what a row needs besides the core: a data set's folder, and extras of this package.

    >>> row = Row(name="x", set={"dataset": "adult", "model": "mlp"}, minutes=1)
    >>> needs(row, Path())
    ['data: adult', 'extra: torch']
    """
    settings = _settings(row, root)
    dataset = settings.get("dataset", "digits").partition("(")[0]
    models = " ".join(str(value) for key, value in settings.items() if key == "model" or key.endswith("-model"))
    extras = [f"extra: {extra}" for extra, pattern in _EXTRAS if re.search(pattern, models)]
    return [*([] if dataset in _EMBEDDED else [f"data: {dataset}"]), *extras]


def seeds_note(seeds: Sequence[int], exception: str = "") -> str:
    """Return a sentence about which seeds were run, and whether any of them may have chosen a setting.

    Parameters
    ----------
    exception : str
        What was chosen on them all the same.

    Examples
    --------
    >>> seeds_note([1001, 1002])
    'Seeds 1001 to 1002. No setting, rule or constant was chosen on seeds from 1001 on.'
    >>> seeds_note([71]).partition(".")[0]
    'Seed 71'
    >>> seeds_note([1001, 1002], "one rule.").rpartition(", ")[2]
    'but for this: one rule.'
    """
    span = " to ".join(str(seed) for seed in dict.fromkeys((*seeds[:1], *seeds[-1:])))
    text = f"Seed{'s' * (len(seeds) > 1)} {span}." if seeds else "No seeds."
    if seeds and seeds[0] < FRESH:
        return f"{text} **Settings may have been chosen on seeds below {FRESH}**; the default seeds are fresh."
    said = f"{text} No setting, rule or constant was chosen on seeds from {FRESH} on"
    return f"{said}, but for this: {exception}" if exception else f"{said}."

"""Benchmark tables: which runs a table needs, and running those that are missing.

A table is data: a TOML file in ``benchmarks/tables/``, whose rows name run configs of ``simulations/``. Each finished
run is kept as its record, named by its settings and its seed, so that tables that need the same run share it and a
command that was stopped goes on with the next one. A published table names its runs in the same way, so that seeds can
be added to it where its records are gone. The tables lie in the repository and not in the installed package,
as the run configs do.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fedkd_flwr.errors import ConfigError, DataError, FedkdError, explain

__all__ = [
    "FRESH",
    "Bench",
    "Job",
    "Row",
    "Table",
    "load_tables",
    "needs",
    "plan",
    "published_runs",
    "seeds_note",
    "tables_folder",
    "write_results",
]

FRESH = 1001
"""Seeds from here on chose nothing, but what a table names (`Table.exception`): settings, rules and their constants
were chosen on smaller ones."""

_QUICK_SEEDS = 2
_HERE = ("data-root", "partition-path")  # where files lie is not what a run computes
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
        What is shown (`fedkd_flwr.report.bench.figure_of`); besides these, all that is printed.
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


def tables_folder(folder: str | Path = "") -> Path:
    """Return the repository's root that holds ``benchmarks/tables`` and ``simulations``.

    Parameters
    ----------
    folder : path
        A checkout; by default that of this package, or the current folder.

    Raises
    ------
    DataError
        If there are no tables.
    """
    places = [Path(folder).expanduser()] if folder else [Path(__file__).parents[2], Path.cwd()]
    for place in places:
        if (place / "benchmarks" / "tables").is_dir():
            return place
    way_out = "The tables are in the repository, not in the installed package: clone it, and in its folder run "
    way_out += "`fedkd bench --list`."
    raise DataError(explain("benchmark tables", "be in benchmarks/tables of the repository", str(places[-1]), way_out))


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
            way_out = "`fedkd bench --list` says what each table is, and what it needs."
            raise ConfigError(explain("table", f"be one of {', '.join(files)}", name, way_out))
    return [_load(files[name]) for name in (names or files)]


def _load(path: Path) -> Table:
    try:
        table = Table(name=path.stem, **tomllib.loads(path.read_text(encoding="utf-8")))
    except (tomllib.TOMLDecodeError, ValidationError) as error:
        seen = str(error).replace("\n", " ")
        raise ConfigError(explain(f"table {path}", "be written as docs/results.md says", seen)) from error
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
        if config.get("partitioner") == "file" and data_root:
            folders["partition-path"] = _partitions(config["partition-path"], Path(folders["data-root"]))
        for i in range(asked or row.seeds or table.seeds):
            varied = {key: values[i % len(values)] for key, values in row.vary.items()}
            settings = {**config, **folders, **varied, "seed": first + i}
            jobs.append(Job(row=row, seed=first + i, settings=settings, figures=tuple(table.shown(row))))
    return jobs


def _settings(row: Row, root: Path) -> dict[str, Any]:
    from fedkd_flwr.apps.run_settings import read_toml

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
    dataset = settings.get("dataset", "digits")
    models = " ".join(str(value) for key, value in settings.items() if key == "model" or key.endswith("-model"))
    extras = [f"extra: {extra}" for extra, pattern in _EXTRAS if re.search(pattern, models)]
    return [*([] if dataset in _EMBEDDED else [f"data: {dataset}"]), *extras]


def _show_under(head: str, show: Callable[[str], None], text: str) -> None:
    show(f"{head}: {text}")


def published_runs(folder: Path) -> dict[str, dict[str, float | None]]:
    """Return the figures of the runs that published tables hold: by the run's key, then by figure.

    Parameters
    ----------
    folder : Path
        Of files ``TABLE.json``, as `write_results` writes them.

    Raises
    ------
    DataError
        If there is none, or one of them is no such table.
    """
    found: dict[str, dict[str, float | None]] = {}
    rule, way_out = "hold published tables, TABLE.json", "In a clone they are in benchmarks/results/bench."
    files = sorted(folder.glob("*.json"))
    if not files:
        raise DataError(explain("--add-to", rule, str(folder), way_out))
    for path in files:
        try:
            table = json.loads(path.read_text(encoding="utf-8"))
            for line in table["lines"]:
                for seed, key in table.get("runs", {}).get(line["row"], {}).items():
                    found.setdefault(key, {})[line["figure"]] = line["by seed"].get(seed)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(explain("--add-to", rule, f"{path} with {error!r}", way_out)) from error
    return found


class Bench:
    """Runs what is missing, and keeps each finished run.

    Parameters
    ----------
    folder : Path
        Where results are kept: a record for each run in ``records``.
    processes : int
        Parties that compute at a time; 0: one for each core.
    published : mapping
        Figures of runs that have no record here, as `published_runs` returns them.
    """

    def __init__(
        self, folder: Path, *, processes: int = 0, published: Mapping[str, Mapping[str, float | None]] | None = None
    ) -> None:
        self.records = folder / "records"
        self.processes = processes
        self.published = published or {}
        self.failed: dict[str, str] = {}
        """The reason, by the key of each run that failed."""
        self.stopped = False

    def kept(self, job: Job) -> Path:
        """Return where a run's record is kept."""
        return self.records / f"{job.key}.json"

    def missing(self, jobs: Sequence[Job]) -> list[Job]:
        """Return the runs that have no record yet, each once."""
        first = {job.key: job for job in reversed(jobs)}
        return [job for job in jobs if first[job.key] is job and not self.has(job)]

    def taken(self, job: Job) -> Mapping[str, float | None] | None:
        """Return a run's figures from a published table; None where it has a record, or the table lacks a figure."""
        figures = self.published.get(job.key, {})
        return None if self.kept(job).is_file() or not figures or not figures.keys() >= {*job.figures} else figures

    def has(self, job: Job) -> bool:
        """Tell whether a run need not be run."""
        return self.kept(job).is_file() or self.taken(job) is not None

    def run(
        self, jobs: Sequence[Job], show: Callable[[str], None], *, may_stop: Callable[[], bool] = lambda: True
    ) -> None:
        """Run the missing runs, one after the other; each uses all processes.

        A run that fails is noted in `failed`, with all later seeds of its row, and the other rows go on.

        Parameters
        ----------
        jobs : sequence of Job
            Runs; those with a record are passed over.
        show : callable
            Gets a line that says how far the command is, whenever that changes.
        may_stop : callable
            Asked at a `KeyboardInterrupt`.
        """
        missing, clock = self.missing(jobs), _Clock()
        for number, job in enumerate(missing):
            left = clock.left(missing[number:])
            if any(other.row is job.row for other in missing[:number] if other.key in self.failed):
                self.failed[job.key] = "not run: an earlier seed of this row failed"
                continue
            head = f"run {number + 1} of {len(missing)} ({job.row.name}, seed {job.seed}), about {left} left"
            began = time.monotonic()
            try:
                reason = self._run(job, partial(_show_under, head, show), may_stop)
            except FedkdError as error:
                reason = str(error)
            if self.stopped:
                return
            if reason:
                self.failed[job.key] = reason
            else:
                clock.took(job.row, time.monotonic() - began)

    def _run(self, job: Job, show: Callable[[str], None], may_stop: Callable[[], bool]) -> str:
        """Run one federation and keep its record; return why it failed, or ""."""
        import tempfile

        from fedkd_flwr.files import make_folder, write_atomic

        make_folder(self.records)
        show("starting")
        with tempfile.TemporaryDirectory(prefix="fedkd-bench-") as folder:
            settings = {**job.settings, "output-dir": folder}
            if job.row.shadows:
                from fedkd_flwr.apps.audit import audit
                from fedkd_flwr.apps.config import parse_run_config
                from fedkd_flwr.apps.in_process import quiet

                try:
                    with quiet():
                        record = audit(parse_run_config(settings), shadows=job.row.shadows, progress=show)
                except KeyboardInterrupt:
                    self.stopped = True
                    return "stopped"
                text = record.to_json()
            else:
                ended = self._simulate(settings, show, may_stop)
                if ended.status != "completed":
                    return " ".join(ended.reason.split()) or ended.status
                text = Path(ended.record).read_text(encoding="utf-8")
        write_atomic(self.kept(job), text.replace(folder, "").encode())
        return ""

    def _simulate(self, settings: Mapping[str, Any], show: Callable[[str], None], may_stop: Callable[[], bool]) -> Any:
        from fedkd_flwr.apps.simulate import Simulation, jobs

        def agreed() -> bool:
            self.stopped = True  # also if a second Ctrl-C interrupts the question
            self.stopped = may_stop()
            return self.stopped

        simulation = Simulation()
        try:
            simulation.begin(jobs(settings), processes=self.processes)
            return simulation.watch(show, may_stop=agreed)[-1]
        finally:
            simulation.end()


class _Clock:
    """How long the runs that are left may take, from what runs took so far."""

    def __init__(self) -> None:
        self.taken: dict[str, list[float]] = {}
        self.expected, self.spent = 0.0, 0.0

    def took(self, row: Row, seconds: float) -> None:
        self.taken.setdefault(row.name, []).append(seconds)
        self.expected += 60 * row.minutes
        self.spent += seconds

    def left(self, jobs: Sequence[Job]) -> str:
        """Return a time as people say it: a row's own mean where it has run, else what it declares, at this speed.

        >>> clock = _Clock()
        >>> job = Job(row=Row(name="x", minutes=2), seed=1, settings={})
        >>> clock.left([job, job])
        '4 min'
        >>> clock.took(job.row, 30.0)
        >>> clock.left([job, job])
        '60 s'
        """
        from fedkd_flwr.apps.progress import duration

        speed = self.spent / self.expected if self.expected else 1.0
        seconds = 0.0
        for job in jobs:
            taken = self.taken.get(job.row.name)
            seconds += sum(taken) / len(taken) if taken else 60 * job.row.minutes * speed
        return duration(seconds)


def write_results(table: Table, jobs: Sequence[Job], bench: Bench, folder: Path, *, command: str = "") -> Any:
    """Write a table as Markdown, JSON and a picture, from the runs that are kept; return it.

    Parameters
    ----------
    table : Table
        The table.
    jobs : sequence of Job
        Its runs, as `plan` made them.
    bench : Bench
        What ran them.
    folder : Path
        Where to write.
    command : str
        The command that made it, to be written down.

    Returns
    -------
    BenchTable
        The results (`fedkd_flwr.report.bench`).
    """
    from fedkd_flwr.apps.party_processes import cores
    from fedkd_flwr.errors import MissingExtraError
    from fedkd_flwr.files import make_folder, write_atomic
    from fedkd_flwr.report.bench import BenchTable, lines_of
    from fedkd_flwr.report.bench_plot import draw_bench
    from fedkd_flwr.run_record import RunRecord

    rows = {job.row.name: job.row for job in jobs}
    records: dict[str, dict[int, RunRecord]] = {name: {} for name in rows}
    taken: dict[str, dict[int, Mapping[str, float | None]]] = {name: {} for name in rows}
    runs: dict[str, dict[int, str]] = {name: {} for name in rows}
    missing, versions = {}, set()
    for job in jobs:
        if bench.has(job):
            runs[job.row.name][job.seed] = job.key
        path = bench.kept(job)
        if path.is_file():
            record = records[job.row.name][job.seed] = RunRecord.load(path)
            versions.add(record.versions.get("fedkd-flwr", "?"))
        elif (figures := bench.taken(job)) is not None:
            taken[job.row.name][job.seed] = figures
        else:
            missing[f"{job.row.name}, seed {job.seed}"] = bench.failed.get(job.key, "not run yet")
    missing |= {row.name: "not run yet" for row in table.row if row.name not in rows}
    seeds = sorted({job.seed for job in jobs})
    found = BenchTable(
        name=table.name,
        title=table.title,
        source=table.source,
        note=table.note,
        lines=[
            line
            for name, row in rows.items()
            for line in lines_of(
                name, table.shown(row), records[name], row.printed, row.deviations, row.trials, taken=taken[name]
            )
        ],
        runs=runs,
        taken={name: sorted(seeds) for name, seeds in taken.items() if seeds},
        against=[(row.name, row.against) for row in rows.values() if row.against in rows],
        notes={row.name: row.note for row in rows.values() if row.note},
        seeds=seeds,
        seeds_note=seeds_note(seeds, table.exception),
        missing=missing,
        made={
            "command": command,
            "versions": "fedkd-flwr " + ", ".join(sorted(versions)) if versions else "no new run",
            "cores": cores(),
        },
    )
    make_folder(folder)
    picture = folder / f"{table.name}.svg"
    try:
        drawn = draw_bench(found, picture)
    except MissingExtraError:
        drawn = False
    write_atomic(folder / f"{table.name}.json", found.to_json().encode())
    write_atomic(folder / f"{table.name}.md", found.markdown(picture=picture.name if drawn else "").encode())
    return found


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
    >>> seeds_note([1001, 1002], "one rule.").rpartition(", ")[2]
    'but for this: one rule.'
    """
    text = f"Seeds {seeds[0]} to {seeds[-1]}." if seeds else "No seeds."
    if seeds and seeds[0] < FRESH:
        return f"{text} **Settings may have been chosen on seeds below {FRESH}**; the default seeds are fresh."
    said = f"{text} No setting, rule or constant was chosen on seeds from {FRESH} on"
    return f"{said}, but for this: {exception}" if exception else f"{said}."

"""Running the runs of benchmark tables that are missing, and writing their results.

Each finished run is kept as its record, so that a command that was stopped goes on with the next one. A published
table names its runs in the same way, so that seeds can be added to it where its records are gone.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedkd_flwr.errors import DataError, FedkdError, explain

from .tables import Job, Row, Table, seeds_note

if TYPE_CHECKING:
    from fedkd_flwr.record.run_record import RunRecord

__all__ = ["Bench", "published_runs", "write_results"]


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

    def run(self, jobs: Sequence[Job], show: Callable[[str], None]) -> None:
        """Run the missing runs, one after the other; each uses all processes.

        A run that fails is noted in `failed`, with all later seeds of its row, and the other rows go on.

        Parameters
        ----------
        jobs : sequence of Job
            Runs; those with a record are passed over.
        show : callable
            Gets a line that says how far the command is, whenever that changes.
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
                reason = self._run(job, partial(_show_under, head, show))
            except FedkdError as error:
                reason = str(error)
            if self.stopped:
                return
            if reason:
                self.failed[job.key] = reason
            else:
                clock.took(job.row, time.monotonic() - began)

    def _run(self, job: Job, show: Callable[[str], None]) -> str:
        """Run one federation and keep its record; return why it failed, or ""."""
        import tempfile

        from fedkd_flwr.files import make_folder, write_atomic
        from fedkd_flwr.record.run_record import signed

        make_folder(self.records)
        show("starting")
        with tempfile.TemporaryDirectory(prefix="fedkd-bench-") as folder:
            settings = {**job.settings, "output-dir": folder}
            if job.row.shadows:
                from fedkd_flwr.app.live_run import captured_log
                from fedkd_flwr.audit.run import audit
                from fedkd_flwr.settings.config import parse_run_config

                try:
                    with captured_log():
                        record = audit(parse_run_config(settings), shadows=job.row.shadows, progress=show)
                except KeyboardInterrupt:
                    self.stopped = True
                    return "stopped"
                text = record.to_json()
            else:
                record = self._simulate(settings, show)
                if record.status != "completed":
                    self.stopped = record.status == "stopped"
                    return " ".join(record.reason.split()) or record.status
                text = record.to_json()
        record_text = json.dumps(signed(json.loads(text.replace(folder, ""))), indent=1)
        write_atomic(self.kept(job), record_text.encode())
        return ""

    def _simulate(self, settings: Mapping[str, Any], show: Callable[[str], None]) -> RunRecord:
        from fedkd_flwr.simulation.run import checked, in_processes
        from fedkd_flwr.simulation.starter import party_starter

        return in_processes(checked(settings), party_starter(), show, processes=self.processes)[0]


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
        from fedkd_flwr.app.progress import duration

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
        The results (`benchmarks.harness.results`).
    """
    from joblib import cpu_count

    from fedkd_flwr.errors import MissingExtraError
    from fedkd_flwr.files import make_folder, write_atomic
    from fedkd_flwr.record.run_record import RunRecord

    from .pictures import draw_bench
    from .results import BenchTable, lines_of

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
            "cores": int(cpu_count()),
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

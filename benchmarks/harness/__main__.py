"""``python -m benchmarks.harness``: the published tables, run again."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import click
import typer

from fedkd_flwr.app.find_run import OUTPUT
from fedkd_flwr.app.progress import ProgressLine
from fedkd_flwr.cli import INTERRUPTED, TERMINATED
from fedkd_flwr.cli.options import AsJson, print_json
from fedkd_flwr.cli.simulate import Interrupts
from fedkd_flwr.errors import ConfigError, DataError, FedkdError, explain

from .runs import Bench, published_runs, write_results
from .tables import ROOT, Job, Table, load_tables, needs, plan

__all__ = ["bench", "main"]

_PROGRAM = "python -m benchmarks.harness"

_MOST = 4  # runs that are missing are named on stderr


def bench(
    tables: Annotated[list[str] | None, typer.Argument(metavar="[TABLE]...", help="Which tables; see --list.")] = None,
    list_: Annotated[
        bool, typer.Option("--list", help="List the tables: what each needs, and how long it takes.")
    ] = False,
    row: Annotated[
        list[str] | None, typer.Option(help="Run only rows whose name holds this text. Can be given several times.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Only the quick rows, 2 seeds; of all tables if none is named.")
    ] = False,
    seeds: Annotated[int, typer.Option(help="Runs of each row. 0: what each row asks for.", min=0)] = 0,
    first_seed: Annotated[int, typer.Option(help="The first seed. 0: 1001, the first that chose nothing.", min=0)] = 0,
    data_root: Annotated[str, typer.Option(envvar="FEDKD_DATA", help="The folder of the data sets.")] = "",
    processes: Annotated[int, typer.Option(help="Parties that compute at a time. 0: one for each core.", min=0)] = 0,
    add_to: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Published tables, TABLE.json: what they hold is not run again."),
    ] = None,
    output_dir: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Runs and tables are kept in `bench` of this folder.")
    ] = OUTPUT,
    as_json: AsJson = False,
) -> int:
    """Run a published table again: means and deviations over seeds, beside what the paper prints.

    Each finished run is kept, so the same command goes on where it was stopped and more seeds add to those done. Tables
    are written as Markdown, JSON and a picture. docs/evidence/results.md says more.
    """
    if data_root and not Path(data_root).expanduser().is_dir():
        rule, way_out = "be a folder", "Give the folder that holds the data sets (docs/howto/your-data.md)."
        raise DataError(explain("--data-root (or FEDKD_DATA)", rule, data_root, way_out))
    chosen = load_tables(tables or [], ROOT)
    if list_:
        _list(chosen, as_json)
        return 0
    if not (tables or quick):
        way_out = f"Name one or several, or run the quick rows of all: {_PROGRAM} --quick"
        raise ConfigError(explain("table", f"be one of {', '.join(one.name for one in chosen)}", "none", way_out))
    folder = output_dir.expanduser().absolute() / "bench"
    published = published_runs(add_to.expanduser()) if add_to is not None else None
    work = Bench(folder, processes=processes, published=published)
    options: dict[str, Any] = {"seeds": seeds, "first_seed": first_seed, "quick": quick, "data_root": data_root}
    planned = [(table, found) for table in chosen if (found := plan(table, ROOT, **options))]
    jobs = _of_rows([job for _, found in planned for job in found], row or [])
    lacking = [job.row for job in work.missing(jobs) if not data_root and "data: " in " ".join(needs(job.row, ROOT))]
    if lacking:
        rows = [word for name in row or [] for word in ("--row", name)]
        words = [*(tables or []), *rows, *(["--quick"] if quick else []), "--data-root", "/path/to/data"]
        way_out = f"Run: {_PROGRAM} {shlex.join(words)} (docs/howto/your-data.md names the files), or set FEDKD_DATA."
        rule = f"be given for row {lacking[0].name!r}, which needs {', '.join(needs(lacking[0], ROOT))}"
        raise DataError(explain("--data-root", rule, "nothing", way_out))
    with Interrupts(line := ProgressLine()) as interrupts:
        work.run(jobs, line.show)
    results, asked = [], {job.key for job in jobs}
    for table, found in planned:
        shown = {job.row.name for job in found if job.key in asked or work.has(job)}
        mine = [job for job in found if job.row.name in shown]
        results.append(write_results(table, mine, work, folder, command=_command()))
    if as_json:
        print_json({"tables": [one.as_dict() for one in results], "folder": str(folder)})
    else:
        for one in results:
            typer.echo(one.markdown())
        typer.echo(f"written to {folder}: " + ", ".join(f"{one.name}.md, .json, .svg" for one in results))
    runs = {f"{job.row.name}, seed {job.seed}" for job in jobs}
    errors = [f"{one.name}, {what}: {why}" for one in results for what, why in one.missing.items() if what in runs]
    for text in errors[:_MOST] if not work.stopped else ():
        typer.echo(f"error: {text}", err=True)
    if len(errors) > _MOST and not work.stopped:
        typer.echo(f"({len(errors) - _MOST} more runs are missing: the tables name them)", err=True)
    if work.stopped:
        typer.echo("Stopped. The runs that ended are kept; the same command goes on.", err=True)
        return TERMINATED if interrupts.terminated else INTERRUPTED
    return 1 if errors else 0


def _of_rows(jobs: list[Job], names: list[str]) -> list[Job]:
    """Return the runs of the named rows."""
    for name in names:
        if not any(name in job.row.name for job in jobs):
            rows = list(dict.fromkeys(job.row.name for job in jobs))
            raise ConfigError(explain("--row", f"be in the name of a row: {'; '.join(rows)}", name))
    return [job for job in jobs if not names or any(name in job.row.name for name in names)]


def _command() -> str:
    """Return the command line that makes the whole table, without the folders of this machine."""
    words, rest = [], iter(sys.argv[1:])
    for word in rest:
        if word in ("--row", "--add-to"):  # a table holds what several calls have run
            next(rest, None)
        elif not word.startswith(("--row=", "--add-to=")):
            words.append(f"/path/to/{Path(word).name}" if word.startswith("/") else word)
    return f"{_PROGRAM} {shlex.join(words)}".rstrip()


def _list(tables: list[Table], as_json: bool) -> None:
    found: list[dict[str, Any]] = []
    for table in tables:
        needed = sorted({need for row in table.row for need in needs(row, ROOT)})
        minutes = sum(row.minutes for row in table.row)
        quick = sum(row.minutes for row in table.row if row.quick)
        found.append(
            {
                "name": table.name,
                "title": table.title,
                "source": table.source,
                "rows": len(table.row),
                "seeds": {row.name: row.seeds or table.seeds for row in table.row},
                "seeds_asked": table.seeds_asked,
                "minutes_a_seed": round(minutes, 1),
                "minutes_a_seed_quick": round(quick, 1),
                "needs": needed,
            }
        )
    if as_json:
        print_json({"tables": found})
        return
    for one in found:
        wanted = ", ".join(one["needs"]) or "nothing besides the core"
        some = f" ({one['minutes_a_seed_quick']:g} of them in --quick)" if one["minutes_a_seed_quick"] else ""
        typer.echo(f"{one['name']}: {one['title']}")
        typer.echo(
            f"    {one['rows']} rows x {one['seeds_asked']} seeds, about {one['minutes_a_seed']:g} minutes a seed{some}"
        )
        typer.echo(f"    needs: {wanted}")


def main() -> None:
    """Run the command line and exit; what is wrong with it is said in one sentence."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command()(bench)
    try:
        sys.exit(app(prog_name=_PROGRAM, standalone_mode=False))
    except (FedkdError, click.ClickException) as error:
        text = error.format_message() if isinstance(error, click.ClickException) else error
        typer.echo(f"error: {text}", err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()

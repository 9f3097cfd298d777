"""The commands about runs that there are: ``fedkd report``, ``compare``, and those of ``fedkd runs``."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from fedkd_flwr.app.find_run import OUTPUT
from fedkd_flwr.cli.options import AsJson, OutputDir, RunName, complete_runs, open_page, print_json

__all__ = ["compare", "forget", "report", "runs"]


def report(
    run: RunName = "last",
    output: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="The page to write; empty: beside the record.")
    ] = None,
    publishable: Annotated[
        bool, typer.Option("--publishable", help="Leave out what no claim covers: the form to pass on.")
    ] = False,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    table: Annotated[bool, typer.Option("--table", help="Print the table instead of writing the page.")] = False,
    output_dir: OutputDir = OUTPUT,
    as_json: AsJson = False,
) -> None:
    """Write the page of a run again.

    Its path is printed; or the run's table or record, where you ask for that. docs/reference/record.md says what each
    field of a record means.

    Examples
    --------
    fedkd report last --open
    fedkd report 1874 --publishable --output for-the-board.html
    fedkd report last --table
    fedkd report last --json | jq .claims
    """
    from fedkd_flwr.app.find_run import find_run, way_to_continue
    from fedkd_flwr.record.run_record import RunRecord, signed

    path = find_run(run, output_dir)
    record = RunRecord.load(path)
    if command := way_to_continue(record, path):
        typer.echo(f"This run has no result; continue it with: {command}", err=True)
    shown = record.publishable() if publishable else record
    if table or as_json:
        from fedkd_flwr.report.table import summary_table

        print_json(signed(shown.as_dict())) if as_json else typer.echo(summary_table(shown))
        return
    from fedkd_flwr.report.page import write_page

    name = "report-publishable.html" if publishable else "report.html"
    page = write_page(record, output or path.parent / name, publishable=publishable)
    typer.echo(page.absolute())
    if open_:
        open_page(page.absolute().as_uri())


def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...",
            help="Ids, names or paths; a name that several runs have means all of them.",
            autocompletion=complete_runs,
        ),
    ],
    figure: Annotated[str, typer.Option("--by", help="accuracy, balanced-accuracy, ...; empty: what fits.")] = "",
    output_dir: OutputDir = OUTPUT,
    as_json: AsJson = False,
) -> None:
    """Compare runs: settings, results, and noise.

    It shows the settings that differ, what each run reached, and which differences are more than noise. Runs that
    differ only in their seed are one group, with mean and standard deviation. Each group is compared with that of the
    first RUN, seed by seed.

    Examples
    --------
    fedkd compare 7300 7301
    fedkd compare majority dawid-skene
    fedkd compare majority dawid-skene --by macro-f1 --json
    """
    from fedkd_flwr.app.find_run import find_runs
    from fedkd_flwr.errors import ConfigError, explain
    from fedkd_flwr.record.run_record import RunRecord
    from fedkd_flwr.report.compare import compare as compared
    from fedkd_flwr.report.results import FIGURES

    wanted = figure.replace("-", "_")
    if wanted and wanted not in FIGURES:
        raise ConfigError(explain("--by", f"be one of {', '.join(FIGURES)}".replace("_", "-"), figure))
    paths = dict.fromkeys(path for run in runs for path in find_runs(run, output_dir))
    found = compared([RunRecord.load(path) for path in paths], figure=wanted)
    print_json(found.as_dict()) if as_json else typer.echo(found.text())


def runs(
    limit: Annotated[int, typer.Option(help="Show so many, the newest; 0: all.", min=0)] = 20,
    output_dir: OutputDir = OUTPUT,
    as_json: AsJson = False,
) -> None:
    """List the runs on this machine.

    The newest stands first. The result is the mean of the parties' models, or that of the server's model; n is the
    number of test rows. Below stand the commands that continue runs which were lost (docs/howto/resume.md).

    Examples
    --------
    fedkd runs list
    fedkd runs list --limit 3
    fedkd runs list --json | jq -r '.[] | select(.status == "failed") | .run_id'
    """
    from fedkd_flwr.app.runs import list_runs
    from fedkd_flwr.report.status import runs_text

    lines, total = list_runs(output_dir, limit=limit)
    if as_json:
        print_json(lines)
        return
    if not lines:
        typer.echo(f"No runs in {output_dir.expanduser() / 'runs'}. `fedkd simulate` makes one.", err=True)
        return
    typer.echo(runs_text(lines, shutil.get_terminal_size().columns if sys.stdout.isatty() else 0))
    for line in lines:
        if line.get("resume"):
            typer.echo(f"{line['run_id']} has no result and can be continued: {line['resume']}", err=True)
    if total > len(lines):
        typer.echo(f"({total - len(lines)} older ones: --limit 0 shows all)", err=True)


def forget(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            help="A run's id or the start of it; at the server also its name or path.",
            autocompletion=complete_runs,
        ),
    ],
    party: Annotated[str, typer.Option(help="Of this party alone, where several share a folder.")] = "",
    models: Annotated[
        bool, typer.Option("--models", help="Also the final models, cards and pages that the run left a party.")
    ] = False,
    output_dir: Annotated[
        Path, typer.Option("--output-dir", metavar="FOLDER", help="A silo's state-dir, or the server's output-dir.")
    ] = OUTPUT,
    as_json: AsJson = False,
) -> None:
    """Delete what a run kept to go on with.

    That is a party's state between rounds, and the server's checkpoint: the run cannot be continued then. Its
    record stays, and so does every ledger. A run that is going on is stopped first, by Ctrl-C.

    Examples
    --------
    fedkd runs forget 1874 --output-dir /srv/st-mary/state
    fedkd runs forget last-monday --models
    """
    from fedkd_flwr.app.runs import forget_run

    deleted = forget_run(run, output_dir, party=party, models=models)
    if as_json:
        print_json({"deleted": [str(path) for path in deleted]})
        return
    none = "Nothing to delete: this run keeps no state here. Its record and the ledgers stay."
    typer.echo("\n".join(f"deleted {path}" for path in deleted) or none)

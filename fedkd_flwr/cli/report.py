"""The command ``fedkd report``: a run's page, its table, its record."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedkd_flwr.app.find_run import OUTPUT
from fedkd_flwr.cli.options import AsJson, OutputDir, RunName, open_page, print_json

__all__ = ["report"]


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
    csv: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write rounds, parties and models as CSV files instead.")
    ] = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of records instead.")] = False,
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
    fedkd report last --csv results/
    fedkd report last --json | jq .claims
    fedkd report --schema > record.schema.json
    """
    from fedkd_flwr.app.find_run import find_run, way_to_continue
    from fedkd_flwr.record.run_record import RunRecord, signed

    if schema:
        from fedkd_flwr.report.record_schema import record_schema

        print_json(record_schema())
        return
    path = find_run(run, output_dir)
    record = RunRecord.load(path)
    if command := way_to_continue(record, path):
        typer.echo(f"This run has no result; continue it with: {command}", err=True)
    shown = record.publishable() if publishable else record
    if table or as_json:
        from fedkd_flwr.report.table import summary_table

        print_json(signed(shown.as_dict())) if as_json else typer.echo(summary_table(shown))
        return
    if csv is not None:
        from fedkd_flwr.report.csv_files import write_csv_files

        for file in write_csv_files(shown, csv):
            typer.echo(file.absolute())
        return
    from fedkd_flwr.report.page import write_page

    name = "report-publishable.html" if publishable else "report.html"
    page = write_page(record, output or path.parent / name, publishable=publishable)
    typer.echo(page.absolute())
    if open_:
        open_page(page.absolute().as_uri())

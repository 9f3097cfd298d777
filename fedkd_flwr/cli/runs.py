"""The command ``fedkd runs``: which runs there are."""

from __future__ import annotations

from typing import Annotated

import typer

from fedkd_flwr.app.find_run import OUTPUT
from fedkd_flwr.cli.options import AsJson, OutputDir, print_json

__all__ = ["runs"]


def runs(
    limit: Annotated[int, typer.Option(help="Show so many, the newest; 0: all.", min=0)] = 20,
    output_dir: OutputDir = OUTPUT,
    as_json: AsJson = False,
) -> None:
    """List the runs that left a record on this machine, the newest first.

    The result is the mean of the parties' models, or that of the server's model; n is the number of test rows. Below
    stand the commands that continue runs which were lost (docs/resume.md).

    Examples
    --------
    fedkd runs
    fedkd runs --limit 3
    fedkd runs --json | jq -r '.[] | select(.status == "failed") | .run_id'
    """
    from fedkd_flwr.app.runs import list_runs
    from fedkd_flwr.report.runs import runs_text

    lines, total = list_runs(output_dir, limit=limit)
    if as_json:
        print_json(lines)
        return
    if not lines:
        typer.echo(f"No runs in {output_dir.expanduser() / 'runs'}. `fedkd simulate` makes one.", err=True)
        return
    typer.echo(runs_text(lines))
    for line in lines:
        if line.get("resume"):
            typer.echo(f"{line['run_id']} has no result and can be continued: {line['resume']}", err=True)
    if total > len(lines):
        typer.echo(f"({total - len(lines)} older ones: --limit 0 shows all)", err=True)

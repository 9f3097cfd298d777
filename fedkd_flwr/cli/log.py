"""The command ``fedkd log``: what a run logged."""

from __future__ import annotations

from typing import Annotated

import typer

from fedkd_flwr.app.find_run import OUTPUT
from fedkd_flwr.cli.options import OutputDir, RunName

__all__ = ["log"]


def log(
    run: RunName,
    follow: Annotated[bool, typer.Option("--follow", help="Go on until the run has ended.")] = False,
    superlink: Annotated[str, typer.Option(help="Of a run at a SuperLink: its name in Flower's configuration.")] = "",
    output_dir: OutputDir = OUTPUT,
) -> None:
    """Print what a run logged: the log that `fedkd simulate` keeps, or that of Flower's SuperLink (`flwr log`).

    Examples
    --------
    fedkd log last
    fedkd log last --follow
    fedkd log 1874890138940096806 --superlink hospital-link
    """
    from fedkd_flwr.app.find_run import LOG, find_run
    from fedkd_flwr.app.runs import log_text, superlink_log
    from fedkd_flwr.errors import DataError

    try:
        path = find_run(run, output_dir)
    except DataError:
        if not run.isdecimal():
            raise
        path = None  # its server runs elsewhere
    if path is not None and path.with_name(LOG).exists():
        for piece in log_text(path, follow=follow):
            typer.echo(piece, nl=False)
        return
    run_id = path.parent.name if path is not None else run
    for line in superlink_log(run_id, superlink=superlink, follow=follow):
        typer.echo(line)

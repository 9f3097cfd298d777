"""The command ``fedkd stop``: end a run that is going on."""

from __future__ import annotations

from typing import Annotated

import typer

from fedkd_flwr.app.find_run import OUTPUT
from fedkd_flwr.cli.options import AsJson, OutputDir, RunName, print_json

__all__ = ["stop"]


def stop(
    run: RunName,
    superlink: Annotated[str, typer.Option(help="Of a run at a SuperLink: its name in Flower's configuration.")] = "",
    output_dir: OutputDir = OUTPUT,
    as_json: AsJson = False,
) -> int:
    """Stop a run: a simulation of `fedkd simulate`, or a run at a SuperLink (`flwr stop`).

    What the rounds before have found, and what has left the parties, stays in its record.

    Examples
    --------
    fedkd stop last
    fedkd stop 1874890138940096806 --superlink hospital-link
    """
    from fedkd_flwr.app.find_run import find_run
    from fedkd_flwr.app.runs import stop_at_superlink, stop_run
    from fedkd_flwr.errors import DataError
    from fedkd_flwr.report.standing import standing

    try:
        path = find_run(run, output_dir)
    except DataError:
        if not run.isdecimal():
            raise
        stop_at_superlink(run, superlink=superlink)  # its server runs elsewhere
        said = {"run_id": run, "status": "stopped", "standing": f"The SuperLink stopped run {run}."}
    else:
        record = stop_run(path, superlink=superlink)
        stands = standing(record)
        said = {"run_id": record.run_id, "status": stands.word, "standing": stands.sentence}
    if as_json:
        print_json(said)
    else:
        typer.echo(said["standing"])
    return 1 if said["status"] == "running" else 0

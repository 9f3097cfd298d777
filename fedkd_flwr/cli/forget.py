"""The command ``fedkd forget``: delete what a run would need to go on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedkd_flwr.app.find_run import OUTPUT
from fedkd_flwr.cli.options import AsJson, print_json

__all__ = ["forget"]


def forget(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="A run's id or the start of it; at the server also its name or path.")
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
    """Delete what a run kept to go on with: a party's state between rounds, and the server's checkpoint.

    The run cannot be continued then. Its record stays, and so does every ledger: what was spent is spent. A run that is
    going on is cancelled with `fedkd stop` first.

    Examples
    --------
    fedkd forget 1874 --output-dir /srv/st-mary/state
    fedkd forget last-monday --models
    """
    from fedkd_flwr.app.forget import forget_run

    deleted = forget_run(run, output_dir, party=party, models=models)
    if as_json:
        print_json({"deleted": [str(path) for path in deleted]})
        return
    for path in deleted:
        typer.echo(f"deleted {path}")
    if not deleted:
        typer.echo("Nothing to delete: this run keeps no state here. Its record and the ledgers stay.")

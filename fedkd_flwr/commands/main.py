"""The command ``fedkd``: its subcommands, and what an error looks like."""

from __future__ import annotations

import sys

import typer

from fedkd_flwr.commands.bundle import bundle
from fedkd_flwr.commands.choose import choose
from fedkd_flwr.commands.node import node
from fedkd_flwr.commands.schema import schema
from fedkd_flwr.errors import FedkdError

__all__ = ["app", "main"]

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Federated learning where parties share labels.")
for command in (
    bundle,
    choose,
    schema,
):
    app.command()(command)
app.add_typer(node, name="node")


def main() -> None:
    """Run the command; an error is one line on stderr and status 2."""
    try:
        app(prog_name="fedkd")
    except (FedkdError, OSError) as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(2)

"""Options that several subcommands share, spelt alike, and how a subcommand prints JSON."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from fedkd_flwr.files import without_nan

__all__ = ["AsJson", "OutputDir", "RunName", "find_own_modules", "open_page", "print_json"]

RunName = Annotated[
    str,
    typer.Argument(
        metavar="RUN", help="A run's id or the start of it, its name, `last`, or the path of its folder or record."
    ),
]
OutputDir = Annotated[
    Path, typer.Option("--output-dir", metavar="FOLDER", help="The folder of results, whose `runs` are searched.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def find_own_modules() -> None:
    """Let modules of the current folder be imported, as ``fedkd simulate`` does: last, so that they hide no library."""
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)


def open_page(address: str) -> None:
    """Open a page in the browser; where there is none, its path has been printed, and xdg-open's lines say no more."""
    if not sys.platform.startswith("linux"):
        typer.launch(address)
        return
    try:
        silent = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_WRONLY, 0) for stream in (1, 2)]
        os.posix_spawnp("xdg-open", ["xdg-open", address], os.environ, file_actions=silent, setpgroup=0)
    except OSError:
        typer.echo(f"No browser was found. Open this page: {address}", err=True)


def print_json(value: Any) -> None:
    """Print a value as indented JSON; NaN and infinity become null."""
    typer.echo(json.dumps(without_nan(value), indent=1, allow_nan=False))

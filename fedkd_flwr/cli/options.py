"""Options that several subcommands share, spelt alike, and how a subcommand prints JSON."""

from __future__ import annotations

import glob
import json
import os
import sys
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from fedkd_flwr.files import without_nan
from fedkd_flwr.registry import load

__all__ = ["AsJson", "OutputDir", "Quiet", "RunName", "complete_node_settings", "complete_runs", "complete_settings"]
__all__ += ["echo", "find_own_modules", "open_page", "print_json"]

_COLOURS = {"error": "red", "NOT READY": "red", "WARNING": "yellow", "warning": "yellow", "ready": "green"}


def complete_runs(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names and ids of runs that begin so, and files, for a shell."""
    from fedkd_flwr.app.find_run import OUTPUT, all_runs

    found = all_runs(ctx.params.get("output_dir") or OUTPUT)
    return ["last", *(name for run in found for name in (run.name, run.run_id) if name), *_files(incomplete)]


def _completing(listing: str) -> Callable[[str], list[str]]:
    def complete(incomplete: str) -> list[str]:
        """Return the settings that begin so, and files, for a shell."""
        found = load(f"fedkd_flwr.settings.listing:{listing}")()
        return [*(f"{row.key}=" for row in found), *_files(incomplete)]

    return complete


complete_settings, complete_node_settings = _completing("run_settings"), _completing("node_settings")


def _files(incomplete: str) -> list[str]:
    return sorted(f"{one}/" if os.path.isdir(one) else one for one in glob.glob(f"{glob.escape(incomplete)}*"))


RunName = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="A run's id or the start of it, its name, `last`, or the path of its folder or record.",
        autocompletion=complete_runs,
    ),
]
OutputDir = Annotated[
    Path, typer.Option("--output-dir", metavar="FOLDER", help="The folder of results, whose `runs` are searched.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]


def echo(text: str, *, err: bool = False) -> None:
    """Print text whose first word says how bad it is in that word's colour: in a terminal, and without NO_COLOR."""
    word = next((word for word in _COLOURS if text.startswith(word)), "")
    if word and not os.environ.get("NO_COLOR"):
        text = typer.style(word, fg=_COLOURS[word], bold=True) + text[len(word) :]
    typer.echo(text, err=err)


def find_own_modules() -> None:
    """Let modules of the current folder be imported, as ``fedkd simulate`` does: last, so that they hide no library."""
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)


def open_page(address: str) -> None:
    """Open a page in the browser; where there is none, say which page it is."""
    if not webbrowser.open(address):
        typer.echo(f"No browser was found. Open this page: {address}", err=True)


def print_json(value: Any) -> None:
    """Print a value as indented JSON; NaN and infinity become null."""
    typer.echo(json.dumps(without_nan(value), indent=1, allow_nan=False))

"""The command ``fedkd settings``: what can be set, and what it means."""

from __future__ import annotations

import shutil
import textwrap
from typing import Annotated, Any

import typer

from fedkd_flwr.cli.options import AsJson, print_json

__all__ = ["settings"]


def settings(
    algorithm: Annotated[str, typer.Argument(metavar="[ALGORITHM]", help="Only what this algorithm reads.")] = "",
    everything: Annotated[bool, typer.Option("--all", help="All settings, not only those to know first.")] = False,
    search: Annotated[str, typer.Option(metavar="WORD", help="Those with this word in name or meaning.")] = "",
    as_toml: Annotated[bool, typer.Option("--toml", help="Print a TOML file to start from.")] = False,
    node: Annotated[bool, typer.Option("--node", help="Settings of a silo's node, not of a run.")] = False,
    as_json: AsJson = False,
) -> None:
    """List settings and what they mean.

    Without --all the few are shown that most people need; with an ALGORITHM also those of its own section. Those
    under paper. repeat what a paper printed.

    Examples
    --------
    fedkd settings
    fedkd settings fedkt --all
    fedkd settings --search noise
    fedkd settings fedct --toml > my-run.toml
    fedkd settings --node --toml > node.toml
    """
    from fedkd_flwr.errors import DataError, explain
    from fedkd_flwr.settings.listing import node_settings, run_settings

    found = node_settings() if node else run_settings(algorithm)
    shown = [
        one
        for one in found
        if (everything or search or one.first or one.key.startswith(f"{algorithm}."))
        and search.casefold() in f"{one.key} {one.meaning}".casefold()
    ]
    if not shown:
        raise DataError(explain("--search", "be a word in the name or meaning of a setting", search))
    if as_json:
        print_json([one._asdict() for one in shown])
        return
    width = min(max(shutil.get_terminal_size().columns, 40), 100)
    for one in shown:
        typer.echo("\n".join([*_lines(one, width, as_toml, algorithm), ""]))
    if len(shown) < len(found) and not as_toml:
        typer.echo(f"{len(shown)} of {len(found)} settings. --all shows every one.", err=True)


def _lines(one: Any, width: int, as_toml: bool, algorithm: str) -> list[str]:
    """Return a setting as lines: as a comment of a TOML file, or with its meaning indented below."""
    if as_toml:
        text = f"{one.meaning} Values: {one.rule}."
        written = textwrap.wrap(text, width, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)
        chosen = one.key == "algorithm" and algorithm
        return [*written, f'algorithm = "{algorithm}"' if chosen else f"# {one.key} = {one.default}"]
    wrapped = [line for text in (one.meaning, f"({one.rule})") for line in textwrap.wrap(text, width - 4)]
    return [f"{one.key} = {one.default}", *(f"    {line}" for line in wrapped)]

"""Every subcommand of ``fedkd`` as Markdown, from the functions that define them."""

from __future__ import annotations

from collections.abc import Iterator

import click

from fedkd_flwr.cli.main import group

__all__ = ["command_pages"]


def command_pages() -> str:
    """Return a section for each subcommand: what it does, examples, its options."""
    return "\n\n".join(_pages(group(), "fedkd"))


def _pages(commands: click.Group, before: str) -> Iterator[str]:
    for name in commands.list_commands(click.Context(commands)):
        called, command = f"{before} {name}", commands.get_command(click.Context(commands), name)
        if isinstance(command, click.Group):
            yield from _pages(command, called)
        else:
            yield _page(command, called)


def _page(command: click.Command, called: str) -> str:
    examples = [line.strip() for line in (command.epilog or "").splitlines()[2:]]
    lines = [f"### `{called}`", "", (command.help or "").strip()]
    if examples:
        lines += ["", "```bash", *examples, "```"]
    rows = [_row(param) for param in command.params if not getattr(param, "hidden", False) and param.name != "help"]
    return "\n".join([*lines, "", "| option | meaning | default |", "|---|---|---|", *rows])


def _row(param: click.Parameter) -> str:
    metavar = param.metavar or (
        "" if getattr(param, "is_flag", False) else (param.type.name or "").upper().removesuffix(" RANGE")
    )
    if isinstance(param, click.Argument):
        names = "`" + (param.metavar or (param.name or "").upper()).replace("|", "\\|") + "`"
    else:
        names = ", ".join(f"`{option}{' ' + metavar if metavar else ''}`" for option in param.opts)
    known = param.default if not getattr(param, "is_flag", False) else None
    if param.secondary_opts:  # a flag that has a word for "no", too
        names += "".join(f" / `{option}`" for option in param.secondary_opts)
        known = (param.opts if param.default else param.secondary_opts)[0]
    default = "" if known in (None, "") or callable(known) else f"`{known}`"
    words = (getattr(param, "help", "") or "").replace("|", "\\|")
    return f"| {names} | {words} | {default} |"

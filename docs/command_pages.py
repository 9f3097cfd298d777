"""Every subcommand of ``fedkd`` as Markdown, from the functions that define them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator

import click

from fedkd_flwr.cli.main import group

__all__ = ["command_pages"]


_MANY = 2  # commands that have an option in the same words; it is then told once
_EXAMPLES = 1  # of a command; its --help has all


def command_pages() -> str:
    """Return a section for each subcommand, what it does, examples, its options, after the options that many have."""
    commands = list(_commands(group(), "fedkd"))
    counted = Counter(row for _, command in commands for row in _rows(command))
    names = Counter(row.partition(": ")[0] for row in counted)
    common = {  # of two wordings that several commands have it would be asked whose is meant
        row: None
        for row, number in counted.items()
        if number >= _MANY and (number > 2 or names[row.partition(": ")[0]] == 1)
    }
    first = "\n\n".join(["### Options of several commands", *common])
    return "\n\n".join([first, *(_page(command, called, common) for called, command in commands)])


def _commands(commands: click.Group, before: str) -> Iterator[tuple[str, click.Command]]:
    for name in commands.list_commands(click.Context(commands)):
        called, command = f"{before} {name}", commands.get_command(click.Context(commands), name)
        if isinstance(command, click.Group):
            yield from _commands(command, called)
        elif command is not None:
            yield called, command


def _rows(command: click.Command) -> list[str]:
    return [_row(param) for param in command.params if not getattr(param, "hidden", False) and param.name != "help"]


def _page(command: click.Command, called: str, common: Container[str]) -> str:
    examples = [line.strip() for line in (command.epilog or "").splitlines()[2:]][:_EXAMPLES]
    lines = [f"### `{called}`", "", (command.help or "").strip()]
    if examples and examples != [called]:
        lines += ["", "```bash", *examples, "```"]
    if rows := [row for row in _rows(command) if row not in common]:
        lines += ["", "\n\n".join(rows)]
    return "\n".join(lines)


def _row(param: click.Parameter) -> str:
    metavar = param.metavar or (
        "" if getattr(param, "is_flag", False) else (param.type.name or "").upper().removesuffix(" RANGE")
    )
    if isinstance(param, click.Argument):
        names = f"`{param.metavar or (param.name or '').upper()}`"
    else:
        names = ", ".join(f"`{option}{' ' + metavar if metavar else ''}`" for option in param.opts)
    known = param.default if not getattr(param, "is_flag", False) else None
    if param.secondary_opts:  # a flag that has a word for "no", too
        names += "".join(f" / `{option}`" for option in param.secondary_opts)
        known = (param.opts if param.default else param.secondary_opts)[0]
    default = "" if known in (None, "") or callable(known) else f" (`{known}`)"
    return f"{names}: {getattr(param, 'help', '') or ''}{default}"

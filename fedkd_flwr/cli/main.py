"""The command ``fedkd``: its subcommands, what an error looks like, and what each exit code means.

A subcommand's help is its docstring; what stands under ``Examples`` is printed after the options, line by line.
"""

from __future__ import annotations

import functools
import inspect
import io
import os
import sys
from collections.abc import Sequence
from typing import Any

import click
import typer
import typer.core
from click.utils import PacifyFlushWrapper
from typer.utils import get_params_from_function

from fedkd_flwr.cli import BUG, INTERRUPTED, NOBODY_READS
from fedkd_flwr.cli.options import echo
from fedkd_flwr.errors import FedkdError
from fedkd_flwr.registry import COMMANDS, GROUPS, TASKS, load

__all__ = ["Commands", "group", "main"]

_LINES = 5  # at most so many on stderr
_EXAMPLES = "\n\nExamples\n--------\n"
_CODES = [
    ("0", "done"),
    ("1", "not done, and that is the answer: refused at a question, or the run failed"),
    ("2", "something given is wrong; the message says what, and what to do"),
    ("3", "not ready for a run, as `fedkd doctor` and `fedkd node run` find"),
    ("70", "an error in fedkd itself"),
    ("130", "interrupted (Ctrl-C)"),
    ("141", "nobody reads the output any more, as in `fedkd runs list | head -1`"),
    ("143", "told to end (SIGTERM)"),
]
_ABOUT = [
    ("FEDKD_HOME", "the folder of runs and states, in place of ~/.fedkd"),
    ("NO_COLOR", "set to anything: no colours"),
]
_COMPLETION = [(shell, f'eval "$(_FEDKD_COMPLETE={shell}_source fedkd)"') for shell in ("bash", "zsh")]
_COMPLETION += [("fish", "_FEDKD_COMPLETE=fish_source fedkd | source")]
_BELOW = {"Exit codes": _CODES, "Environment": _ABOUT, "Completion of words by your shell": _COMPLETION}

# rich takes longer to import than the rest of `fedkd --help`; with it typer 0.20 escapes brackets in plain text, too
typer.core.HAS_RICH = False


class Commands(typer.core.TyperGroup):
    """Commands by their words: each is imported when it is called, or when the help names it."""

    def __init__(self, words: str = "", **attributes: Any) -> None:
        super().__init__(name=words.rpartition(" ")[2] or None, rich_markup_mode=None, **attributes)
        self.words = words
        self.members = [name for name in (*COMMANDS, *GROUPS) if name.rpartition(" ")[0] == words]

    def list_commands(self, ctx: click.Context | None = None) -> list[str]:
        """Return the names of the commands, in the order of the help."""
        return [words.rpartition(" ")[2] for words in self.members]

    def get_command(self, ctx: click.Context | None, name: str) -> click.Command | None:
        """Return a command, imported; None where there is none of this name."""
        if name not in self.commands and name in self.list_commands():
            words = f"{self.words} {name}".strip()
            self.commands[name] = Commands(words, help=GROUPS[words]) if words in GROUPS else _command(words)
        return self.commands.get(name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands below the tasks that they are for."""
        for task, names in (TASKS if not self.words else {"Commands": self.list_commands()}).items():
            commands = [(name, self.get_command(ctx, name)) for name in names]
            with formatter.section(task):
                formatter.write_dl([(name, one.get_short_help_str(60)) for name, one in commands if one])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what stands below the commands at the top."""
        for title, lines in _BELOW.items() if not self.words else ():
            with formatter.section(title):
                formatter.write_dl(lines)

    def _main_shell_completion(self, *arguments: Any, **named: Any) -> None:
        """Complete words as click does: typer would want another package."""
        click.Group._main_shell_completion(self, *arguments, **named)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the words name; where they name none, guess which one was meant."""
        if args and args[0] not in self.list_commands() and not args[0].startswith("-"):
            from fedkd_flwr.checks import nearest

            near = [words for words in COMMANDS if words.rpartition(" ")[2] == args[0]]
            near = near or nearest(args[0], self.list_commands())
            hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
            raise click.UsageError(f"No such command {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)


def _command(words: str) -> click.Command:
    """Return a command with the help and the examples of its docstring."""
    called = load(COMMANDS[words])
    text, _, examples = (inspect.getdoc(called) or "").partition(_EXAMPLES)
    alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    epilog = "\b\nExamples:\n" + "\n".join(f"  {line}" for line in examples.splitlines()) if examples else None
    alone.command(words.rpartition(" ")[2], help=text, epilog=epilog)(called)
    made = typer.main.get_command(alone)
    if hasattr(made, "format_arguments"):  # click 8.5 would list what typer lists already
        made.format_arguments = lambda *_: None  # type: ignore[method-assign]
    declared = get_params_from_function(called)
    for param in made.params:  # click 8.5 takes the help of arguments from typer 0.20
        if isinstance(param, click.Argument) and param.name in declared:
            param.help = getattr(declared[param.name].default, "help", None)
    return made


@functools.cache
def group() -> Commands:
    """Return the command as click runs it."""
    made = Commands(
        help="Federated learning where parties share labels.",
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    made.params.append(
        click.Option(["-V", "--version"], is_flag=True, is_eager=True, expose_value=False, callback=_version,
                     help="Show the version and exit.")
    )  # fmt: skip
    return made


def _version(ctx: click.Context, param: click.Parameter, asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"fedkd-flwr {version('fedkd-flwr')}")
        ctx.exit()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command (by default that of ``sys.argv``) and exit.

    An error is at most five lines on stderr; only a bug has a traceback, in a file.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):  # a path that is no UTF-8, or a terminal of fewer characters
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = _run(arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
    except (KeyboardInterrupt, SystemExit, Exception) as error:
        code = _failed(error, arguments)
        _give_up_output()
    sys.exit(code)


def _run(arguments: Sequence[str] | None) -> int:
    try:
        done = group().main(arguments, prog_name="fedkd", standalone_mode=False)
    except getattr(click.exceptions, "NoArgsIsHelpError", ()) as error:  # click 8.2; before, it printed help itself
        typer.echo(error.format_message())
        return 0
    return done if isinstance(done, int) else 0


def _failed(error: BaseException, arguments: Sequence[str] | None) -> int:
    """Say what went wrong, and return the exit code."""
    if isinstance(error, SystemExit):
        if isinstance(sys.stdout, PacifyFlushWrapper):  # type: ignore[arg-type]  # so click ends one whose pipe was closed
            return NOBODY_READS
        if error.code is None or isinstance(error.code, int):
            return error.code or 0
        _say(str(error.code))
        return 1
    if isinstance(error, BrokenPipeError):
        return NOBODY_READS
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, click.Abort):  # the end of the input, at a question
        _say("Nothing was done: the question was not answered.")
        return 1
    if isinstance(error, click.ClickException):
        where = (
            error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else _command_path(arguments)
        )
        if setting := _setting_of(error):
            _say(f"error: No such option: --{setting}. It is a setting: write {setting}=VALUE, without --.")
            return 2
        _say(f"error: {error.format_message()}\n`{where} --help` shows what it takes, and examples.")
        return 2
    if isinstance(error, FedkdError):
        _say(f"error: {error}")
        return 2
    if isinstance(error, OSError) and error.strerror:
        where = f" {error.filename}" if error.filename else ""
        home = str(error.filename or "").startswith(os.path.expanduser("~"))
        ways = " It is in your home folder: name another one by FEDKD_HOME, and FLWR_HOME for Flower."
        _say(f"error: the system refused{where}: {error.strerror}.{ways if home else ''}")
        return 2
    _bug(error)
    return BUG


def _setting_of(error: click.ClickException) -> str:
    """Return the setting that was written as an option, to a command that takes settings; "" for anything else."""
    if not isinstance(error, click.NoSuchOption) or error.ctx is None:
        return ""
    if not {"settings", "words"} & {param.name for param in error.ctx.command.params}:
        return ""
    from fedkd_flwr.settings.listing import node_settings, run_settings

    name = error.option_name.lstrip("-").partition("=")[0]
    known = run_settings() + (node_settings() if error.ctx.info_name == "doctor" else [])
    return name if name in {row.key for row in known} else ""


def _command_path(arguments: Sequence[str] | None) -> str:
    """Return the command that was asked for, as far as its words name one: click does not always say it."""
    words: list[str] = ["fedkd"]
    one: click.Command = group()
    for word in sys.argv[1:] if arguments is None else arguments:
        if not isinstance(one, Commands) or (named := one.get_command(None, word)) is None:
            break
        words.append(word)
        one = named
    return " ".join(words)


def _say(text: str) -> None:
    lines = text.splitlines()
    if len(lines) > _LINES:
        lines = [*lines[: _LINES - 1], f"({len(lines) - _LINES + 1} more lines)"]
    echo("\n".join(lines), err=True)


def _bug(error: BaseException) -> None:
    import tempfile
    import traceback

    text = "".join(traceback.format_exception(error))
    if os.environ.get("FEDKD_TRACEBACK"):
        typer.echo(text, err=True)
        return
    what = f"error in fedkd itself: {type(error).__name__}: {error}".splitlines()[0]
    try:
        handle, where = tempfile.mkstemp(prefix="fedkd-error-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
        _say(f"{what}. Its traceback is in {where}; please report it.")
    except OSError:
        _say(f"{what}. Set FEDKD_TRACEBACK=1 to see its traceback; please report it.")


def _give_up_output() -> None:
    """Drop what could not be written, or Python would fail once more at its exit, with a traceback."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

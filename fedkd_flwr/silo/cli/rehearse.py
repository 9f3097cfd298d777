"""The command ``fedkd server rehearse``: one round of constant labels, to see who would be missing."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from fedkd_flwr.cli.options import AsJson, print_json
from fedkd_flwr.cli.simulate import RunSettings

__all__ = ["rehearse"]

_ANSWERS = re.compile(r"(.*) answers")
_MISSING = re.compile(r"(.*) would be missing: ([a-z-]+)\. (.*)")


def rehearse(
    settings: RunSettings = None,
    superlink: Annotated[
        str, typer.Option(help="The SuperLink's name in Flower's configuration; by default its default.")
    ] = "",
    as_json: AsJson = False,
) -> int:
    """Rehearse a run with constant labels.

    Every party answers through the real network. Says who would be missing, and why. Nothing private leaves a party,
    and no privacy ledger is charged. Settings are those of the run. Ends with 0 if everybody answers, 1 if somebody
    would be missing, 2 if the run would fail for too few answers.

    Examples
    --------
    fedkd server rehearse public-path=/srv/public.csv num-parties=3 --superlink ops
    fedkd server rehearse my-run.toml --superlink ops --json
    """
    from fedkd_flwr.app.progress import ProgressLine
    from fedkd_flwr.app.submit import follow, status, submit
    from fedkd_flwr.errors import FedkdError
    from fedkd_flwr.settings.run_settings import read_settings
    from fedkd_flwr.silo.rehearsal import WORD

    values = read_settings(settings or []) | {"rehearsal": True}
    line = ProgressLine()
    line.show("waiting for the parties")
    made = submit(values, superlink=superlink)
    said = [one.partition(WORD)[2].strip() for one in follow(made.run_id, superlink) if WORD in one]
    how, details = status(made.run_id, superlink)
    reason = "" if how == "finished:completed" else " ".join(details.split()) or how
    line.clear()
    answered = [found[1] for one in said if (found := _ANSWERS.fullmatch(one))]
    missing = [found.groups() for one in said if (found := _MISSING.fullmatch(one))]
    if not answered and not missing:
        raise FedkdError(reason or "The rehearsal ended without a word: see the log of the SuperLink.")
    code = 2 if reason else int(bool(missing))
    if as_json:
        parts = [{"party": name, "code": word, "what_to_do": text} for name, word, text in missing]
        print_json({"exit_code": code, "answered": answered, "missing": parts, "reason": reason})
        return code
    for text in said:
        typer.echo(text)
    if reason:
        typer.echo(f"error: the run would fail: {reason}", err=True)
    return code

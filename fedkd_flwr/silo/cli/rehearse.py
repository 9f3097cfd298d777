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
    parties: Annotated[int | None, typer.Option(help="In simulation: how many parties.", min=1)] = None,
    as_json: AsJson = False,
) -> int:
    """Rehearse a run: one round of constant labels.

    Every party answers through the real network. Says who would be missing, and why. Nothing private leaves a party,
    and no privacy ledger is charged. Settings are those of the run. With public-path the nodes of a SuperLink are
    asked; without it, simulated parties here. Ends with 0 if everybody answers, 1 if somebody would be missing, 2 if
    the run would fail for too few answers.

    Examples
    --------
    fedkd server rehearse public-path=/srv/public.csv num-parties=3 --superlink ops
    fedkd server rehearse my-run.toml --superlink ops --json
    fedkd server rehearse table=patients.csv label=outcome --parties 5
    """
    from fedkd_flwr.app.progress import ProgressLine
    from fedkd_flwr.errors import FedkdError
    from fedkd_flwr.settings.run_settings import read_settings
    from fedkd_flwr.silo.rehearse_run import rehearse_at, rehearse_here

    values = read_settings(settings or [], num_parties=parties) | {"rehearsal": True}
    line = ProgressLine()
    line.show("waiting for the parties")
    said = rehearse_at(values, superlink) if values.get("public-path") else rehearse_here(values)
    line.clear()
    answered = [found[1] for one in said.lines if (found := _ANSWERS.fullmatch(one))]
    missing = [found.groups() for one in said.lines if (found := _MISSING.fullmatch(one))]
    if not answered and not missing:
        raise FedkdError(said.reason or "The rehearsal ended without a word: see the log of the SuperLink.")
    code = 2 if said.reason else int(bool(missing))
    if as_json:
        parts = [{"party": name, "code": word, "what_to_do": text} for name, word, text in missing]
        print_json({"exit_code": code, "answered": answered, "missing": parts, "reason": said.reason})
        return code
    for text in said.lines:
        typer.echo(text)
    if said.reason:
        typer.echo(f"error: the run would fail: {said.reason}", err=True)
    return code

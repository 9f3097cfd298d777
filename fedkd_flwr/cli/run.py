"""The command ``fedkd server run``: a run at a SuperLink."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from fedkd_flwr.cli.exit_codes import INTERRUPTED
from fedkd_flwr.cli.options import AsJson, Quiet, echo, find_own_modules, print_json
from fedkd_flwr.cli.simulate import Resume, RunSettings, Verbose

__all__ = ["run"]

_ROUND = re.compile(r"round (\d+)/(\d+): (.*)")
_REFUSED = re.compile(r"^\w+ *:\s+(left out of round \d+: .*|\S.* (?:is not ready|did not finish): .*)")
"""Lines of the server's log that say which silo refused, and by which code."""


def run(
    settings: RunSettings = None,
    superlink: Annotated[
        str, typer.Option(help="The SuperLink's name in Flower's configuration; by default its default.")
    ] = "",
    resume: Resume = "",
    name: Annotated[str, typer.Option(help="What to call the run, for `fedkd runs list` and others.")] = "",
    app: Annotated[Path | None, typer.Option(help="The folder of an app of your own; by default this package.")] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for the run's end; the exit code says how it ended.")
    ] = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> int:
    """Submit a run to a SuperLink with real silos.

    Settings are given as to `fedkd simulate`; paths are those of the server's machine. Each silo answers only if it has
    approved the app's bundle, whose hash is printed. ``--resume`` reads the record of the lost run, on the server's
    machine; from elsewhere, give its settings again with resume-from=RUN.

    Examples
    --------
    fedkd server run public-path=/srv/public.csv num-parties=3 --superlink ops --wait
    fedkd server run my-run.toml --name monday
    fedkd server run --resume monday --wait
    """
    from fedkd_flwr.app.submit import status, submit
    from fedkd_flwr.report.formatting import one_line
    from fedkd_flwr.settings.run_settings import read_settings, resumed_settings

    find_own_modules()
    given = read_settings(settings or [], name=name)
    if resume:
        given = resumed_settings(resume, given.get("output-dir", "")) | given
    try:
        made = submit(given, superlink=superlink, app=app)
    except KeyboardInterrupt:
        typer.echo(f"Perhaps submitted, perhaps not: `{f'flwr list {superlink}'.rstrip()}` lists the runs.", err=True)
        return INTERRUPTED
    how, details = "", ""
    if not as_json:
        typer.echo(f"run     {made.run_id}")
        typer.echo(f"bundle  {made.bundle.sha256}  {one_line(made.bundle.app)} {one_line(made.bundle.version)}")
    if wait:
        try:
            _wait(made.run_id, superlink, verbose=verbose, quiet=quiet, as_json=as_json)
        except KeyboardInterrupt:
            typer.echo(f"The run goes on. Stop it with: flwr stop {made.run_id} {superlink}", err=True)
            return INTERRUPTED
        how, details = status(made.run_id, superlink)
    if as_json:
        print_json({"run_id": made.run_id, "bundle": made.bundle.sha256, "status": how or "submitted"})
    elif not wait:
        typer.echo(f"Follow it with: flwr log {made.run_id} {superlink}".rstrip())
    if how and how != "finished:completed":
        why = " ".join(details.split())[:600]
        words = {"finished:stopped": "was stopped", "finished:failed": "failed"}.get(how, f"is {how.partition(':')[0]}")
        echo(f"error: the run {words}{'' if why in ('', 'N/A') else f': {why}'}", err=True)
        return 1
    return 0


def _wait(run_id: str, superlink: str, *, verbose: bool, quiet: bool, as_json: bool) -> None:
    """Show how far a run is until it ends, which silos refuse, and where its record is; or its whole log."""
    from fedkd_flwr.app.progress import ProgressLine
    from fedkd_flwr.app.submit import follow
    from fedkd_flwr.report.formatting import one_line

    line = ProgressLine()
    show = (lambda _: None) if verbose or quiet else line.show
    show("submitted: waiting for the server")
    try:
        for said in follow(run_id, superlink):
            if verbose:
                typer.echo(one_line(said), err=True)
            elif found := _ROUND.search(said):
                show(f"round {found[1]} of {found[2]}: {found[3]}")
            elif refused := _REFUSED.search(said):
                line.clear()
                typer.echo(one_line(refused[1]), err=True)
            elif "record: " in said or "report: " in said:
                line.clear()
                typer.echo(said[said.index("re") :].removeprefix("INFO :").strip(), err=as_json)
    finally:
        line.clear()

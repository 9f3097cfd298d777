"""The commands of a server of real silos: ``fedkd server run``, ``schema`` and ``public``."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from fedkd_flwr.app.find_run import OUTPUT
from fedkd_flwr.cli import INTERRUPTED
from fedkd_flwr.cli.options import AsJson, OutputDir, Quiet, echo, find_own_modules, print_json
from fedkd_flwr.cli.simulate import Resume, RunSettings, Verbose

__all__ = ["public", "run", "schema"]

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
        why = " ".join(details.removeprefix("ServerApp failed with exception: ").split())[:900]
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


def schema(
    table: Annotated[Path, typer.Argument(help="CSV, TSV, Parquet, Excel or NPZ file of public rows.")],
    label: Annotated[str, typer.Option(help="Its label column.")] = "label",
    classes: Annotated[str, typer.Option(help='All class names, e.g. "no,yes". Default: the label column\'s.')] = "",
    id_column: Annotated[str, typer.Option(help="A column that names rows and is no feature.")] = "",
    drop: Annotated[str, typer.Option(help="Columns to leave out, with commas.")] = "",
    text: Annotated[str, typer.Option(help="Columns of free text, with commas; prose is found without.")] = "",
    decimal: Annotated[str, typer.Option(help="Sign before decimals, . or ,. Default: found.")] = "",
    missing: Annotated[str, typer.Option(help="Further words for an empty cell, as in unknown,age:-999.")] = "",
    date_order: Annotated[str, typer.Option(help="day-first or month-first, for dates such as 03/04/2021.")] = "",
    header: Annotated[
        str, typer.Option(help="none: the file has no line of names. yes: it has. Otherwise that line.")
    ] = "",
    encoding: Annotated[str, typer.Option(help="Of lines that are no UTF-8. Default: windows-1252.")] = "",
    target: Annotated[str, typer.Option(help="What the label is: classes, grades or number. Default: classes.")] = "",
    output: Annotated[Path | None, typer.Option(help="File to write. Default: schema.toml beside the table.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was found as JSON.")] = False,
) -> None:
    """Look at a public table, and write its schema.

    It says how each column is read; real silos need the schema. Use public rows only: everybody reads what a schema
    says. A simulation needs no schema.

    Examples
    --------
    fedkd server schema public.csv --label outcome
    fedkd server schema public.csv --label age --target "number(edges=[0, 18, 40, 65, 100])"
    fedkd server schema public.csv --label outcome --classes "home,ward" --id-column id --drop name,remark --decimal ,
    """
    from dataclasses import asdict

    from fedkd_flwr.data.columns import short_list
    from fedkd_flwr.data.look import Rules, look_at_file, note_lines
    from fedkd_flwr.errors import printable

    given = {"classes": classes, "output": str(output or "")}
    lists = {"drop": drop, "text": text, "missing": missing}
    plain = {"id_column": id_column, "decimal": decimal, "date_order": date_order}
    plain |= {"header": header, "encoding": encoding, "target": target}
    rules = Rules(**plain, **{name: _names(words) for name, words in lists.items()})  # type: ignore[arg-type]
    found, made = look_at_file(table, label=label, classes=_names(classes), rules=rules, options=given)
    path = output or table.expanduser().parent / "schema.toml"
    made.write(path)
    if as_json:
        facts: dict[str, Any] = {"schema": str(path.absolute()), "label": made.label, "classes": made.classes}
        facts |= {"columns": [asdict(note) for note in found.notes], "next": found.command}
        print_json(facts)
        return
    typer.echo("\n".join(note_lines(found.notes)))
    typer.echo(printable(f"label {made.label!r}, {made.num_classes} classes: {short_list(made.classes)}"))
    if found.command:
        typer.echo(f"Columns were left out, or say little (see their notes). To drop them all: {found.command}")
    typer.echo(f"wrote {path.absolute()}\nRead it, correct it by hand, and give every party the same file.")
    typer.echo("A rule in a note, such as drop=age, is the option --drop age here.")


def public(
    source: Annotated[str, typer.Argument(metavar="SCHEMA.toml|RUN", help="A schema with bins; or a run.")],
    output: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the files go.")] = Path("public"),
    rows: Annotated[int, typer.Option(help="Of a run: how many rows to draw.", min=1)] = 4000,
    seed: Annotated[int, typer.Option(help="Of the draw; it need not be secret.", min=0)] = 1,
    columns: Annotated[str, typer.Option(help="Write the schema first: names of its columns, with commas.")] = "",
    label: Annotated[str, typer.Option(help="Of a schema to write: its label column.")] = "label",
    classes: Annotated[str, typer.Option(help='Of a schema to write: all classes, such as "no,yes".')] = "no,yes",
    output_dir: OutputDir = OUTPUT,
    as_json: AsJson = False,
) -> None:
    """Make public rows from noisy counts.

    In three steps, of which the second alone costs privacy. With --columns: write a schema to edit by hand. With a
    schema: write the public file of a run of noisy-sums. With such a run, of silos or simulated: draw rows, and say
    on a page what they cost and how near they are.

    Examples
    --------
    fedkd server public schema.toml --columns age,sex,outcome --label outcome --classes "home,ward"
    fedkd server public schema.toml --output bins
    fedkd server run algorithm=noisy-sums epsilon=0.5 public-path=bins/bins.csv num-rounds=1
    fedkd server public last --rows 4000 --output public
    """
    from fedkd_flwr.app import public_rows
    from fedkd_flwr.errors import DataError, explain

    if columns:
        if (path := Path(source)).exists():
            raise DataError(explain(f"file {path}", "not be there yet", "a file", "Edit it, and leave --columns out."))
        public_rows.template([*_names(columns)], label=label, classes=[*_names(classes)]).write(path)
        typer.echo(f"wrote {path.absolute()}")
        typer.echo("Edit it from what everybody knows, never from private rows: kind, categories, bins of each column.")
        return
    if source.endswith(".toml"):
        made = public_rows.bin_file(Path(source), output)
        path = (output / "bins.csv").absolute()
        settings = ["algorithm=noisy-sums", "epsilon=0.5", "num-rounds=1", f"public-path={path}"]
        settings.append("paper.party-models=false")
        if as_json:
            print_json({"public": str(path), "fingerprint": made.fingerprint, "settings": settings})
            return
        typer.echo(f"wrote {path}: {made.num_rows} rows that show each bin, nobody's")
        typer.echo("Give this file and the schema beside it to each silo as its public-path; each allows noisy-sums.")
        typer.echo(f"Then: {shlex.join(['fedkd', 'server', 'run', *settings])}")
        return
    facts = public_rows.make_public(source, output, rows=rows, seed=seed, output_dir=output_dir)
    if as_json:
        print_json(facts)
        return
    typer.echo(f"wrote {(output / 'public.csv').absolute()}: {rows:,} rows")
    typer.echo(f"what they cost, and how near they are: {(output / 'public.md').absolute()}")
    typer.echo(f"public-path={(output / 'public.csv').absolute()}")


def _names(text: str) -> tuple[str, ...]:
    return tuple(filter(None, map(str.strip, text.split(","))))

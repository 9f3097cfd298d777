"""The command ``fedkd server public``: public rows where there are none."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from fedkd_flwr.app.find_run import OUTPUT
from fedkd_flwr.cli.options import AsJson, OutputDir, print_json

__all__ = ["public"]


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
    fedkd server run algorithm=noisy-sums epsilon=0.5 public-path=bins/bins.csv paper.party-models=false
    fedkd server public last --rows 4000 --output public
    """
    from fedkd_flwr.app import public_rows
    from fedkd_flwr.errors import DataError, explain

    if columns:
        if (path := Path(source)).exists():
            raise DataError(explain(f"file {path}", "not be there yet", "a file", "Edit it, and leave --columns out."))
        public_rows.template(_names(columns), label=label, classes=_names(classes)).write(path)
        typer.echo(f"wrote {path.absolute()}")
        typer.echo("Edit it from what everybody knows, never from private rows: kind, categories, bins of each column.")
        return
    if source.endswith(".toml"):
        made = public_rows.bin_file(Path(source), output)
        path = (output / "bins.csv").absolute()
        settings = ["algorithm=noisy-sums", "epsilon=0.5", f"public-path={path}", "paper.party-models=false"]
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


def _names(text: str) -> list[str]:
    return list(filter(None, map(str.strip, text.split(","))))

"""The command ``fedkd server schema``: look at a table and write its schema."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fedkd_flwr.cli.options import print_json

__all__ = ["schema"]


def schema(
    table: Annotated[Path, typer.Argument(help="CSV, TSV, Parquet, NPZ or LIBSVM file of public rows.")],
    label: Annotated[str, typer.Option(help="Its label column.")] = "label",
    classes: Annotated[str, typer.Option(help='All class names, e.g. "no,yes". Default: the label column\'s.')] = "",
    id_column: Annotated[str, typer.Option(help="A column that names rows and is no feature.")] = "",
    drop: Annotated[str, typer.Option(help="Columns to leave out, with commas.")] = "",
    text: Annotated[str, typer.Option(help="Columns of free text, with commas; prose is found without.")] = "",
    decimal: Annotated[str, typer.Option(help="Sign before decimals, . or ,. Default: found.")] = "",
    missing: Annotated[str, typer.Option(help="Further words for an empty cell, as in unknown,age:-999.")] = "",
    date_order: Annotated[str, typer.Option(help="day-first or month-first, for dates such as 03/04/2021.")] = "",
    ranges_as: Annotated[str, typer.Option(help="What <0.5 is: number, middle (0.25) or missing.")] = "",
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
    from fedkd_flwr.data.look import Rules, note_lines
    from fedkd_flwr.data.write_schema import look_at_file
    from fedkd_flwr.errors import printable

    given = {"classes": classes, "output": str(output or "")}
    lists = {"drop": drop, "text": text, "missing": missing}
    plain = {"id_column": id_column, "decimal": decimal, "date_order": date_order, "ranges_as": ranges_as}
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
    typer.echo(
        f"wrote {path.absolute()}\nRead it, correct it by hand where needed, and give every party the same file."
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(filter(None, map(str.strip, text.split(","))))

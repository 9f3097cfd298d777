"""Write a schema from a public file; the kind of each column is found from its values.

The command: ``python -m fedkd_flwr.data.write_schema public.csv --classes "<=50K,>50K" --label income``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from fedkd_flwr.data.columns import column_numbers, column_texts, short_list, sorted_texts
from fedkd_flwr.data.schema import Column, Schema
from fedkd_flwr.data.tables import read_table
from fedkd_flwr.errors import DataError, FedkdError, explain

__all__ = ["infer_schema", "main"]

# a column with more distinct texts than this, in more than half of its rows, holds names or identifiers
_MANY_CATEGORIES = 256
_PROSE_WORDS = 5  # a text of at least so many words counts as prose


def infer_schema(
    table: pd.DataFrame,
    *,
    classes: Sequence[str] = (),
    label: str = "label",
    id_column: str | None = None,
    text_columns: Sequence[str] = (),
) -> Schema:
    """Return the schema of a public table. Never call it on private rows.

    A column whose values can all be read as numbers is numeric. A column whose texts mostly differ and mostly have five
    words or more is text. Any other is categorical, with the texts it holds as categories.

    Parameters
    ----------
    table : DataFrame
        The public rows.
    classes : sequence of str
        Class names; by default the sorted values of the label column, which the table must then have.
    label : str
        Name of the label column.
    id_column : str or None
        A column to leave out.
    text_columns : sequence of str
        Columns that are text, whatever their values are.

    Raises
    ------
    DataError
        If there are neither class names nor a label column, or a column looks like an identifier.
    """
    names = [str(name) for name in table.columns]
    if not classes:
        if label not in names:
            rule = f"be named, as the public file has no label column {label!r}"
            way_out = 'Pass them, e.g. --classes "no,yes": they are not inferred from private rows.'
            raise DataError(explain("classes", rule, f"columns {short_list(names)}", way_out))
        classes = sorted_texts(column_texts(table[label]))
    if id_column is not None and id_column not in names:
        raise DataError(explain("id column", f"be one of the columns {short_list(names)}", id_column))
    if unknown := [name for name in text_columns if name not in names or name in (label, id_column)]:
        raise DataError(explain("text columns", f"be among the feature columns {short_list(names)}", unknown[0]))
    columns = tuple(
        Column(name=name, kind="text") if name in text_columns else _infer_column(table[name], name)
        for name in names
        if name not in (label, id_column)
    )
    return Schema(columns=columns, classes=tuple(c.strip() for c in classes), label=label, id_column=id_column)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command ``python -m fedkd_flwr.data.write_schema``; return 0, or 1 after an error message."""
    parser = argparse.ArgumentParser(
        prog="python -m fedkd_flwr.data.write_schema",
        description="Write schema.toml from a public file. Use no private rows: what it says, everybody reads.",
    )
    parser.add_argument("public_file", help="CSV, TSV, Parquet, NPZ or LIBSVM file of public rows")
    parser.add_argument("--classes", default="", help='class names, e.g. "<=50K,>50K"; default: from the label column')
    parser.add_argument("--label", default="label", help="name of the label column (default: label)")
    parser.add_argument("--id-column", default=None, help="a column that is no feature")
    parser.add_argument("--text", default="", help="columns of free text, comma-separated; prose is found without")
    parser.add_argument("--out", default=None, help="file to write (default: schema.toml beside the public file)")
    options = parser.parse_args(argv)
    out = Path(options.out or Path(options.public_file).parent / "schema.toml")
    try:
        classes = [name.strip() for name in options.classes.split(",") if name.strip()]
        table = read_table(options.public_file, label=options.label)
        texts = [name.strip() for name in options.text.split(",") if name.strip()]
        schema = infer_schema(
            table, classes=classes, label=options.label, id_column=options.id_column, text_columns=texts
        )
    except FedkdError as error:
        print(error, file=sys.stderr)
        return 1
    schema.write(out)
    categorical = [column for column in schema.columns if column.kind == "categorical"]
    print(f"wrote {out.resolve()}")
    kinds = f"{len(categorical)} categorical, {len(schema.text_columns)} text"
    print(f"{len(table)} rows, {len(schema.columns)} feature columns ({kinds})")
    print(f"label {schema.label!r}, {schema.num_classes} classes: {short_list(schema.classes)}")
    print("Read it, correct it by hand where needed, and give every party the same file.")
    return 0


def _infer_column(values: pd.Series[Any], name: str) -> Column:
    if values.dtype.kind != "b":
        try:
            column_numbers(values, name)
        except DataError:
            pass
        else:
            return Column(name=name, kind="numeric")
    categories = sorted_texts(column_texts(values))
    if 2 * len(categories) > len(values) and _is_prose(categories):
        return Column(name=name, kind="text")
    if len(categories) > _MANY_CATEGORIES and 2 * len(categories) > len(values):
        seen = f"{len(categories)} different texts in {len(values)} rows"
        way_out = (
            "If it identifies rows, name it as the id column; if it is to be read as text, as a text column "
            "(--text); otherwise take it out or group its values."
        )
        raise DataError(explain(f"column {name!r}", "hold numbers or a limited number of categories", seen, way_out))
    return Column(name=name, kind="categorical", categories=categories)


def _is_prose(texts: Sequence[str]) -> bool:
    return 2 * sum(len(text.split()) >= _PROSE_WORDS for text in texts) > len(texts)


if __name__ == "__main__":
    sys.exit(main())

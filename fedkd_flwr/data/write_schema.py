"""The schema of a public table, found by looking at its values."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from fedkd_flwr.data.columns import column_name, short_list
from fedkd_flwr.data.look import NO_RULES, ColumnNote, Look, Rules, look, look_at_images
from fedkd_flwr.data.schema import Schema
from fedkd_flwr.data.tables import read_table
from fedkd_flwr.errors import DataError, explain

__all__ = ["infer_schema", "look_at_file", "look_at_table", "schema_of"]


def infer_schema(
    table: pd.DataFrame,
    *,
    classes: Sequence[str] = (),
    label: str = "label",
    id_column: str = "",
) -> Schema:
    """Return the schema of a public table. Never call it on private rows.

    A column whose values can be read as numbers or dates is numeric. A column whose texts mostly differ and mostly have
    five words or more is text; one whose texts nearly all differ otherwise is left out, as it identifies rows. Any
    other is categorical, with the texts it holds as categories. `look` says what was done to each column.

    Classes are by default the sorted values of the label column.
    """
    found = look(table, label=label, rules=Rules(id_column=id_column), needs_label=False)
    return schema_of(found, table, label=label, classes=classes)


def look_at_file(
    path: Path, *, label: str, classes: Sequence[str] = (), rules: Rules = NO_RULES, options: Mapping[str, str] = {}
) -> tuple[Look, Schema]:
    """Look at a public file, as the command ``fedkd server schema`` does; return what was found, and the schema.

    ``options`` are further options of the command, for the complete next one; the rest is as in `infer_schema`.
    """
    label = column_name(label)

    def next_command(words: Mapping[str, str]) -> str:
        pairs = {"label": label, **options, **words}.items()
        given = [part for key, value in pairs if value for part in (f"--{key}", value)]
        return shlex.join(["fedkd", "server", "schema", str(path), *given])

    def spell(key: str, value: str) -> str:
        return shlex.join([f"--{key}", value])

    said: list[str] = []
    table = read_table(path, label=label, header=rules.header, encoding=rules.encoding, notes=said)
    found = look_at_table(table, label, rules, said=said, command=next_command, spell=spell, needs_label=False)
    return found, schema_of(found, table, label=label, classes=classes)


def look_at_table(table: pd.DataFrame, label: str, rules: Rules, *, said: Sequence[str], **how: Any) -> Look:
    """Look at the columns or images of a table that was read without a schema.

    ``said`` is what is known of its file, in sentences; ``how`` is told to `look`.
    """
    if shape := table.attrs.get("shape"):
        labels = table[label] if label in table.columns else None
        of_label = {key: how[key] for key in ("rare", "needs_label") if key in how}
        return look_at_images(labels, shape, label=label, rules=rules, **of_label)
    found = look(table, label=label, rules=rules, **how)
    notes = (*(ColumnNote(name="", read_as="file", note=text) for text in said), *found.notes)
    return replace(found, notes=notes, header=table.attrs.get("header", ""), encoding=rules.encoding)


def schema_of(found: Look, table: pd.DataFrame, *, label: str, classes: Sequence[str] = ()) -> Schema:
    """Return the schema of what was looked at; ``classes`` replace the values of its label column."""
    if not (classes or found.classes or label in table.columns):
        rule = f"be named, as the public file has no label column {label!r}"
        way_out = f"Its columns are {short_list([str(name) for name in table.columns])}."
        way_out += ' Or name the label column with --label, or all classes, e.g. --classes "no,yes".'
        raise DataError(explain("classes", rule, "no classes", way_out))
    named = tuple(name.strip() for name in classes) or found.classes
    return Schema(
        columns=found.columns,
        classes=named,
        label=label,
        id_column=found.id_column,
        shape=found.shape,
        header=found.header,
        encoding=found.encoding,
        target=found.target,
    )

"""Look at a messy table: what each column is, which cells need a rule to be read, and what the user should know.

What is sure is repaired by a rule of the schema (`Reading`) and reported; what is harmless but not sure gets a note;
where a wrong guess would spoil the run, nothing is guessed: the error ends with the complete next command.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from fedkd_flwr.data.cell_rules import ColumnLook
from fedkd_flwr.data.column_look import look_at_column, signs_of
from fedkd_flwr.data.columns import column_name, counted, missing_words, short_list
from fedkd_flwr.data.label_look import ask_about_missing, ask_about_numbers, look_at_classes, look_at_target
from fedkd_flwr.data.reading import Reading
from fedkd_flwr.data.rules import NO_RULES, Rules
from fedkd_flwr.data.schema import Column, Schema
from fedkd_flwr.data.tables import read_table
from fedkd_flwr.errors import Code, DataError, explain, printable
from fedkd_flwr.labels.target import Target

__all__ = ["NO_RULES", "ColumnNote", "Look", "Rules"]
__all__ += ["infer_schema", "look", "look_at_file", "look_at_table", "note_lines", "schema_of"]

_RARE = 10
_MANY_COLUMNS = 60  # more are not all listed


@dataclass(frozen=True, kw_only=True)
class ColumnNote:
    """What was done to one column."""

    name: str  # empty for the file itself
    read_as: str  # what it became, in words
    repaired: int = 0  # cells that a rule had to read: a decimal comma, a date, ...
    missing: int = 0  # cells without a value
    note: str = ""  # what its owner should know


@dataclass(frozen=True, kw_only=True)
class Look:
    """What was found in a table.

    ``command`` is the complete next command. It drops the columns that were left out and those that notes call
    identifiers or of little use, and is empty if it would drop no more. ``shape``, ``header`` and ``encoding``
    are as in `fedkd_flwr.data.schema.Schema`.
    """

    columns: tuple[Column, ...]  # the features, with the categories of the whole table
    classes: tuple[str, ...]  # the values of the label column; empty without one
    id_column: str | None
    notes: tuple[ColumnNote, ...]
    command: str
    shape: tuple[int, ...] | None = None
    header: str = ""
    encoding: str = ""
    target: Target | None = None  # what the classes stand for, where they have an order


def look(
    table: pd.DataFrame,
    *,
    label: str,
    rules: Rules = NO_RULES,
    command: Callable[[Mapping[str, str]], str] | None = None,
    rare: int = _RARE,
    needs_label: bool = True,
) -> Look:
    """Look at each column of a table: find what it is, and by which rules its cells are read.

    The label column may be absent. ``command`` returns the complete next command, with which a `DataError` ends, for
    rules in words. A class of fewer than ``rare`` rows is named; with ``needs_label`` rows need a label to be used.
    """
    if not len(table):
        raise DataError(explain("table", "hold at least one row", "none"), code=Code.NO_ROWS)
    command = command or _schema_command
    names = [str(name) for name in table.columns]
    _refuse_unknown(names, label, rules)
    classes: tuple[str, ...] = ()
    notes: list[ColumnNote] = []
    target: Target | None = None
    if label in names:
        known = rules.of_column(label, names)
        ask_about_missing(table[label], label, rules, known, command)
        ask_about_numbers(table[label], label, known, lambda words: command(rules.words() | dict(words)))
        if not known.target or known.target == "classes":
            classes, said = look_at_classes(table[label], label, known, rare, needs_label)
            notes.append(ColumnNote(name=label, **said))
    if rules.target.startswith(("grades", "number")):
        values = table.get(label, ())  # bounds and an order say all, also without a label
        target, classes, said = look_at_target(values, label, rules.of_column(label, names))
        notes.append(ColumnNote(name=label, **said))
    left_out = {rules.id_column: "left out: id column", **dict.fromkeys(rules.drop, "left out: drop")}
    notes += [ColumnNote(name=name, read_as=left_out[name]) for name in names if name in left_out]
    rules_of = {name: rules.of_column(name, names) for name in names if name != label and name not in left_out}
    signs = {name: signs_of(table[name]) for name in rules_of if name not in rules.text}
    # the columns whose commas or points may mean two things are read as the others; a comma anywhere decides
    decimal = min({one.sign for one in signs.values() if one.are_numbers} - {""}, default="")
    seen = [
        ColumnLook(name=name, kind="text", reading=Reading(missing=own.missing))
        if name in rules.text
        else look_at_column(table[name], name, own, signs[name], decimal)
        for name, own in rules_of.items()
    ]
    changes = _changes(seen, rules)
    _refuse_problems(seen, changes, command)
    for one in seen:
        _say_missing_words(one, table[one.name], rules_of[one.name])
    same = ("name", "read_as", "repaired", "missing")
    notes += [ColumnNote(note="; ".join(one.notes), **{key: getattr(one, key) for key in same}) for one in seen]
    order = {"": -1, label: -1, **{name: i for i, name in enumerate(names)}}
    following, gone = _changes(seen, rules, droppable=True), [one for one in seen if one.kind == "left out"]
    return Look(
        columns=_features(seen, names),
        classes=classes,
        id_column=changes.get("id-column"),
        notes=tuple(sorted(notes, key=lambda note: order[note.name])),
        command=command(following) if following != _changes(gone, rules) else "",
        target=target,
    )


def _refuse_unknown(names: list[str], label: str, rules: Rules) -> None:
    """Refuse rules that name the label, or no column."""
    for key, given in (("id-column", (rules.id_column,)), ("drop", rules.drop), ("text", rules.text)):
        if unknown := [name for name in given if name and (name not in names or name == label)]:
            rule = f"name columns other than the label: {short_list([name for name in names if name != label])}"
            raise DataError(explain(key, rule, ", ".join(unknown), "Spell them as in the file's first line."))


def _features(seen: list[ColumnLook], names: list[str]) -> tuple[Column, ...]:
    """Return the columns that a model learns from."""
    columns = tuple(
        Column(name=one.name, kind=one.kind, categories=one.categories, reading=one.reading)  # type: ignore[arg-type]
        for one in seen
        if one.kind != "left out"
    )
    if not columns:
        way_out = "Give a table with at least one column that is neither label nor identifier."
        raise DataError(explain("table", "hold a column to learn from", f"columns {short_list(names)}", way_out))
    return columns


def _look_at_images(
    table: pd.DataFrame, shape: tuple[int, ...], label: str, rules: Rules, rare: int, needs_label: bool
) -> Look:
    """Return what was found in a file of images of a ``shape``, whose pixels need no look; else as `look`."""
    if given := [key for key in rules.words() if key != "missing"]:
        way_out = "Leave it out: all pixels are read as they are."
        raise DataError(explain(given[0], "be given for a table, not for images", rules.words()[given[0]], way_out))
    notes = [ColumnNote(name="", read_as=f"images, {' x '.join(map(str, shape))} (channels, height, width)")]
    classes: tuple[str, ...] = ()
    if label in table.columns:
        classes, said = look_at_classes(table[label], label, rules.of_column(label, [label]), rare, needs_label)
        notes.append(ColumnNote(name=label, **said))
    return Look(columns=(), classes=classes, id_column=None, notes=tuple(notes), command="", shape=shape)


def _schema_command(words: Mapping[str, str]) -> str:
    return " ".join(["fedkd server schema TABLE", *(shlex.join([f"--{key}", value]) for key, value in words.items())])


def note_lines(notes: Sequence[Any]) -> list[str]:
    """Return notes, or a record's `columns`, as a table of text; of a wide one only columns with something to say."""
    told = [note for note in notes if len(notes) <= _MANY_COLUMNS or note.note or note.repaired or note.missing]
    cells: list[tuple[str, ...]] = [("column", "read as", "repaired", "empty", "note")]
    rows = [(n.name or "(file)", n.read_as, f"{n.repaired:,}", f"{n.missing:,}", n.note) for n in told]
    cells += [tuple(map(printable, row)) for row in rows]  # names and classes may hold line breaks
    widths = [max(len(row[i]) for row in cells) for i in range(4)]
    lines = [
        f"{row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]:>{widths[2]}}  {row[3]:>{widths[3]}}  {row[4]}".rstrip()
        for row in cells
    ]
    if others := len(notes) - len(told):
        lines.append(f"and {counted(others, 'column')} with nothing to say")
    return lines if told else lines[1:]


def _say_missing_words(seen: ColumnLook, values: pd.Series[Any], rules: Rules) -> None:
    """Note words such as NA that were read as empty where they may mean something, and Excel's errors everywhere."""
    if seen.kind == "left out" or values.dtype.kind in "biufMm":
        return
    plain = seen.kind == "numeric"
    found = {word: number for word, number in missing_words(values).items() if word[0] == "#" or not plain}
    if found := {word: number for word, number in found.items() if word not in rules.missing}:
        words = ", ".join(f"{word!r} ({number:,})" for word, number in found.items())
        then = "" if plain else "; write it otherwise if it is a category"
        seen.notes.append(f"{counted(sum(found.values()), 'cell')} read as empty: {words}{then}")


def _changes(seen: list[ColumnLook], rules: Rules, *, droppable: bool = False) -> dict[str, str]:
    """Return rules in words that leave out what was left out, looks like an identifier or, if so told, says little."""
    words = rules.words()
    chosen = [one for one in seen if one.identifies or one.kind == "left out" or (droppable and one.droppable)]
    found = [one for one in chosen if "," not in one.name]
    ids = [one.name for one in found if one.identifies]
    if ids and not rules.id_column:
        words["id-column"] = ids[0]
    drop = [*rules.drop, *(one.name for one in found if one.name != words.get("id-column"))]
    return words | ({"drop": ",".join(drop)} if drop else {})


def _refuse_problems(
    seen: list[ColumnLook], words: dict[str, str], command: Callable[[Mapping[str, str]], str]
) -> None:
    """Raise one error for the columns that cannot be read, with the complete next command, or one for each meaning."""
    problems = [one for one in seen if one.problem]
    if not problems:
        return
    words = dict(words)
    for key in ("missing", "drop"):
        if more := [one.change[key] for one in problems if key in one.change]:
            words[key] = ",".join([*([words[key]] if key in words else []), *more])
    first, *others = sorted(problems, key=lambda one: not one.choices)
    said = first.problem
    if others:
        said += f" {counted(len(others), 'more column')} cannot be read: {short_list([one.name for one in others], 5)}."
    choices = first.choices or {"Next": {}}
    lines = [f"{meaning}: {command(words | change)}" for meaning, change in choices.items()]
    raise DataError("\n".join([said, *lines]))


# ---------------------------------------------------------------------------- the schema of a public table


def infer_schema(
    table: pd.DataFrame, *, classes: Sequence[str] = (), label: str = "label", id_column: str = ""
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

    said: list[str] = []
    table = read_table(path, label=label, header=rules.header, encoding=rules.encoding, notes=said)
    found = look_at_table(table, label, rules, said=said, command=next_command, needs_label=False)
    return found, schema_of(found, table, label=label, classes=classes)


def look_at_table(table: pd.DataFrame, label: str, rules: Rules, *, said: Sequence[str], **how: Any) -> Look:
    """Look at the columns or images of a table that was read without a schema.

    ``said`` is what is known of its file, in sentences; ``how`` is told to `look`.
    """
    if shape := table.attrs.get("shape"):
        return _look_at_images(table, shape, label, rules, how.get("rare", _RARE), how.get("needs_label", True))
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

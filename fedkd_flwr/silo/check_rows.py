"""What stands in a silo's private file, held against the public schema and the public rows.

Nothing of it leaves the silo: every finding is marked private.
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedkd_flwr.data.columns import canonical, column_texts, counted, short_list
from fedkd_flwr.data.own_columns import find_columns
from fedkd_flwr.data.schema import Schema
from fedkd_flwr.data.shift import FEWEST_ROWS, Shift
from fedkd_flwr.data.tables import readable_rows
from fedkd_flwr.silo.check import Finding, Level

__all__ = [
    "check_classes",
    "check_columns",
    "check_encoding",
    "check_own_columns",
    "check_rows",
    "check_shift",
    "check_values",
    "count_classes",
]

_FEW_ROWS, _SURE_ROWS = 50, 200
_TELLING_AUC, _LITTLE_FIT = 0.9, 0.5
_ELSEWHERE_AUC, _NO_FIT = 0.98, 0.2
_MANY_UNKNOWN = 0.05  # of the cells of a column, of no category of the schema
_DIFFERENT = 0.2  # between the distributions of a column


def check_encoding(notes: Sequence[str], path: str) -> Finding:
    """Return in which encoding a file was read; ``notes`` are those of `read_table`."""
    told = "; ".join(notes)
    if any("Windows-1252" in note or "UTF-16" in note for note in notes):
        name = Path(path)
        old = "utf-16" if "UTF-16" in told else "cp1252"
        way_out = (
            f"If names with umlauts or accents look wrong, save it as UTF-8: iconv -f {old} -t utf-8 "
            f"{shlex.quote(path)} > {shlex.quote(f'{name.stem}-utf8{name.suffix}')}"
        )
        return Finding(subject="encoding", level=Level.WARNING, what=told, way_out=way_out, private=True)
    return Finding(subject="encoding", level=Level.READY, what=told or "UTF-8, or a binary format", private=True)


def check_columns(table: pd.DataFrame, schema: Schema, path: str, own: Sequence[str] = ()) -> Finding:
    """Return whether a table has the schema's columns; else a command that renames those that are meant, if all are.

    ``own``: columns that only this party has, which its own final model reads.
    """
    there = [str(name) for name in table.columns]
    wanted = [*schema.column_names, schema.label]
    missing = [name for name in wanted if name not in there]
    more = [name for name in there if name not in wanted]
    if not missing:
        known = f"all {len(schema.column_names)} of the schema, and the label {schema.label!r}"
        unused = [name for name in more if name not in own]
        what = known + (f"; not used: {short_list(unused)}" if unused else "")
        readable = bool({*unused} - {schema.id_column}) and not own
        way_out = "Your own final model could read them: docs/your-data.md, Own columns." if readable else ""
        return Finding(subject="columns", level=Level.READY, what=what, way_out=way_out, private=True)
    pairs: dict[str, str] = {}
    for name in missing:
        folded = {one.casefold(): one for one in more if one not in pairs.values()}
        if near := difflib.get_close_matches(name.casefold(), list(folded), n=1, cutoff=0.7):
            pairs[name] = folded[near[0]]
    lone = [f"the label {name!r}" if name == schema.label else repr(name) for name in missing]
    what = f"{path} lacks {short_list(lone)}" + (f"; it has besides: {short_list(more)}" if more else "")
    rename = {old: new for new, old in pairs.items()}
    way_out = "Export the table with the schema's column names: " + short_list(wanted, 40)
    if rename and len(rename) == len(missing) and path.endswith((".csv", ".tsv", ".parquet")):
        way_out = f"Rename them: {_python(path)}.rename(columns={rename!r}){_to_file(path, 'renamed')}"
    return Finding(subject="columns", level=Level.FAULT, what=what, way_out=way_out, private=True)


def check_own_columns(table: pd.DataFrame, schema: Schema, names: Sequence[str]) -> Finding:
    """Return how the columns are read that the owner says only this party has, and which of them cannot be used."""
    columns, left_out = find_columns(table, names, schema)
    read = [f"{one.name} ({one.kind})" for one in columns]
    what = f"for this party's own final model: {short_list(read) or 'none'}"
    if not left_out:
        return Finding(subject="own columns", level=Level.READY, what=what, private=True)
    what += "; not used: " + "; ".join(f"{name!r}: {why}" for name, why in left_out.items())
    kept = ",".join(one.name for one in columns)
    others = [str(name) for name in table.columns if name not in (schema.label, *schema.column_names)]
    way_out = (
        f'Set own-columns="{kept}" in the node config, or correct the file and look again. The columns of the file '
        f"that the schema does not name: {short_list(others) or 'none'}."
    )
    return Finding(subject="own columns", level=Level.WARNING, what=what, way_out=way_out, private=True)


_DECIMALS = {  # numbers with this sign before the decimals
    ",": re.compile(r"[+-]?(\d+|\d{1,3}(\.\d{3})+),\d+"),
    ".": re.compile(r"[+-]?(\d+|\d{1,3}(,\d{3})+)\.\d+"),
}
_SIGNS = {",": "commas", ".": "points"}


def check_values(table: pd.DataFrame, schema: Schema, path: str) -> Iterator[Finding]:
    """Yield which columns hold cells that are none as the schema has them: decimal commas, above all.

    A category that the schema does not name is legal and counts as empty; a column with many of them gets a warning.
    """
    readable, told = readable_rows(table, schema).all(), False
    bad = {} if readable else _bad_numbers(table, schema)
    signs = {name: sign for name, rows in bad.items() if (sign := _other_sign(table, schema, name, rows))}
    for name, rows in bad.items():
        cells = table[name][rows].astype(str).str.strip()
        what = f"column {name!r}: {_rows_words(rows)} hold no number as the schema has it: {_first(cells)}"
        way_out = "Correct these cells, or leave these rows out. What a cell may be stands in schema.toml."
        if name in signs:
            other, own = signs[name], "," if signs[name] == "." else "."
            turned = _has_decimals(cells, other)
            shown, rest = (_first(part) for part in (cells[turned], cells[~turned]))
            what = (
                f"column {name!r} has decimal {_SIGNS[other]} ({shown}) in {int(turned.sum()):,} of {len(rows):,} "
                f"rows; the schema's numbers have decimal {_SIGNS[own]}"
            )
            what += f"; no number with either sign in {counted(int((~turned).sum()), 'row')}: {rest}" if rest else ""
            command = _python(path) + _with_other_signs(signs) + _to_file(path, _SIGNS[own])
            way_out = f"Export the table with decimal {_SIGNS[own]}, or turn them: {command}"
        yield Finding(subject="values", level=Level.FAULT, what=what, way_out=way_out, private=True)
    few = []
    for column in schema.columns:
        if column.kind != "categorical":
            continue
        texts = column_texts(table[column.name], column.reading.missing)
        known = {None, *map(canonical, column.categories)}
        unknown = np.array([text not in known for text in texts], dtype=bool)
        filled = int((texts != None).sum())  # noqa: E711 - elementwise
        if unknown.sum() > _MANY_UNKNOWN * filled:
            shown = short_list([repr(text[:30]) for text in dict.fromkeys(texts[unknown])], 3)
            share = round(100 * unknown.sum() / filled)
            what = (
                f"column {column.name!r}: {_rows_words(unknown)}, {share} % of its cells that are not empty, hold a "
                f"category that the schema does not name, and count as empty: {shown}"
            )
            way_out = (
                f"The schema names {short_list([repr(one) for one in column.categories], 5)}. Write the cells so; or, "
                "if they are right, have their values added to schema.toml at the server and at every party."
            )
            told = True
            yield Finding(subject="values", level=Level.WARNING, what=what, way_out=way_out, private=True)
        elif unknown.any():
            few.append(f"{column.name!r} {int(unknown.sum()):,}")
    if readable and not told:
        what = "all cells are as the schema has them"
        if few:
            what = f"all numbers are as the schema has them; cells of no category count as empty: {short_list(few)}"
        yield Finding(subject="values", level=Level.READY, what=what, private=True)


def _bad_numbers(table: pd.DataFrame, schema: Schema) -> dict[str, NDArray[np.bool_]]:
    """Return which rows hold no number, by column of numbers that has such rows."""
    read = {one.name: one.reading.parse(table[one.name])[1] for one in schema.columns if one.kind == "numeric"}
    return {name: rows for name, rows in read.items() if rows.any()}


def _other_sign(table: pd.DataFrame, schema: Schema, name: str, rows: NDArray[np.bool_]) -> str:
    """Return the decimal sign of most cells of these rows, if it is not the schema's."""
    decimal = next(one.reading.decimal for one in schema.columns if one.name == name)
    other = "," if decimal == "." else "."
    return other if _has_decimals(table[name][rows].astype(str).str.strip(), other).mean() > 0.5 else ""


def _first(cells: pd.Series[str]) -> str:
    """Return the first different cells, at most three, for a message."""
    return ", ".join(repr(cell[:30]) for cell in cells.unique()[:3])


def _has_decimals(cells: pd.Series[str], sign: str) -> NDArray[np.bool_]:
    """Tell which cells are numbers with this sign before their decimals."""
    return np.array([bool(_DECIMALS[sign].fullmatch(cell.replace("\u2212", "-"))) for cell in cells], dtype=bool)


def _with_other_signs(signs: Mapping[str, str]) -> str:
    """Return the part of a command that turns decimal signs, given those that stand in each column."""
    turned = {name: {",": "."} if sign == "," else {"[.]": ","} for name, sign in signs.items()}
    return f".replace({turned!r}, regex=True)"


def check_classes(table: pd.DataFrame, schema: Schema, path: str) -> Iterator[Finding]:
    """Yield whether each label is one of the schema's, and where it is not, in which rows."""
    texts = column_texts(table[schema.label])
    known = schema.known_labels(table[schema.label])
    empty = np.array([text is None for text in texts], dtype=bool)
    if empty.any():
        raw = table[schema.label][empty]
        spelt = sorted({str(cell).strip() for cell in raw[raw.notna()]})  # such as "?", which pandas takes for a text
        rows = f".dropna(subset=[{schema.label!r}])" if raw.isna().any() else ""
        if spelt:
            rows += f".loc[lambda t: ~t[{schema.label!r}].astype(str).str.strip().isin({spelt!r})]"
        way_out = f"Fill them in, or leave these rows out: {_python(path)}{rows}{_to_file(path, 'labelled')}"
        what = f"{_rows_words(empty)} without a label in column {schema.label!r}"
        yield Finding(subject="classes", level=Level.FAULT, what=what, way_out=way_out, private=True)
    if (~known & ~empty).any():
        strange, times = np.unique(texts[~known & ~empty].astype(str), return_counts=True)
        near = {name: difflib.get_close_matches(name, schema.classes, n=1, cutoff=0.6) for name in strange[:5]}
        named = "; ".join(
            f"{name!r} in {counted(count, 'row')}{f' (did you mean {near[name][0]!r}?)' if near.get(name) else ''}"
            for name, count in list(zip(strange.tolist(), times.tolist(), strict=True))[:5]
        )
        named += f"; {len(strange) - 5:,} more" if len(strange) > 5 else ""
        what = f"column {schema.label!r} holds classes that the schema does not name: {named}"
        way_out = (
            f"The schema's classes are {short_list(schema.classes)}. Correct the rows; or, if it is a class of its "
            "own, have it added to schema.toml at the server and at every party."
        )
        yield Finding(subject="classes", level=Level.FAULT, what=what, way_out=way_out, private=True)
    if known.all():
        counts = count_classes(schema.encode_labels(texts), schema)
        held = sum(count > 0 for count in counts.values())
        shown = short_list([f"{name} {count:,}" for name, count in counts.items()])
        what = f"{held} of {schema.num_classes} classes: {shown}"
        yield Finding(subject="classes", level=Level.READY, what=what, private=True)


def check_rows(counts: Mapping[str, int], promised: int) -> Finding:
    """Return whether there are rows enough; ``promised``: the node's ``rows-at-least``."""
    total, held = sum(counts.values()), [(count, name) for name, count in counts.items() if count]
    least = f"; fewest of a class it holds: {min(held)[0]:,} ({min(held)[1]})" if held else ""
    what, level, way_out = f"{total:,} rows to learn from{least}", Level.READY, ""
    if promised > total:
        level, what = Level.FAULT, f"{what}, and rows-at-least says {promised:,}"
        way_out = f"Set rows-at-least={total // 10 * 10} in the node config, or less. NFDP's claims rest on it."
    elif total < FEWEST_ROWS:
        level = Level.FAULT
        way_out = f"Export more rows: {FEWEST_ROWS} at the very least, and some hundreds to be of use."
    elif total < _FEW_ROWS or len(held) == 1:
        level = Level.WARNING
        way_out = "Export more rows if there are any" + (", of other classes too." if len(held) == 1 else ".")
    return Finding(subject="rows", level=level, what=what, way_out=way_out, private=True)


def check_shift(shift: Shift, columns: Sequence[tuple[str, float]], num_rows: int) -> Finding:
    """Return how far ``num_rows`` private rows are from the public ones, and which columns give it away."""
    what = f"AUC {shift.auc:.2f} (0.5: told apart by chance, 1: always), public set fit {shift.fit:.2f} (1: best)"
    apart = [(name, distance) for name, distance in columns[:3] if distance > _DIFFERENT]
    if apart:
        what += "; most different columns: " + ", ".join(f"{name!r} {distance:.2f}" for name, distance in apart)
    if shift.auc >= _ELSEWHERE_AUC and shift.fit < _NO_FIT:
        level = Level.FAULT
    elif shift.auc >= _TELLING_AUC or (shift.fit < _LITTLE_FIT and num_rows >= _SURE_ROWS):
        level = Level.WARNING
    else:
        return Finding(subject="shift", level=Level.READY, what=what, private=True)
    where = f"Look at {short_list([name for name, _ in apart])} in both files: " if apart else ""
    way_out = (
        f"{where}units, codes and time spans must be the same. If they are, the public rows come from elsewhere: "
        "agree on public rows like yours. A party that holds few of the classes is told apart too, which does no "
        "harm. The same command with --page shift.html draws each column."
    )
    return Finding(subject="shift", level=level, what=what, way_out=way_out, private=True)


def count_classes(y: NDArray[np.int16], schema: Schema) -> dict[str, int]:
    """Return how many of these labels are each class of the schema.

    Parameters
    ----------
    y : ndarray of shape (num_rows,), int16
        Positions in the schema's classes.
    """
    return dict(zip(schema.classes, np.bincount(y, minlength=schema.num_classes).tolist(), strict=True))


def _rows_words(chosen: NDArray[np.bool_]) -> str:
    return f"{int(chosen.sum()):,} of {len(chosen):,} rows (first: row {int(np.flatnonzero(chosen)[0]) + 1})"


def _python(path: str) -> str:
    """Return the start of a command that reads a file of CSV or Parquet, each cell as it stands there."""
    how = "sep=None, engine='python', dtype=str, keep_default_na=False"
    read = f"read_parquet({path!r})" if _is_parquet(path) else f"read_csv({path!r}, {how})"
    return f'python -c "import pandas as pd; pd.{read}'


def _to_file(path: str, what: str) -> str:
    """Return the end of such a command, which writes another file of the same kind."""
    name = f"{Path(path).stem}-{what}"
    return f'.to_parquet({name + ".parquet"!r})"' if _is_parquet(path) else f'.to_csv({name + ".csv"!r}, index=False)"'


def _is_parquet(path: str) -> bool:
    return Path(path).suffix.lower() == ".parquet"

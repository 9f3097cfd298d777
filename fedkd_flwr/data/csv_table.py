"""The text of a CSV file as a table of texts: its encoding, separator and header, and its rows one by one.

What one row holds decides nothing about another: neither how it is decoded nor where it ends.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from fedkd_flwr.data.columns import MISSING, column_name, counted, require_distinct, short_list
from fedkd_flwr.errors import Code, DataError, explain

__all__ = ["csv_table"]

_SEPARATORS = ",;\t|"
_ROWS = 2000  # so many tell enough
_NUMBER = re.compile(r"[+-]?(?:\d+[.,]?\d*|[.,]\d+)(?:[eE][+-]?\d+)?")


def csv_table(
    data: bytes,
    path: Path,
    *,
    header: str = "",
    encoding: str = "",
    wanted: Sequence[str] = (),
    lenient: bool,
    notes: list[str],
) -> pd.DataFrame:
    """Return the table of texts that the bytes of a CSV file hold; its ``attrs`` have the header line that it lacks.

    Its first line names the columns, and is refused where it looks like a row, or like a title above the table. With
    ``header="yes"`` it names them, whatever it looks like; with "none" there is no such line, and the columns are
    called column-1, column-2 and so on; any other text is the line that the file lacks. ``encoding`` is that of lines
    that are no UTF-8 (Windows-1252 by default), ``wanted`` the columns that the schema names; the rest is as in
    `fedkd_flwr.data.tables.read_table`.
    """
    text = _decoded(data, path, encoding=encoding, lenient=lenient, notes=notes)
    text, before = text.replace("\r\n", "\n"), 0  # lines above the header
    if text[:4].lower() == "sep=":  # Excel's own first line
        text, before = text.partition("\n")[2], 1
    stated = ""
    if header not in ("", "yes"):
        stated = header if wanted else _stated(header, text)
        text, before = f"{stated}\n{text}", before - 1
    header_line = _first_line(text)
    if header_line is None:
        raise DataError(explain(f"file {path}", "hold a header line and rows", "an empty file"), code=Code.NO_ROWS)
    found, separator, is_open = _names(header_line)
    if is_open:  # to let it go on, as a row does, would let rows decide what the columns are
        rule, way_out = "hold the columns' names in one line", "Close it, or take the line break out of that name."
        seen = f"a quote that is not closed there, before {found[-1].strip()!r}"
        raise DataError(explain(f"header of {path}", rule, seen, way_out))
    names = [name or f"column-{i + 1}" for i, name in enumerate(found)]
    table, wrong = _csv_rows(text, separator, len(names), before)
    if not lenient:  # other rows would decide whether each can be used
        if not header and not (wanted and set(wanted) <= set(names)):
            _refuse_other_lines(found, table, path, before)
        _refuse_wrong_lines(wrong, path, separator, len(names))
    require_distinct(f"columns of {path}", names)
    table.columns = pd.Index(names)
    for name, written in zip(names, found, strict=True):
        if not written and not lenient and (table[name].str.strip() == "").all():
            table = table.drop(columns=name)
        elif not written:
            notes.append(f"the header gives no name to column {name.rpartition('-')[2]}: it is called {name!r}")
    table.attrs["header"] = stated
    return table


def _first_line(text: str) -> str | None:
    return next((line for line in text.split("\n") if line.strip()), None)


def _stated(header: str, text: str) -> str:
    """Return the line of names that a text lacks, with its separator: numbered names for "none"."""
    cells, separator, _ = _names(_first_line(text) or "")
    if header == "none":
        return separator.join(f"column-{i + 1}" for i in range(len(cells)))
    names, own, _ = _names(header)
    return header if own == separator or len(names) != len(cells) else separator.join(names)


def _names(line: str) -> tuple[list[str], str, bool]:
    """Return the values of a file's first line, its separator, and whether a quote in it is never closed."""
    rows = {sign: _cells(line, sign) for sign in _SEPARATORS}
    counts = {sign: len(row) for sign, (row, _) in rows.items()}
    if max(counts[sign] for sign in _SEPARATORS[1:]) > 1:  # then a comma between digits is one of a decimal number
        counts[","] -= len(re.findall(r"(?<=\d),(?=\d)", line))
    separator = max(counts, key=lambda sign: counts[sign])  # the comma if there is one column
    cells, is_open = rows[separator]
    return [column_name(cell.strip()) for cell in cells], separator, is_open


def _refuse_other_lines(found: list[str], table: pd.DataFrame, path: Path, before: int) -> None:
    """Refuse a file whose first line is a row, whose values would become the columns' names, or is a title."""
    named = list(filter(None, found))
    used = [name or (table.iloc[:, i].str.strip() != "").any() for i, name in enumerate(found)]
    if _is_row(found, table):
        seen = f"what looks like a row: {short_list(found, 5)}"
    elif 2 * len(named) < sum(map(bool, used)):
        seen = f"only {short_list(named)} above {len(found)} columns"
    else:
        return
    way_out = "Take out what stands above a line with a name for each column, or put one first; or say header=none"
    way_out += " (server schema: --header none), which calls them column-1, column-2 and so on."
    way_out += " If these are names: header=yes."
    raise DataError(explain(f"line {before + 1} of {path}", "hold the columns' names", seen, way_out))


def _decoded(data: bytes, path: Path, *, encoding: str, lenient: bool, notes: list[str]) -> str:
    """Return a file's text: UTF-16 by its mark, or UTF-8; else each line is decoded by itself."""
    errors = "replace" if lenient else "strict"
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        notes.append("the file is in UTF-16")
        return data.decode("utf-16", errors=errors)
    try:
        codecs.lookup(encoding or "ascii")
    except LookupError:
        way_out = "Name one such as windows-1251, iso8859-2 or shift_jis."
        raise DataError(explain("encoding", "be one that Python knows", encoding, way_out)) from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        lines = data.removeprefix(codecs.BOM_UTF8).splitlines(keepends=True)
    texts, others = [], []
    other = encoding or "Windows-1252"
    for number, line in enumerate(lines, 1):
        try:
            texts.append(line.decode("utf-8"))
            continue
        except UnicodeDecodeError:
            others.append(number)
        try:
            texts.append(line.decode(other, errors=errors))
        except UnicodeDecodeError as error:
            way_out = "Save it as UTF-8, or name its encoding, such as encoding=shift_jis (server schema: --encoding)."
            seen = f"byte {error.object[error.start]:#x} in line {number}"
            raise DataError(explain(f"file {path}", f"be text in UTF-8 or {other}", seen, way_out)) from error
    lines_read = counted(len(others), "line")
    said = encoding or "Windows-1252 (Latin-1), as no other encoding is given"
    notes.append(f"{lines_read} from line {others[0]} on are no UTF-8: read as {said}")
    return "".join(texts)


def _cells(line: str, separator: str) -> tuple[list[str], bool]:
    """Return the values of a row, and whether a quote in it is never closed."""
    if '"' not in line:
        row = line.split(separator)
        return [cell.lstrip(" ") for cell in row] if " " in line else row, False
    csv.field_size_limit(2**31 - 1)  # by default 131,072 characters, but a long text costs no row
    reader = csv.reader((f"{line}\n", ""), delimiter=separator, skipinitialspace=True)
    try:
        row = next(reader)
    except csv.Error:  # a carriage return within it
        return [line], False
    return row, reader.line_num > 1


_ROWS_AT_ONCE = 2**14  # lists of Python's texts take three times the memory of a column of them


def _csv_rows(text: str, separator: str, width: int, before: int) -> tuple[pd.DataFrame, list[tuple[int, int]]]:
    """Return the rows below the header, and of those without a value for each name: line, and how many they have.

    Lines are read one by one, because what one row holds must not decide how another is read. Only where a quote stays
    open does a row go on, as far as the whole of it is well formed and has all values: else that line is wrong alone. A
    wrong row has all its values in each column, and an additional separator, so that it fits no schema. A blank line is
    no row, but where there is one column: there it is an empty cell, except at the end.
    """
    cell = rf' *+(?:"[^"]*+(?:""[^"]*+)*+" *+|[^"\n{re.escape(separator)}][^\n{re.escape(separator)}]*+|)'
    whole = re.compile(rf"{cell}(?:{re.escape(separator)}{cell}){{{width - 1}}}(?=\n|\Z)")
    blank = " \t".replace(separator, "")
    parts: list[pd.DataFrame] = []
    rows: list[list[str]] = []
    wrong: list[tuple[int, int]] = []
    at, number, in_header, empty = 0, before, True, 0
    while at < len(text):
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        line, number = text[at:end], number + 1
        row, is_open = _cells(line, separator)
        if is_open and not in_header and (found := whole.match(text, at)):
            end, number = found.end(), number + found[0].count("\n")
            row, is_open = _cells(found[0], separator)
        at = end + 1
        if not line.strip(blank):
            empty += width == 1 and not in_header  # the only cell of a row, unless no row follows
            continue
        rows += [[""]] * empty
        empty = 0
        if in_header:
            in_header = False
        elif len(row) == width and not is_open:
            rows.append(row)
        else:
            rows.append([separator.join([*row, ""])] * width)
            wrong.append((number, len(row)))
        if len(rows) >= _ROWS_AT_ONCE:
            parts.append(pd.DataFrame(rows, columns=range(width), dtype=str))
            rows = []
    parts.append(pd.DataFrame(rows, columns=range(width), dtype=str))
    return pd.concat(parts, ignore_index=True), wrong


def _refuse_wrong_lines(wrong: list[tuple[int, int]], path: Path, separator: str, width: int) -> None:
    if not wrong:
        return
    shown = ", ".join(f"{counted(values, 'value')} in line {number}" for number, values in wrong[:3])
    more = f" and in {counted(len(wrong) - 3, 'more line')}" if len(wrong) > 3 else ""
    way_out = "Complete these lines or take them out."
    if any(values == width for _, values in wrong):
        way_out = "A quote there is never closed: close it, or take it out."
    elif separator == "," and all(values > width for _, values in wrong):
        way_out = (
            'Put numbers with a decimal comma, and texts with a comma, in quotes ("12,5"), or separate values by ;.'
        )
    raise DataError(explain(f"file {path}", f"have {width} values in every row, as its header", shown + more, way_out))


def _is_row(cells: Sequence[str], table: pd.DataFrame) -> bool:
    """Tell whether a first line is values: numbers in unequal steps, or nothing but words that stand below again."""
    numbers = [float(cell.replace(",", ".")) for cell in cells if _NUMBER.fullmatch(cell)]
    steps = set(np.diff(numbers).round(6))
    if len(numbers) > 2 and len(steps) == 1 and steps != {0.0}:
        return False
    below = (set(table.iloc[:_ROWS, i].str.strip()) for i in range(len(cells)))
    again = [cell in texts for cell, texts in zip(cells, below, strict=True) if cell not in MISSING]
    return bool(numbers) or (bool(again) and all(again))

"""The text of a CSV file as a table of texts: its encoding, separator and header, and its rows one by one.

What one row holds decides nothing about another: neither how it is decoded nor where it ends.
"""

from __future__ import annotations

import codecs
import csv
import re
from pathlib import Path

import pandas as pd

from fedkd_flwr.data.columns import column_name, counted, require_distinct, short_list
from fedkd_flwr.errors import Code, DataError, explain

__all__ = ["csv_table"]


def csv_table(data: bytes, path: Path, *, lenient: bool, notes: list[str]) -> pd.DataFrame:
    """Return the table that the bytes of a CSV file hold, all values as texts.

    Parameters
    ----------
    data : bytes
        What the file holds, unzipped.
    path : Path
        The file, for messages.
    lenient, notes
        As in `fedkd_flwr.data.tables.read_table`.

    Raises
    ------
    DataError
        As `fedkd_flwr.data.tables.read_table`.
    """
    text = _decoded(data, path, lenient=lenient, notes=notes)
    text, before = _with_one_line_end(text), 0  # lines above the header
    if text[:4].lower() == "sep=":  # Excel's own first line
        text, before = text.partition("\n")[2], 1
    header_line = next((line for line in text.split("\n") if line.strip()), None)
    if header_line is None:
        raise DataError(explain(f"file {path}", "hold a header line and rows", "an empty file"), code=Code.NO_ROWS)
    rows = {s: _cells(header_line, s) for s in ",;\t|"}
    separator = max(rows, key=lambda s: len(rows[s][0]))  # the comma if there is one column
    header, is_open = rows[separator]
    if is_open:  # to let it go on, as a row does, would let rows decide what the columns are
        rule, way_out = "hold the columns' names in one line", "Close it, or take the line break out of that name."
        seen = f"a quote that is not closed there, before {header[-1].strip()!r}"
        raise DataError(explain(f"header of {path}", rule, seen, way_out))
    found = [column_name(name.strip()) for name in header]
    names = [name or f"column-{i + 1}" for i, name in enumerate(found)]
    require_distinct(names, path)
    table, wrong = _csv_rows(text, separator, names, before)
    if not lenient:  # other rows would decide whether each can be used
        if 2 * sum(bool(_DECIMAL.fullmatch(name)) for name in found) > len(names):
            way_out = "Put a line with a name for each column first."
            raise DataError(
                explain(f"line {before + 1} of {path}", "hold the columns' names", short_list(found, 5), way_out)
            )
        _refuse_text_above(text, path, len(names), before)
        _refuse_wrong_lines(wrong, path, separator, len(names))
    for name, written in zip(names, found, strict=True):
        if not written and not lenient and (table[name].str.strip() == "").all():
            table = table.drop(columns=name)
        elif not written:
            notes.append(f"the header gives no name to column {name.rpartition('-')[2]}: it is called {name!r}")
    return table


_DECIMAL = re.compile(r"[+-]?\d+[.,]\d+")


def _decoded(data: bytes, path: Path, *, lenient: bool, notes: list[str]) -> str:
    """Return a file's text: UTF-8 or, with a byte order mark, UTF-16; a line that is no UTF-8 is read as Windows-1252.

    Each line is decoded by itself, because what one row holds must not decide how another is read.
    """
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        notes.append("the file is in UTF-16")
        return data.decode("utf-16", errors="replace" if lenient else "strict")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        lines = data.removeprefix(codecs.BOM_UTF8).splitlines(keepends=True)
    texts, others = [], []
    for number, line in enumerate(lines, 1):
        try:
            texts.append(line.decode("utf-8"))
            continue
        except UnicodeDecodeError:
            others.append(number)
        try:
            texts.append(line.decode("cp1252", errors="replace" if lenient else "strict"))
        except UnicodeDecodeError as error:
            way_out = "Save it as UTF-8."
            seen = f"byte {error.object[error.start]:#x} in line {number}"
            raise DataError(explain(f"file {path}", "be text in UTF-8 or Windows-1252", seen, way_out)) from error
    lines_read = counted(len(others), "line")
    notes.append(f"{lines_read} from line {others[0]} on are no UTF-8: read as Windows-1252 (Latin-1)")
    return "".join(texts)


def _with_one_line_end(text: str) -> str:
    """Return a text whose lines end in a line feed: the end of its first line tells what all others end in."""
    first = re.search("\r\n|\r|\n", text)
    return text.translate({13: 10, 10: 13}) if first and first[0] == "\r" else text.replace("\r\n", "\n")


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


def _csv_rows(text: str, separator: str, names: list[str], before: int) -> tuple[pd.DataFrame, list[tuple[int, int]]]:
    """Return the rows below the header, and of those without a value for each name: line, and how many they have.

    Lines are read one by one, because what one row holds must not decide how another is read. Only where a quote stays
    open does a row go on, as far as the whole of it is well formed and has all values: else that line is wrong alone.
    A wrong row has all its values in each column, and an additional separator, so that it fits no schema. A blank line
    is no row, but where there is one column: there it is an empty cell, except at the end.
    """
    width = len(names)
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
            parts.append(pd.DataFrame(rows, columns=names, dtype=str))
            rows = []
    parts.append(pd.DataFrame(rows, columns=names, dtype=str))
    return pd.concat(parts, ignore_index=True), wrong


def _refuse_text_above(text: str, path: Path, width: int, before: int) -> None:
    """Refuse a file whose first line is a title or comment, and no header: name the line where the table begins."""
    lines = text.splitlines()
    if width > 1 or len(lines) < 3:
        return
    counts = {sign: [line.count(sign) for line in lines] for sign in ",;\t|"}
    sign = max(counts, key=lambda sign: min(counts[sign][len(lines) // 2 :]))
    if (most := min(counts[sign][len(lines) // 2 :])) == 0:
        return
    first = next(i for i, number in enumerate(counts[sign]) if number >= most)
    if first:
        seen = f"{lines[0][:60]!r}; the table seems to begin in line {first + before + 1} with {lines[first][:60]!r}"
        rule, way_out = "hold the columns' names in its first line", "Take out what stands above it."
        raise DataError(explain(f"file {path}", rule, seen, way_out))


def _refuse_wrong_lines(wrong: list[tuple[int, int]], path: Path, separator: str, width: int) -> None:
    if not wrong:
        return
    shown = ", ".join(f"{counted(values, 'value')} in line {number}" for number, values in wrong[:3])
    more = f" and in {counted(len(wrong) - 3, 'more line')}" if len(wrong) > 3 else ""
    way_out = "Complete these lines or take them out."
    if any(values == width for _, values in wrong):
        way_out = "A quote there is never closed: close it, or take it out."
    if separator == "," and all(values > width for _, values in wrong):
        way_out = (
            'Put numbers with a decimal comma, and texts with a comma, in quotes ("12,5"), or separate values by ;.'
        )
    raise DataError(explain(f"file {path}", f"have {width} values in every row, as its header", shown + more, way_out))

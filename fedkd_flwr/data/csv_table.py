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

__all__ = ["csv_table", "encoding_of"]

_SEPARATORS = ",;\t|"
_ROWS, _LINES = 2000, 50  # so many tell enough
_NUMBER = re.compile(r"[+-]?(?:\d+[.,]?\d*|[.,]\d+)(?:[eE][+-]?\d+)?")
_ENCODINGS = (
    *("windows-1251", "windows-1250", "windows-1253", "windows-1254", "windows-1257", "windows-1255", "windows-1256"),
    *("koi8-r", "cp866", "iso8859-2", "mac-roman", "gb18030", "shift_jis", "euc-kr", "big5"),
)


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

    Its first line names the columns, and is refused where it looks like a row. With ``header="yes"`` it does, whatever
    it looks like; with "none" there is no such line, and the columns are called column-1, column-2 and so on; any other
    text is the line that the file lacks. ``encoding`` is that of lines that are no UTF-8 (Windows-1252 by default),
    ``wanted`` the columns that the schema names; the rest is as in `fedkd_flwr.data.tables.read_table`.
    """
    text = _decoded(data, path, encoding=encoding, lenient=lenient, notes=notes)
    text, before = _below_sep(text)  # lines above the header
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
    table, wrong, longer = _csv_rows(text, separator, len(names), before)
    if not lenient:  # other rows would decide whether each can be used
        if not header and not (wanted and set(wanted) <= set(names)):
            _refuse_text_above(text, path, before)
            _refuse_row(found, table, path, before, has_schema=bool(wanted))
        if longer and len(longer) < len(table):
            wrong = sorted(wrong + longer)
        elif longer:
            notes.append("every row ends in one more separator, with nothing behind it: left out")
        _refuse_wrong_lines(wrong, path, separator, len(names), len(table))
    require_distinct(f"columns of {path}", names)
    table.columns = pd.Index(names)
    for name, written in zip(names, found, strict=True):
        if not written and not lenient and (table[name].str.strip() == "").all():
            table = table.drop(columns=name)
        elif not written:
            notes.append(f"the header gives no name to column {name.rpartition('-')[2]}: it is called {name!r}")
    table.attrs["header"] = stated
    return table


def encoding_of(name: str, names: Sequence[str]) -> str:
    """Return in which encoding a name stands in a file whose names were read as Windows-1252, "" if in none.

    >>> encoding_of("исход", ["crp", "èñõîä"])
    'windows-1251'
    """
    for encoding in _ENCODINGS:
        try:
            if name.encode(encoding).decode("cp1252").strip() in names:
                return encoding
        except UnicodeError:
            continue
    return ""


def _first_line(text: str) -> str | None:
    return next((line for line in text.split("\n") if line.strip()), None)


def _below_sep(text: str) -> tuple[str, int]:
    """Return a text without Excel's own first line, ``sep=;``, and how many lines that were; all with one line end."""
    text = _with_one_line_end(text)
    return (text.partition("\n")[2], 1) if text[:4].lower() == "sep=" else (text, 0)


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


def _refuse_row(found: list[str], table: pd.DataFrame, path: Path, before: int, *, has_schema: bool) -> None:
    """Refuse a file whose first line is a row: its values would become the columns' names."""
    if not _is_row(found, table):
        return
    way_out = "Put a line with a name for each column first"
    if not has_schema:
        way_out += ", or say header=none (server schema: --header none), which calls them column-1, column-2 and so on"
        way_out += ". If these are names: header=yes"
    seen = f"what looks like a row: {short_list(found, 5)}"
    raise DataError(explain(f"line {before + 1} of {path}", "hold the columns' names", seen, f"{way_out}."))


def _decoded(data: bytes, path: Path, *, encoding: str, lenient: bool, notes: list[str]) -> str:
    """Return a file's text: UTF-8 or, with a byte order mark, UTF-16; a line that is no UTF-8 is read otherwise.

    Each line is decoded by itself, because what one row holds must not decide how another is read.
    """
    errors = "replace" if lenient else "strict"
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        notes.append("the file is in UTF-16")
        return data.decode("utf-16", errors=errors)
    try:
        if "a\n".encode(encoding or "ascii") != b"a\n":  # such as UTF-16: its lines cannot be told apart yet
            return data.decode(encoding, errors=errors)
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


def _csv_rows(
    text: str, separator: str, width: int, before: int
) -> tuple[pd.DataFrame, list[tuple[int, int]], list[tuple[int, int]]]:
    """Return the rows below the header, and of those without a value for each name: line, and how many they have.

    Rows with one more separator, and nothing behind it, are read, and listed apart. Lines are read one by one, because
    what one row holds must not decide how another is read. Only where a quote stays open does a row go on, as far as
    the whole of it is well formed and has all values: else that line is wrong alone. A wrong row has all its values in
    each column, and an additional separator, so that it fits no schema. A blank line is no row, but where there is one
    column: there it is an empty cell, except at the end.
    """
    cell = rf' *+(?:"[^"]*+(?:""[^"]*+)*+" *+|[^"\n{re.escape(separator)}][^\n{re.escape(separator)}]*+|)'
    whole = re.compile(rf"{cell}(?:{re.escape(separator)}{cell}){{{width - 1}}}(?=\n|\Z)")
    blank = " \t".replace(separator, "")
    parts: list[pd.DataFrame] = []
    rows: list[list[str]] = []
    wrong: list[tuple[int, int]] = []
    longer: list[tuple[int, int]] = []
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
        elif len(row) == width + 1 and not is_open and not row[-1].strip():
            rows.append(row[:-1])
            longer.append((number, len(row)))
        else:
            rows.append([separator.join([*row, ""])] * width)
            wrong.append((number, len(row)))
        if len(rows) >= _ROWS_AT_ONCE:
            parts.append(pd.DataFrame(rows, columns=range(width), dtype=str))
            rows = []
    parts.append(pd.DataFrame(rows, columns=range(width), dtype=str))
    return pd.concat(parts, ignore_index=True), wrong, longer


def _refuse_wrong_lines(wrong: list[tuple[int, int]], path: Path, separator: str, width: int, num_rows: int) -> None:
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
    if len(wrong) == num_rows and all(values == width + 1 for _, values in wrong):
        way_out = f"{way_out} If the first column has no name (R writes its rows' names so), put one before the others."
    raise DataError(explain(f"file {path}", f"have {width} values in every row, as its header", shown + more, way_out))


def _is_row(cells: Sequence[str], table: pd.DataFrame) -> bool:
    """Tell whether the cells of a first line are like the values below them, and so are values too, and no names.

    A word above numbers is a name. A number is a value if it lies among those below it, a text if it stands there
    again or is written in the same way (``2021-03-12``, ``E11``). Whole numbers in equal steps are names (2019, 2020,
    2021), and so are four or more in rising or falling order of which most lie outside of the values below. So are x1,
    x2, x3, even above cells such as a0.

    >>> below = pd.DataFrame([["63", "ill"], ["71", "well"], ["68", "ill"]])
    >>> _is_row(["67", "well"], below), _is_row(["age", "well"], below), _is_row(["2019", "2020"], below)
    (True, False, False)
    """
    if _count_up(cells):
        return False
    score = inside = of_numbers = 0  # how much speaks for a row
    numbers: list[float] = []
    for i, cell in enumerate(cells):
        below = table.iloc[:_ROWS, i].str.strip()
        distinct = set(below) - MISSING
        if cell in MISSING or not distinct:
            continue
        known = [_number(text) for text in distinct if _NUMBER.fullmatch(text)]
        if 10 * len(known) >= 9 * len(distinct):
            if not _NUMBER.fullmatch(cell):
                return False
            numbers.append(_number(cell))
            within = min(known) <= numbers[-1] <= max(known)
            inside += within
            of_numbers += 1 if within or not cell.lstrip("+-").isdecimal() else -1
        elif cell in distinct or _is_written_like(cell, distinct):
            score += 1
        else:
            digits = not re.search(r"\d", cell) and 10 * sum(bool(re.search(r"\d", text)) for text in distinct)
            # where each row has a text of its own, another one says nothing, unless digits stand in the others only
            score -= 2 * len(distinct) <= len(below) or digits >= 9 * len(distinct)
    return score + (-len(numbers) if _are_names(np.array(numbers), inside) else of_numbers) > 0


def _number(text: str) -> float:
    return float(text.replace(",", "."))


def _count_up(cells: Sequence[str]) -> bool:
    """Tell whether three neighbours are one word with numbers in steps of one."""
    found = [re.fullmatch(r"(\D+)(\d{1,9})", cell) for cell in cells]
    ends = [(one[1], int(one[2])) if one else None for one in found]
    threes = zip(ends, ends[1:], ends[2:], strict=False)
    return any(a and (b, c) == ((a[0], a[1] + 1), (a[0], a[1] + 2)) for a, b, c in threes)


def _is_written_like(cell: str, texts: set[str]) -> bool:
    """Tell whether a cell with a digit has digits and letters where most of the texts have them."""
    if not re.search(r"\d", cell):
        return False
    forms = [re.sub(r"[^\W\d_]", "a", re.sub(r"\d", "0", text)) for text in (cell, *texts)]
    return 2 * forms[1:].count(forms[0]) > len(texts)


def _are_names(numbers: np.ndarray[tuple[int], np.dtype[np.float64]], inside: int) -> bool:
    """Tell whether numbers, of which so many lie among the values below them, are names of columns."""
    steps = np.diff(numbers)
    if not len(steps) or (not (steps > 0).all() and not (steps < 0).all()):
        return False
    in_steps = bool((numbers % 1 == 0).all()) and len(set(steps.tolist())) == 1
    if len(numbers) < 4:
        return in_steps and not inside
    return in_steps or 2 * inside < len(numbers)


def _refuse_text_above(text: str, path: Path, before: int) -> None:
    """Refuse a file whose first line is a title or comment, and no header: name the line where the table begins."""
    lines = text.split("\n", _LINES)[:_LINES]
    later = [line for line in lines[len(lines) // 2 :] if line.strip()] or [""]
    sign = max(_SEPARATORS, key=lambda sign: min(line.count(sign) for line in later))
    if not all(sign in line for line in later):
        _refuse_spaces([line.split() for line in lines if line.strip()], path)
        return
    rows = [_cells(line, sign)[0] for line in lines]
    filled = [sum(bool(cell.strip()) for cell in row) for row in rows]
    first, whole = next(i for i, number in enumerate(filled) if number), max(filled)
    held = {i for row in rows for i, cell in enumerate(row) if cell.strip()}
    named = {i for i, cell in enumerate(rows[first]) if cell.strip()}
    if 2 * filled[first] > whole or held - named <= {0}:  # the first column may be an index without a name
        return
    begins = next(i for i, number in enumerate(filled) if number == whole)
    where, title = (", ".join(filter(None, map(str.strip, rows[i])))[:60] for i in (begins, first))
    seen = f"{title!r}; the table seems to begin in line {begins + before + 1} with {where!r}"
    way_out = "Take out what stands above it."
    way_out += f" If line {first + before + 1} names the columns: header=yes (server schema: --header yes)."
    raise DataError(explain(f"file {path}", "hold the columns' names in its first line", seen, way_out))


def _refuse_spaces(words: list[list[str]], path: Path) -> None:
    """Refuse a file that has numbers with spaces between them in all lines, and one column therefore."""
    widths, below = {len(line) for line in words}, [word for line in words[1:] for word in line]
    if len(widths) == 1 and min(widths) > 1 and 2 * sum(bool(_NUMBER.fullmatch(word)) for word in below) > len(below):
        rule, way_out = "have a comma, semicolon, tab or bar between values", "Put a comma in place of these spaces."
        raise DataError(explain(f"file {path}", rule, f"spaces in {' '.join(words[0])[:60]!r}", way_out))

"""What the first line of a text table is: the columns' names, a row of values, or a title above them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from fedkd_flwr.data.columns import MISSING
from fedkd_flwr.errors import DataError, explain

__all__ = ["is_row", "refuse_text_above"]

_ROWS, _LINES = 2000, 50  # so many tell enough
_NUMBER = re.compile(r"[+-]?(?:\d+[.,]?\d*|[.,]\d+)(?:[eE][+-]?\d+)?")


def is_row(cells: Sequence[str], table: pd.DataFrame) -> bool:
    """Tell whether the cells of a first line are like the values below them, and so are values too, and no names.

    A word above numbers is a name. A number is a value if it lies among those below it, a text if it stands there
    again or is written in the same way (``2021-03-12``, ``E11``). Whole numbers in equal steps are names (2019, 2020,
    2021), and so are four or more in rising or falling order of which most lie outside of the values below. So are x1,
    x2, x3, even above cells such as a0.

    >>> below = pd.DataFrame([["63", "ill"], ["71", "well"], ["68", "ill"]])
    >>> is_row(["67", "well"], below), is_row(["age", "well"], below), is_row(["2019", "2020"], below)
    (True, False, False)
    """
    if _count_up(cells):
        return False
    values_like = names_like = inside = alike_numbers = 0
    numbers: list[float] = []
    for i, cell in enumerate(cells):
        below = table.iloc[:_ROWS, i].str.strip()
        distinct = set(below) - MISSING
        if cell in MISSING or not distinct:
            continue
        known = [_number(text) for text in distinct if _NUMBER.fullmatch(text)]
        if 10 * len(known) < 9 * len(distinct):
            alike = cell in distinct or _is_written_like(cell, distinct)
            digits = not re.search(r"\d", cell) and 10 * sum(bool(re.search(r"\d", text)) for text in distinct)
            values_like += alike
            # where each row has a text of its own, another one says nothing, unless digits stand in the others only
            names_like += not alike and (2 * len(distinct) <= len(below) or digits >= 9 * len(distinct))
        elif not _NUMBER.fullmatch(cell):
            return False
        else:
            numbers.append(_number(cell))
            inside += min(known) <= numbers[-1] <= max(known)
            alike_numbers += min(known) <= numbers[-1] <= max(known) or not cell.lstrip("+-").isdecimal()
    if _are_names(np.array(numbers), inside):
        return values_like > names_like + len(numbers)
    return values_like + alike_numbers > names_like + len(numbers) - alike_numbers


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


def refuse_text_above(text: str, path: Path, cells: Callable[[str, str], Sequence[str]], before: int) -> None:
    """Refuse a file whose first line is a title or comment, and no header: name the line where the table begins.

    ``cells`` returns the cells of a line, given its separator too; ``before`` lines stand above the text.
    """
    lines = text.split("\n", _LINES)[:_LINES]
    later = [line for line in lines[len(lines) // 2 :] if line.strip()] or [""]
    sign = max(",;\t|", key=lambda sign: min(line.count(sign) for line in later))
    if not all(sign in line for line in later):
        _refuse_spaces([line.split() for line in lines if line.strip()], path)
        return
    rows = [cells(line, sign) for line in lines]
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
    way_out += f" If line {first + before + 1} names the columns: header=yes (fedkd schema: --header yes)."
    raise DataError(explain(f"file {path}", "hold the columns' names in its first line", seen, way_out))


def _refuse_spaces(words: list[list[str]], path: Path) -> None:
    """Refuse a file that has numbers with spaces between them in all lines, and one column therefore."""
    widths, below = {len(line) for line in words}, [word for line in words[1:] for word in line]
    if len(widths) == 1 and min(widths) > 1 and 2 * sum(bool(_NUMBER.fullmatch(word)) for word in below) > len(below):
        rule, way_out = "have a comma, semicolon, tab or bar between values", "Put a comma in place of these spaces."
        raise DataError(explain(f"file {path}", rule, f"spaces in {' '.join(words[0])[:60]!r}", way_out))

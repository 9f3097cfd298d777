"""CSV cells that a spreadsheet shows and does not compute: names and texts come from other parties, too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

__all__ = ["as_shown", "for_spreadsheets"]


def for_spreadsheets(table: Iterable[Sequence[object]]) -> Iterator[list[object]]:
    """Yield the rows of a table for a CSV file that a person may open in a spreadsheet.

    >>> list(for_spreadsheets([["=1+1", "-1.5", -2, "red"]]))
    [["'=1+1", '-1.5', -2, 'red']]
    """
    for row in table:
        yield [as_shown(one) for one in row]


def as_shown(cell: object) -> object:
    """Return a cell as it is, but a text that a spreadsheet would compute with an apostrophe before it."""
    return f"'{cell}" if isinstance(cell, str) and _is_formula(cell) else cell


def _is_formula(text: str) -> bool:
    if not text.startswith(("=", "+", "-", "@", "\t", "\r")):
        return False
    try:
        float(text)
    except ValueError:
        return True
    return False

"""Tables that a program hands over in its own process: `fedkd_flwr.data.tables.read_table` finds them by their name.

No row is written to a disk for that, and equal tables have equal names, so that two runs on one table can be compared.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager

import pandas as pd

from fedkd_flwr.data.columns import column_name, require_distinct

__all__ = ["given_table", "giving"]

_given: dict[str, pd.DataFrame] = {}


@contextmanager
def giving(table: pd.DataFrame) -> Iterator[str]:
    """Let a table be read by the name that this yields, until the block ends.

    >>> with giving(pd.DataFrame({"age": [20, 30]})) as name:
    ...     given_table(name).shape
    (2, 1)
    """
    table = table.set_axis([column_name(str(name)) for name in table.columns], axis=1).reset_index(drop=True)
    require_distinct("columns of the table", list(table.columns))
    name = f"DataFrame-{_digest(table)}"
    _given[name] = table
    try:
        yield name
    finally:
        _given.pop(name, None)


def given_table(name: str | os.PathLike[str]) -> pd.DataFrame | None:
    """Return a copy of the table of this name, None where none is given."""
    found = _given.get(os.fspath(name))
    return None if found is None else found.copy()


def _digest(table: pd.DataFrame) -> str:
    found = hashlib.sha256("\0".join([*table.columns, str(table.attrs.get("lacks", ""))]).encode(errors="replace"))
    for _, column in table.items():
        try:
            numbers = pd.util.hash_pandas_object(column, index=False)
        except TypeError:  # lists in cells have no hash
            numbers = pd.util.hash_pandas_object(column.map(str), index=False)
        found.update(numbers.to_numpy().tobytes())
    return found.hexdigest()[:12]

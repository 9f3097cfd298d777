"""The formats of users' files: NPZ, Parquet, Excel; and rows in parts."""

from __future__ import annotations

import contextlib
import datetime
import gzip
import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedkd_flwr.data.columns import column_name, require_distinct
from fedkd_flwr.errors import Code, DataError, explain, import_extra

__all__ = ["Rows", "content", "in_usable_parts", "read_excel", "read_npz", "read_parquet", "require_file"]
__all__ += ["require_library", "require_readable", "table_of_npz"]

_MOST_CHANNELS = 4  # RGBA

Rows = slice | NDArray[np.intp]
"""Rows of a table by their positions."""


def read_npz(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """Return the arrays of an NPZ file; Python objects in it are a `DataError` and never unpickled."""
    path = Path(path)
    try:
        # opened here, because NumPy leaves the file open if it is not an archive
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            found = {key: arrays[key] for key in arrays}
    except Exception as error:  # a hostile shape asks for all memory; zipfile may raise anything
        seen, way_out = f"this: {type(error).__name__}: {error}", ""
        if "allow_pickle" in str(error):
            way_out = "Save texts as such: y.astype(str). An array of numbers: X.astype(float)."
        raise DataError(explain(f"file {path}", "be an NPZ file of plain arrays", seen, way_out)) from error
    if strange := [name for name, array in found.items() if not isinstance(array, np.ndarray)]:
        raise DataError(explain(f"file {path}", "be an NPZ file of plain arrays", f"other members: {strange[:3]}"))
    return found


def require_file(path: str | os.PathLike[str], way_out: str = "Check the path.") -> Path:
    """Return the path of a file; raise `DataError` (code ``missing-file``) if there is none."""
    path = Path(path).expanduser()
    try:
        os.fsencode(path)
    except UnicodeEncodeError as error:  # else "no such file", whatever is there
        rule = f"have letters that this process's locale ({sys.getfilesystemencoding()}) can write"
        way = "Start the process with PYTHONUTF8=1 or LC_ALL=C.UTF-8."
        message = explain(f"the name of file {path}", rule, str(path)[error.start : error.end], way)
        raise DataError(message, code=Code.MISSING_FILE) from None
    if not path.is_file():
        seen = f"the folder {path}" if path.is_dir() else f"no file {path}"
        raise DataError(explain("file", "exist", seen, way_out), code=Code.MISSING_FILE)
    return path


def require_readable(path: str | os.PathLike[str]) -> bytes:
    """Return the bytes of a file; raise `DataError` (code ``missing-file``) if there is none, or it may not be read."""
    path = require_file(path)
    try:
        return path.read_bytes()
    except OSError as error:
        message = explain(f"file {path}", "be readable", f"this: {error}", "Give this user the right to read it.")
        raise DataError(message, code=Code.MISSING_FILE) from error


def content(path: str | os.PathLike[str]) -> bytes:
    """Return what a file holds, unzipped."""
    path = Path(path)
    data = path.read_bytes()  # its name says whether it is zipped: a row could begin as a gzip file does
    return gzip.decompress(data) if path.suffix.lower() == ".gz" else data


def require_library(path: Path) -> Any:
    """Return what reads a Parquet or Excel file; raise `MissingExtraError` where it is not installed."""
    excel = path.suffix.lower() == ".xlsx"
    for module in ("openpyxl",) if excel else ("pyarrow.parquet", "pyarrow"):
        extra, instead = ("excel", "sheet") if excel else ("parquet", "table")
        found = import_extra(module, extra, what=f"reading {path.name}", instead=f", or save the {instead} as CSV.")
    return found


def read_parquet(path: Path, *, lenient: bool) -> pd.DataFrame:
    """Return the table of a Parquet file, as `fedkd_flwr.data.tables.read_table` does."""
    pyarrow = require_library(path)
    try:
        require_distinct(f"columns of {path}", [column_name(name) for name in pyarrow.parquet.read_schema(path).names])
        read = pyarrow.parquet.read_table(path, partitioning=None)
        try:
            # whole numbers stay such where one is missing: as floats, 17 digits of all others would be rounded
            table: pd.DataFrame = read.to_pandas(integer_object_nulls=True)
            return table
        except Exception:  # a date of the year 30000, bytes that are no text: one value is enough
            if not lenient:
                raise
            index = (read.schema.pandas_metadata or {}).get("index_columns", ())
            return pd.DataFrame({name: _plain_values(read[name]) for name in read.column_names if name not in index})
    except (pyarrow.ArrowException, OSError, MemoryError) as error:
        raise DataError(explain(f"file {path}", "be a Parquet file", f"this: {error}")) from error


def read_excel(path: Path, *, notes: list[str]) -> pd.DataFrame:
    """Return the first sheet of an Excel file: names in its first line, and each cell's value, None where it is empty.

    A formula is what Excel last found for it. ``notes`` is told of further sheets.
    """
    require_library(path)
    with pd.ExcelFile(io.BytesIO(path.read_bytes()), engine="openpyxl") as book:
        sheet, *others = book.sheet_names
        table = pd.read_excel(book, header=None, dtype=object, keep_default_na=False, na_values=[""])
    if others:
        notes.append(f"the first of {len(others) + 1} sheets is read, {sheet!r}")
    table = table.dropna(how="all").dropna(how="all", axis=1)
    if not len(table):
        raise DataError(explain(f"file {path}", "hold a header line and rows", "an empty sheet"), code=Code.NO_ROWS)
    header = zip(map(int, table.columns), table.iloc[0], strict=True)
    names = [column_name(str(name).strip()) if pd.notna(name) else f"column-{i + 1}" for i, name in header]
    require_distinct(f"columns of {path}", names)
    # dates as ISO texts, and 12.0 as 12: Excel knows one kind of number
    return table[1:].map(_of_excel, na_action="ignore").set_axis(names, axis=1).reset_index(drop=True)


def _of_excel(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ") if value.time() != datetime.time() else value.date().isoformat()
    if isinstance(value, datetime.date | datetime.time | datetime.timedelta):
        return str(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _plain_values(column: Any) -> pd.Series[Any]:
    """Return a column of Arrow's, with a text in place of each value that is none in Python."""
    with contextlib.suppress(Exception):
        return pd.Series(column.to_pandas(integer_object_nulls=True))
    if hasattr(column.type, "index_type"):  # a dictionary is one for all rows
        column = column.cast(column.type.value_type)
    values = np.full(len(column), "(unreadable)", dtype=object)

    def take(rows: Rows) -> None:
        values[rows] = column.take(rows).to_pandas(integer_object_nulls=True).to_numpy(dtype=object)

    _in_halves(take, np.arange(len(column)))
    return pd.Series(values, dtype=object)


def table_of_npz(path: Path, label: str) -> pd.DataFrame:
    """Return the table of an NPZ file, as `fedkd_flwr.data.tables.read_table` does; ``attrs`` has images' shape."""
    arrays = read_npz(path)
    if "X" not in arrays:
        raise DataError(explain(f"file {path}", "hold an array X", f"the arrays {', '.join(arrays) or 'none'}"))
    X, y = _with_characters(arrays["X"]), _with_characters(arrays["y"]) if "y" in arrays else None
    if X.ndim < 2 or (y is not None and y.shape != (len(X),)):
        seen = f"X {X.shape}, y {None if y is None else y.shape}"
        raise DataError(explain(f"arrays of {path}", "have shapes (n, ...) and (n,)", seen))
    prefix, shape = "x" if X.ndim == 2 else "pixel-", _image_shape(X, path)
    X = X.reshape(len(X), -1)
    table = pd.DataFrame(X, columns=[f"{prefix}{i}" for i in range(X.shape[1])])
    table = table if y is None else table.assign(**{label: y})
    table.attrs["shape"] = shape
    return table


def _image_shape(X: NDArray[Any], path: Path) -> tuple[int, ...] | None:
    """Return (channels, height, width) of images: uint8, (n, height, width) or (n, channels, height, width)."""
    if X.dtype != np.uint8 or X.ndim not in (3, 4):
        return None
    channels, height, width = X.shape[1:] if X.ndim == 4 else (1, *X.shape[1:])
    if width <= _MOST_CHANNELS < channels:
        way_out = "Turn them: X.transpose(0, 3, 1, 2)."
        raise DataError(explain(f"images of {path}", "have shape (n, channels, height, width)", X.shape, way_out))
    return channels, height, width


def _with_characters(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array whose texts hold the sign of replacement for what is no character: pandas would read none."""
    if array.dtype.kind != "U" or not array.dtype.itemsize:
        return array
    array = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
    codes = array.view(np.uint32)
    codes[(codes > 0x10FFFF) | ((codes >= 0xD800) & (codes < 0xE000))] = 0xFFFD
    return array


def in_usable_parts(take: Callable[[Rows], None], readable: Callable[[Rows], NDArray[np.bool_]], num_rows: int) -> None:
    """Call ``take(part)`` on parts of a table that together leave out only the rows on which it raises.

    ``readable(part)`` is asked where it raises on some row: it tells of all rows at once of which that is known
    beforehand. It may raise too.
    """
    try:
        take(slice(None))
        return
    except Exception:
        known = np.zeros(num_rows, dtype=bool)

    def look(part: Rows) -> None:
        known[part] = readable(part)

    _in_halves(look, np.arange(num_rows))
    _in_halves(take, np.flatnonzero(known))


def _in_halves(work: Callable[[Rows], None], rows: NDArray[np.intp]) -> None:
    """Call ``work`` on rows, halves of them, and halves of those, until it raises on no part of two or more."""
    parts = [rows]
    while parts:
        part = parts.pop()
        try:
            work(part)
        except Exception:
            if len(part) > 1:
                parts += np.array_split(part, 2)

"""Users' own files: CSV, TSV, Parquet, NPZ and LIBSVM, read into one table.

CSV values are read as text and become numbers only where the schema says so. So the types cannot differ between
parties, and ``007`` is a category of its own where the schema has categories.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import math
import os
import sys
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedkd_flwr.data.columns import column_name, column_texts, require_distinct, short_list, sorted_texts
from fedkd_flwr.data.csv_table import csv_table
from fedkd_flwr.data.public import UNKNOWN, Preprocessor, PublicLabels, PublicSet, make_public_set, raw_matrix
from fedkd_flwr.data.reading import readable_numbers
from fedkd_flwr.data.schema import Schema
from fedkd_flwr.data.text import TextRows
from fedkd_flwr.errors import Code, DataError, FedkdError, MissingExtraError, explain

__all__ = [
    "MAX_UNPACKED_GB",
    "UsableRows",
    "image_shape",
    "load_party_table",
    "load_public",
    "load_usable_rows",
    "max_unpacked",
    "read_libsvm",
    "read_npz",
    "read_table",
    "require_file",
    "require_readable",
]

MAX_UNPACKED_GB = 4.0
"""Gigabytes that a compressed file may unpack to."""

_MOST_CHANNELS = 4  # red, green, blue and what shines through
_LIMIT_NAME = "FEDKD_MAX_UNPACKED_GB"
_DEFLATE_RATIO = 1032  # the most that deflate can shrink anything

Rows = slice | NDArray[np.intp]
"""Rows of a table by their positions."""

_KINDS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".npz": "npz",
    ".libsvm": "libsvm",
    ".svm": "libsvm",
    ".txt": "libsvm",
}


def read_table(
    path: str | os.PathLike[str],
    *,
    label: str = "label",
    num_features: int = 0,
    lenient: bool = False,
    notes: list[str] | None = None,
) -> pd.DataFrame:
    """Read a file as a table of raw values, one column per name.

    | suffix | columns |
    |---|---|
    | ``.csv``, ``.tsv`` (also ``.gz``) | as in the header; comma, semicolon, tab or bar between values |
    | ``.parquet`` | as in the file (extra ``parquet``) |
    | ``.npz`` | from ``X``: ``x0``, ... for a matrix, ``pixel-0``, ... for images; from ``y``, if any: ``label`` |
    | ``.libsvm``, ``.svm``, ``.txt`` (also ``.gz``) | ``f1``, ``f2``, ... and ``label`` |

    Parameters
    ----------
    path : path
        The file.
    label : str
        Name of the label column for formats without column names.
    num_features : int
        Number of columns of a LIBSVM file, which may omit the last ones; 0 takes the largest index in the file.
    lenient : bool
        A line of a CSV or LIBSVM file that cannot be read, or that has too many or too few values, becomes a row that
        fits no schema, and its neighbours stay what they are; a cell of a Parquet file becomes a text.
    notes : list of str or None
        What was found out about the file is appended to it, in whole sentences: its encoding, columns without a name.

    Returns
    -------
    DataFrame
        Accented letters in its columns' names are one character each, as in a schema.

    Raises
    ------
    DataError
        If the file is missing (code ``missing-file``), empty (``no-rows``), damaged or of an unknown kind, a column
        name is repeated, or a line has too many or too few values.
    MissingExtraError
        If a Parquet file is given and pyarrow is not installed.
    """
    path = require_file(path)
    kind = _kind(path)
    try:
        if kind == "csv":
            table = csv_table(_content(path), path, lenient=lenient, notes=[] if notes is None else notes)
        elif kind == "parquet":
            table = _read_parquet(path, lenient=lenient)
            table.columns = pd.Index([column_name(str(name)) for name in table.columns])
        elif kind == "npz":
            table = _read_npz(path, label)
        else:
            read = _read_libsvm_lines if lenient else read_libsvm
            X, y = read(path, num_features=num_features)
            table = pd.DataFrame(X, columns=[f"f{i + 1}" for i in range(X.shape[1])])
            table[label] = y
    except UnicodeDecodeError as error:
        raise DataError(explain(f"file {path}", "be text in UTF-8", f"this: {error}", "Save it as UTF-8.")) from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(explain(f"file {path}", "unpack", f"this: {error}", "Copy it again.")) from error
    except (FedkdError, MemoryError, OSError):
        raise
    except Exception as error:  # the parsers of four formats may raise anything
        seen = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        way_out = "It is damaged, or something else: export it again."
        raise DataError(explain(f"file {path}", f"be a table in the format {kind}", seen, way_out)) from error
    if len(table) == 0:
        raise DataError(explain(f"file {path}", "hold at least one row", "none"), code=Code.NO_ROWS)
    return table


def _kind(path: Path) -> str:
    """Return what kind of table a file's name says it is."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    zipped = bool(suffixes) and suffixes[-1] == ".gz"
    suffix = (suffixes[:-1] if zipped else suffixes)[-1:] or [""]
    kind = _KINDS.get(suffix[0])
    if kind is None or (zipped and kind in ("parquet", "npz")):
        way_out = "Save a sheet as CSV (UTF-8), and name a text of lines and columns .csv or .tsv."
        seen = "".join(path.suffixes) or "no suffix"
        raise DataError(explain(f"file {path}", f"end in {', '.join(_KINDS)}", seen, way_out))
    return kind


@dataclass(frozen=True, kw_only=True)
class UsableRows:
    """A party's own file, as far as it can be used.

    Parameters
    ----------
    X : ndarray of shape (num_rows, num_features)
        All rows of the file, zeros (or empty texts) where a row cannot be used.
    y : ndarray of shape (num_rows,), int16
        Their labels; -1 where a row cannot be used.
    fault : Exception or None
        Why some rows cannot be used, or all; None where each can.
    """

    X: NDArray[Any]
    y: NDArray[np.int16]
    fault: Exception | None = None

    @property
    def num_rows(self) -> int:
        """Rows of the file; 0 where it could not be read as a table at all."""
        return len(self.y)


def load_usable_rows(path: str | os.PathLike[str], public: PublicSet) -> UsableRows:
    """Read a party's own file as `load_party_table` does, but leave out rows that cannot be used, and say why.

    What one row holds decides nothing about another: beside a privacy claim for records, a row with an unknown class,
    or with a comma too many, must not cost the party its other rows. A file that is no table at all has no rows.

    Parameters
    ----------
    path : path
        The private file, with the schema's label column.
    public : PublicSet
        The public set, as the party's model reads it.

    Raises
    ------
    DataError
        If there is no such file, it may not be read, or its name ends in an unknown suffix: nothing that is in it.
    MissingExtraError
        If it is a Parquet file and pyarrow is not installed.
    """
    schema = public.schema
    kind = _kind(require_file(path))
    if kind == "parquet":
        _require_pyarrow(Path(path))
    try:
        X, y = load_party_table(path, schema, public.preprocessor)
        return UsableRows(X=X, y=y)
    except Exception as error:  # anything in the file may have caused it
        fault = error
    try:
        table = read_table(path, label=schema.label, num_features=len(schema.columns), lenient=True)
    except Exception:
        return UsableRows(X=public.X[:0], y=np.zeros(0, dtype=np.int16), fault=fault)
    X, y = np.zeros((len(table), public.num_features), dtype=public.X.dtype), np.full(len(table), -1, dtype=np.int16)

    def take(rows: Rows) -> None:
        labels = schema.encode_labels(table[schema.label].iloc[rows])
        X[rows] = public.features(table.iloc[rows])
        y[rows] = labels

    def readable(rows: Rows) -> NDArray[np.bool_]:
        part = table.iloc[rows]
        return schema.known_labels(part[schema.label]) & readable_rows(part, schema)

    if {schema.label, *schema.column_names} <= set(table.columns):
        in_usable_parts(take, readable, len(table))
    return UsableRows(X=X, y=y, fault=fault)


def readable_rows(table: pd.DataFrame, schema: Schema) -> NDArray[np.bool_]:
    """Tell of each row whether numbers stand where the schema says so: at once, because all rows may have none."""
    readable = np.ones(len(table), dtype=bool)
    for name in schema.column_names if schema.shape is not None else ():
        readable &= readable_numbers(table[name], pixels=True)
    for column in schema.columns:
        if column.kind == "numeric":
            readable &= readable_numbers(table[column.name], column.reading)
    return readable


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


def load_party_table(
    path: str | os.PathLike[str], schema: Schema, preprocessor: Preprocessor | TextRows | None
) -> tuple[NDArray[Any], NDArray[np.int16]]:
    """Read a party's own file as features and labels, encoded by the public schema.

    Parameters
    ----------
    path : path
        The private file, with the schema's label column.
    schema : Schema
        The public schema.
    preprocessor : Preprocessor, TextRows or None
        The preprocessor of the public set, as the party's model reads it.

    Returns
    -------
    X : ndarray of shape (n, num_features), float32; texts have shape (n, 1), object
    y : ndarray of shape (n,), int16

    Raises
    ------
    DataError
        If a column or a label is missing, a label is not a class of the schema, or a value does not fit its column.
    """
    table = read_table(path, label=schema.label, num_features=len(schema.columns))
    if schema.label not in table.columns:
        rule, way_out = f"have the schema's label column {schema.label!r}", "Rename the column that holds the class."
        raise DataError(explain(f"file {Path(path)}", rule, f"columns {short_list(list(table.columns))}", way_out))
    y = schema.encode_labels(table[schema.label])
    X = raw_matrix(table, schema) if preprocessor is None else preprocessor.transform(table)
    return X, y


def load_public(
    path: str | os.PathLike[str], schema_path: str | os.PathLike[str] | None = None, *, labels: str = ""
) -> PublicSet:
    """Read the public file U and its schema, and fit the preprocessing.

    The schema's label column is not a feature. What stands there becomes ``y``, if it is labels of the schema or
    nothing: the truth, which serves to measure and from which no algorithm learns.

    Parameters
    ----------
    path : path
        The public file.
    schema_path : path or None
        The schema; ``schema.toml`` beside the public file by default.
    labels : str
        A column of labels that everybody may learn from (`PublicLabels`): the schema's label column, or another one
        with classes of its own.

    Raises
    ------
    DataError
        If a file is missing, the rows do not fit the schema, or the column ``labels`` is missing or incomplete.
    """
    path = require_file(path)
    schema = Schema.read(schema_path or path.parent / "schema.toml")
    table = read_table(path, label=schema.label, num_features=len(schema.columns))
    y = _truth(table[schema.label], schema) if schema.label in table.columns else None
    public = make_public_set(table, schema, y=y)
    return replace(public, labels=_public_labels(table, schema, labels, path)) if labels else public


def _truth(values: pd.Series[Any], schema: Schema) -> NDArray[np.int16] | None:
    """Return the labels of the public rows, `UNKNOWN` where a row has none; None where they are not the schema's."""
    none = {None, "-1"} - {*schema.classes}  # NPZ and LIBSVM files cannot leave a label out
    labelled = np.array([text not in none for text in column_texts(values)])
    found = np.full(len(labelled), UNKNOWN, dtype=np.int16)
    try:
        found[labelled] = schema.encode_labels(values[labelled])
    except DataError:
        return None
    return found if labelled.any() else None


def _public_labels(table: pd.DataFrame, schema: Schema, name: str, path: Path) -> PublicLabels:
    name = column_name(name)
    if name not in table.columns:
        way_out = "Name a column of the public file, or leave public-label empty."
        raise DataError(explain("public-label", f"be a column of {path}", name, way_out))
    if name == schema.label:
        return PublicLabels(y=schema.encode_labels(table[name]), num_classes=schema.num_classes, of_schema=True)
    classes = sorted_texts(column_texts(table[name]))
    if not len(classes) >= 2:
        raise DataError(explain(f"column {name!r}", "hold at least two classes", f"{len(classes)} in {path}"))
    y = Schema(columns=(), classes=classes, label=name, shape=(1,)).encode_labels(table[name])
    return PublicLabels(y=y, num_classes=len(classes))


def read_libsvm(
    path: str | os.PathLike[str], *, num_features: int = 0
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Read a LIBSVM file, gzipped or not, as a dense matrix and its labels.

    Returns
    -------
    X : ndarray of shape (n, num_features), float32
    y : ndarray of shape (n,), float64

    Raises
    ------
    DataError
        If it is not a LIBSVM file, or has more features than ``num_features``.
    """
    from sklearn.datasets import load_svmlight_file

    try:
        with io.BytesIO(_content(path)) as file:
            # from memory, because sklearn reads a gzip file slowly, line by line; columns count from 1 in LIBSVM: to
            # guess it would let one row with an index 0 move the columns of all others
            X, y = load_svmlight_file(file, n_features=num_features or None, dtype=np.float64, zero_based=False)
    except (ValueError, IndexError, OverflowError) as error:
        most = f" of at most {num_features} features" if num_features else ""
        rule = f"hold LIBSVM lines (label index:value index:value ...){most}"
        way_out = "Indexes count from 1. If its first line names columns, let the file's name end in .csv or .tsv."
        raise DataError(explain(f"file {path}", rule, f"this: {error}", way_out)) from error
    if (size := 8 * X.shape[0] * X.shape[1]) > (limit := max_unpacked()):
        _refuse_large(Path(path), limit, f"{size / 1e9:.3g} GB ({X.shape[0]:,} rows of {X.shape[1]:,} features)")
    return X.toarray().astype(np.float32), y


def read_npz(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """Return the arrays of an NPZ file; Python objects in it are refused and never unpickled.

    Raises
    ------
    DataError
        If it is not an NPZ file of plain arrays.
    """
    path = Path(path)
    try:
        # opened here, because NumPy leaves the file open if it is not an archive
        with path.open("rb") as file:
            with zipfile.ZipFile(file) as archive:
                unpacked = sum(member.file_size for member in archive.infolist())
            if unpacked > (limit := max_unpacked()):
                _refuse_large(path, limit, f"{unpacked / 1e9:.3g} GB")
            file.seek(0)
            with np.load(file, allow_pickle=False) as arrays:
                found = {key: arrays[key] for key in arrays}
    except DataError:
        raise
    except Exception as error:  # a hostile shape asks for all memory; zipfile may raise anything
        seen = f"this: {type(error).__name__}: {error}"
        raise DataError(explain(f"file {path}", "be an NPZ file of plain arrays", seen)) from error
    if strange := [name for name, array in found.items() if not isinstance(array, np.ndarray)]:
        raise DataError(explain(f"file {path}", "be an NPZ file of plain arrays", f"other members: {strange[:3]}"))
    return found


def image_shape(path: str | os.PathLike[str]) -> tuple[int, int, int] | None:
    """Return (channels, height, width) of the images in an NPZ file, None where a file holds a table.

    Images are a uint8 array ``X`` of shape (n, height, width) or (n, channels, height, width).

    Raises
    ------
    DataError
        If the channels come last.
    """
    path = Path(path).expanduser()
    if path.suffix.lower() != ".npz":
        return None
    with zipfile.ZipFile(path) as archive, archive.open("X.npy") as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
    if dtype != np.uint8 or len(shape) not in (3, 4):
        return None
    channels, height, width = shape[1:] if len(shape) == 4 else (1, *shape[1:])
    if width <= _MOST_CHANNELS < channels:
        way_out = "Turn them: X.transpose(0, 3, 1, 2)."
        raise DataError(explain(f"images of {path}", "have shape (n, channels, height, width)", shape, way_out))
    return channels, height, width


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


def _content(path: str | os.PathLike[str]) -> bytes:
    """Return what a file holds, unzipped."""
    path = Path(path)
    data = path.read_bytes()  # its name says whether it is zipped: a row could begin as a gzip file does
    return _unzipped(data, path) if path.suffix.lower() == ".gz" else data


def max_unpacked() -> int:
    """Return how many bytes a file may unpack to: what ``FEDKD_MAX_UNPACKED_GB`` says, `MAX_UNPACKED_GB` by default.

    Raises `DataError` if that is no number above 0.
    """
    said = os.environ.get(_LIMIT_NAME, "") or str(MAX_UNPACKED_GB)
    try:
        gigabytes = float(said)
    except ValueError:
        gigabytes = math.nan
    if not 0 < gigabytes < math.inf:
        raise DataError(explain(f"the environment's {_LIMIT_NAME}", "be a number of gigabytes above 0", said))
    return round(gigabytes * 1e9)


def _refuse_large(path: Path, limit: int, seen: str) -> NoReturn:
    way_out = f"If it is meant to be that large: export {_LIMIT_NAME}={4 * limit / 1e9:g}"
    raise DataError(explain(f"file {path}", f"unpack to at most {limit / 1e9:g} GB ({_LIMIT_NAME})", seen, way_out))


def _unzipped(data: bytes, path: Path) -> bytes:
    """Return what a gzip file unpacks to, as long as that is no more than it may be."""
    limit, size = max_unpacked(), 0
    if len(data) * _DEFLATE_RATIO > limit:  # counted first, so that a bomb takes no memory
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            while chunk := file.read(2**20):
                size += len(chunk)
                if size > limit:
                    _refuse_large(path, limit, f"more, from {len(data):,} bytes")
    return gzip.decompress(data)


def _read_libsvm_lines(
    path: str | os.PathLike[str], *, num_features: int
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Return what `read_libsvm` returns; zeros, and NaN as label, for lines that it cannot read."""
    from sklearn.datasets import load_svmlight_file

    text = _content(path)
    # a carriage return is white space here, as it is to scikit-learn
    lines = np.array([line for line in text.split(b"\n") if line.partition(b"#")[0].strip()], dtype=object)
    X, y = np.zeros((len(lines), num_features), dtype=np.float32), np.full(len(lines), np.nan)

    def take(rows: Rows) -> None:
        part = io.BytesIO(b"\n".join(lines[rows]))
        features, labels = load_svmlight_file(part, n_features=num_features, dtype=np.float64, zero_based=False)
        X[rows], y[rows] = features.toarray(), labels

    _in_halves(take, np.arange(len(lines)))
    return X, y


def _require_pyarrow(path: Path) -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        way_out = 'pip install "fedkd-flwr[parquet]", or save the table as CSV.'
        raise MissingExtraError(explain(f"reading {path.name}", "have pyarrow", "none installed", way_out)) from error
    return pyarrow


def _read_parquet(path: Path, *, lenient: bool) -> pd.DataFrame:
    pyarrow = _require_pyarrow(path)
    try:
        meta = pyarrow.parquet.read_metadata(path)
        names = [column_name(name) for name in pyarrow.parquet.read_schema(path).names]
        unpacked = sum(meta.row_group(i).total_byte_size for i in range(meta.num_row_groups))
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(explain(f"file {path}", "be a Parquet file", f"this: {error}")) from error
    require_distinct(names, path)
    if unpacked > (limit := max_unpacked()):
        _refuse_large(path, limit, f"{unpacked / 1e9:.3g} GB")
    try:
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


def _plain_values(column: Any) -> pd.Series[Any]:
    """Return a column of Arrow's, with a text in place of each value that is none in Python."""
    with contextlib.suppress(Exception):
        return pd.Series(column.to_pandas(integer_object_nulls=True))
    values = np.full(len(column), "(unreadable)", dtype=object)

    def take(rows: Rows) -> None:
        values[rows] = column.take(rows).to_pandas(integer_object_nulls=True).to_numpy(dtype=object)

    _in_halves(take, np.arange(len(column)))
    return pd.Series(values, dtype=object)


def _read_npz(path: Path, label: str) -> pd.DataFrame:
    arrays = read_npz(path)
    if "X" not in arrays:
        raise DataError(explain(f"file {path}", "hold an array X", f"the arrays {', '.join(arrays) or 'none'}"))
    X, y = _with_characters(arrays["X"]), _with_characters(arrays["y"]) if "y" in arrays else None
    if X.ndim < 2 or (y is not None and y.shape != (len(X),)):
        seen = f"X {X.shape}, y {None if y is None else y.shape}"
        raise DataError(explain(f"arrays of {path}", "have shapes (n, ...) and (n,)", seen))
    prefix = "x" if X.ndim == 2 else "pixel-"
    X = X.reshape(len(X), -1)
    table = pd.DataFrame(X, columns=[f"{prefix}{i}" for i in range(X.shape[1])])
    return table if y is None else table.assign(**{label: y})


def _with_characters(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array whose texts hold the sign of replacement for what is no character: pandas would read none."""
    if array.dtype.kind != "U" or not array.dtype.itemsize:
        return array
    array = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
    codes = array.view(np.uint32)
    codes[(codes > 0x10FFFF) | ((codes >= 0xD800) & (codes < 0xE000))] = 0xFFFD
    return array

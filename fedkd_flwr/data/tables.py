"""Users' own files: CSV, TSV, Parquet, Excel and NPZ, read into one table.

CSV values are read as text and become numbers only where the schema says so. So the types cannot differ between
parties, and ``007`` is a category of its own where the schema has categories.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedkd_flwr.checks import nearest
from fedkd_flwr.data import formats
from fedkd_flwr.data.columns import column_name, column_texts, require_distinct, short_list, sorted_texts
from fedkd_flwr.data.csv_table import csv_table
from fedkd_flwr.data.public import Preprocessor, PublicLabels, PublicSet, make_public_set
from fedkd_flwr.data.reading import readable_numbers
from fedkd_flwr.data.schema import Schema, labels_of
from fedkd_flwr.data.text import TextRows
from fedkd_flwr.errors import Code, DataError, FedkdError, explain
from fedkd_flwr.labels.voting import ABSTAIN

__all__ = ["UsableRows", "given_table", "giving", "lacking", "load_party_table", "load_public", "load_usable_rows"]
__all__ += ["named_alike", "party_files", "read_table", "read_tables", "readable_rows", "truth"]

_KINDS = dict.fromkeys((".csv", ".tsv", ".txt", ".data", ".dat", ".tab", ".test"), "csv")
_KINDS |= {".parquet": "parquet", ".npz": "npz", ".xlsx": "excel"}


def read_table(
    path: str | os.PathLike[str],
    schema: Schema | None = None,
    *,
    label: str = "label",
    header: str = "",
    encoding: str = "",
    lenient: bool = False,
    notes: list[str] | None = None,
) -> pd.DataFrame:
    """Read a file as a table of raw values, one column per name; each accented letter in a name is one character.

    docs/howto/your-data.md lists the formats. Columns without a name are ``x0``, ... (NPZ) or ``pixel-0``, ... (images
    in NPZ). ``schema`` is what the file should fit: it names the label column, the header line and encoding of texts;
    without it ``label``, ``header`` and ``encoding`` do. With ``lenient`` a line that cannot be read, or has too many
    or too few values, becomes a row that fits no schema, and its neighbours stay what they are; a cell of a Parquet
    file becomes a text. What was found out about the file is appended to ``notes``, in whole sentences.
    """
    if (given := given_table(path)) is not None:
        return given
    path = formats.require_file(path)
    wanted: tuple[str, ...] = ()
    if schema is not None:
        label, header, encoding, wanted = schema.label, schema.header, schema.encoding, schema.column_names
    kind, said = _kind(path), [] if notes is None else notes
    try:
        if kind == "csv":
            named = (*wanted, label) if schema is not None else ()
            table = csv_table(
                formats.content(path), path, header=header, encoding=encoding, wanted=named, lenient=lenient, notes=said
            )
        elif kind == "excel":
            table = formats.read_excel(path, notes=said).rename(columns=lambda name: column_name(str(name)))
        elif kind == "parquet":
            table = formats.read_parquet(path, lenient=lenient).rename(columns=lambda name: column_name(str(name)))
        else:
            table = formats.table_of_npz(path, label)
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


def party_files(tables: str) -> dict[str, Path]:
    """Return the files of several parties by party: paths with commas between them, or those in one folder.

    A party is called as its file is, without suffixes. Fewer than two, or two of one name, are a `DataError`.
    """
    paths = [Path(one.strip()).expanduser() for one in tables.split(",") if one.strip()]
    if len(paths) == 1 and paths[0].is_dir():
        paths = sorted(path for path in paths[0].iterdir() if _suffix(path) in _KINDS and path.is_file())
    names = [column_name(path.name.split(".")[0] or path.name) for path in paths]
    if len(paths) < 2:
        way_out = "Name them with commas, or their folder. A column of parties: table=... partition-column=..."
        raise DataError(explain("tables", "be two files or more, one for each party", tables, way_out))
    require_distinct("the files of tables", names)
    return dict(zip(names, paths, strict=True))


def read_tables(
    files: Mapping[str, Path], schema: Schema | None = None, *, notes: list[str], **how: Any
) -> tuple[pd.DataFrame, NDArray[np.object_]]:
    """Read the files of several parties as one table, each as `read_table` does; return it, and whose each row is.

    A column that a file lacks is empty in its rows, and ``attrs["lacks"]`` of the table names it (`lacking`). That is
    appended to ``notes``, and what was found out about files. Raises `DataError` as `read_table`; or if a file lacks
    the label column, or images have several shapes.
    """
    label = schema.label if schema is not None else how.get("label", "label")
    read: dict[str, pd.DataFrame] = {}
    for name, path in files.items():
        said: list[str] = []
        read[name] = table = read_table(path, schema, notes=said, **how)
        notes += [f"{path.name}: {text}" for text in said]
        if label not in table.columns:
            way_out = f"Its columns are {short_list(list(table.columns))}."
            raise DataError(explain("label", f"be a column of {path}", label, way_out))
    lacks = lacking(read)
    notes += [f"{files[name].name} has no column {short_list(columns)}" for name, columns in lacks.items()]
    if len(shapes := {table.attrs.get("shape") for table in read.values()}) > 1:
        raise DataError(explain("images of all files", "have one shape", short_list(sorted(map(str, shapes)))))
    first = next(iter(read.values()))
    # as objects: pandas would else turn the whole numbers of a column that another file lacks into floats
    parts = [table if first.attrs.get("shape") else table.astype(object) for table in read.values()]
    whole = pd.concat(parts, ignore_index=True)
    whole.attrs = {**first.attrs, "lacks": lacks}
    owners = np.array([name for name, table in read.items() for _ in range(len(table))], dtype=object)
    return whole, owners


def lacking(tables: Mapping[str, pd.DataFrame]) -> dict[str, list[str]]:
    """Return, by party, the columns of the others' tables that its own does not have, as its header says.

    >>> lacking({"a": pd.DataFrame(columns=["x", "z"]), "b": pd.DataFrame(columns=["x"])})
    {'b': ['z']}
    """
    every = dict.fromkeys(name for table in tables.values() for name in table.columns)
    found = {party: [name for name in every if name not in table.columns] for party, table in tables.items()}
    return {party: names for party, names in found.items() if names}


def named_alike(lacks: Mapping[str, Collection[str]], num_parties: int) -> list[str]:
    """Ask of two columns with names alike, of which no party has both, whether they are one; ``lacks`` as of `lacking`.

    >>> named_alike({"north": ["Age", "bmi"], "south": ["age"]}, 2)
    ["Is 'Age' what others call 'age'? Then give it one name everywhere."]
    """
    names = sorted({name for lacked in lacks.values() for name in lacked}) if len(lacks) == num_parties else []
    pairs = [two for two in combinations(names, 2) if not any(set(two).isdisjoint(one) for one in lacks.values())]
    alike = [pair for pair in pairs if nearest(pair[0].lower(), [pair[1].lower()])]
    return ["Is {!r} what others call {!r}? Then give it one name everywhere.".format(*pair) for pair in alike]


def _kind(path: Path) -> str:
    """Return what kind of table a file is: its name says so, because no row of it must decide how others are read."""
    suffix, zipped = _suffix(path), path.suffix.lower() == ".gz"
    kind = _KINDS.get(suffix)
    if kind is None or (zipped and kind != "csv"):
        way_out = "Save a sheet as .xlsx or CSV (UTF-8), and name a text of lines and columns .csv or .tsv."
        seen = "".join(path.suffixes) or "no suffix"
        raise DataError(explain(f"file {path}", f"end in {', '.join(_KINDS)}", seen, way_out))
    return kind


def _suffix(path: Path) -> str:
    """Return what a file's name ends in, without a last .gz, in small letters."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    return ((suffixes[:-1] if suffixes[-1:] == [".gz"] else suffixes)[-1:] or [""])[0]


@dataclass(frozen=True, kw_only=True)
class UsableRows:
    """A party's own file, as far as it can be used."""

    X: NDArray[Any]  # all rows of the file, zeros (or empty texts) where a row cannot be used
    y: NDArray[np.int16]  # their labels, -1 where a row cannot be used
    numbers: tuple[NDArray[np.float64], ...] = ()  # the numbers that `y` are bins of, where it is such
    fault: Exception | None = None  # why some rows cannot be used, or all

    @property
    def num_rows(self) -> int:
        """Rows of the file; 0 where it could not be read as a table at all."""
        return len(self.y)


def load_usable_rows(path: str | os.PathLike[str], public: PublicSet) -> UsableRows:
    """Read a party's own file as `load_party_table` does, but leave out rows that cannot be used, and say why.

    What one row holds decides nothing about another: beside a privacy claim for records, a row with an unknown class,
    or with a comma too many, must not cost the party its other rows. A file that is no table at all has no rows. Only a
    missing or locked file, an unknown suffix or missing pyarrow is an error: nothing that is in it.
    """
    schema = public.schema
    if _kind(formats.require_file(path)) in ("parquet", "excel"):
        formats.require_library(Path(path))
    try:
        X, y, *numbers = load_party_table(path, schema, public.preprocessor)
        return UsableRows(X=X, y=y, numbers=tuple(numbers))
    except Exception as error:  # anything in the file may have caused it
        fault = error
    try:
        table = read_table(path, schema, lenient=True)
    except Exception:
        return UsableRows(X=public.X[:0], y=np.zeros(0, dtype=np.int16), fault=fault)
    X, y = np.zeros((len(table), public.num_features), dtype=public.X.dtype), np.full(len(table), -1, dtype=np.int16)
    target = np.full(len(table) if schema.label_numbers([]) is not None else 0, np.nan)

    def take(rows: formats.Rows) -> None:
        labels = schema.encode_labels(table[schema.label].iloc[rows])
        X[rows] = public.features(table.iloc[rows])
        y[rows] = labels
        if len(target):
            target[rows] = schema.label_numbers(table[schema.label].iloc[rows])

    def readable(rows: formats.Rows) -> NDArray[np.bool_]:
        part = table.iloc[rows]
        return schema.known_labels(part[schema.label]) & readable_rows(part, schema)

    if {schema.label, *schema.column_names} <= set(table.columns):
        formats.in_usable_parts(take, readable, len(table))
    return UsableRows(X=X, y=y, numbers=(target,) if len(target) else (), fault=fault)


def readable_rows(table: pd.DataFrame, schema: Schema) -> NDArray[np.bool_]:
    """Tell of each row whether numbers stand where the schema says so: at once, because all rows may have none."""
    readable = np.ones(len(table), dtype=bool)
    for name in schema.column_names if schema.shape is not None else ():
        readable &= readable_numbers(table[name], pixels=True)
    for column in schema.columns:
        if column.kind == "numeric":
            readable &= readable_numbers(table[column.name], column.reading)
    return readable


def load_party_table(
    path: str | os.PathLike[str], schema: Schema, preprocessor: Preprocessor | TextRows
) -> tuple[NDArray[Any], ...]:
    """Read a party's own file as features (n, d), labels (n,), int16, and any numbers (n,) that these are bins of.

    ``preprocessor`` is that of the public set, as the party's model reads it. `DataError` if anything does not fit.
    """
    table = read_table(path, schema)
    if schema.label not in table.columns:
        rule, way_out = f"have the schema's label column {schema.label!r}", "Rename the column that holds the class."
        raise DataError(explain(f"file {Path(path)}", rule, f"columns {short_list(list(table.columns))}", way_out))
    y = schema.encode_labels(table[schema.label])
    numbers = schema.label_numbers(table[schema.label])
    return preprocessor.transform(table), y, *(() if numbers is None else (numbers,))


def load_public(
    path: str | os.PathLike[str], schema_path: str | os.PathLike[str] | None = None, *, labels: str = ""
) -> PublicSet:
    """Read the public file U and its schema (``schema.toml`` beside it by default), and fit the preprocessing.

    The schema's label column is not a feature. What stands there becomes ``y``, if it is labels of the schema or
    nothing: the truth, which serves to measure and from which no algorithm learns. ``labels`` is a column of labels
    that everybody may learn from (`PublicLabels`): that one, or another one with classes of its own.
    """
    path = formats.require_file(path)
    schema = Schema.read(schema_path or path.parent / "schema.toml")
    table = read_table(path, schema)
    public = make_public_set(table, schema, y=truth(table, schema))
    return replace(public, labels=_public_labels(table, schema, labels, path)) if labels else public


def truth(table: pd.DataFrame, schema: Schema) -> NDArray[np.int16] | None:
    """Return the labels of public rows, `ABSTAIN` where a row has none; None where they are not the schema's."""
    if schema.label not in table.columns:
        return None
    values = table[schema.label]
    # an NPZ file cannot leave a label out
    none = {None, "-1"} - {*schema.classes} if schema.label_numbers([]) is None else {None}
    labelled = np.array([text not in none for text in column_texts(values)])
    found = np.full(len(labelled), ABSTAIN, dtype=np.int16)
    try:
        found[labelled] = schema.encode_labels(values[labelled])
    except DataError:
        return None
    return found if labelled.any() else None


def _public_labels(table: pd.DataFrame, schema: Schema, name: str, path: Path) -> PublicLabels:
    name = column_name(name)
    if name not in table.columns:
        way_out = "Name a column of the public file, or leave paper.public-label-column empty."
        raise DataError(explain("paper.public-label-column", f"be a column of {path}", name, way_out))
    if name == schema.label:
        return PublicLabels(y=schema.encode_labels(table[name]), num_classes=schema.num_classes, of_schema=True)
    classes = sorted_texts(column_texts(table[name]))
    if not len(classes) >= 2:
        raise DataError(explain(f"column {name!r}", "hold at least two classes", f"{len(classes)} in {path}"))
    return PublicLabels(y=labels_of(table[name], classes, name), num_classes=len(classes))


# ------------------------------------------------------------------------ tables that a program hands over

_given: dict[str, pd.DataFrame] = {}


@contextmanager
def giving(table: pd.DataFrame) -> Iterator[str]:
    """Let a table be read by the name that this yields, until the block ends; no row is written to a disk.

    Equal tables have equal names, so that two runs on one table can be compared.

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

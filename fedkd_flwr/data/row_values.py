"""What a row is, whatever file it stands in: the values by which a privacy ledger knows it again.

The same row has the same values in every format, order and spelling that the schema reads alike. Columns that it does
not name do not count: an added number of a row makes no new row. Numbers count at the precision of float32, at which
models see them.
"""

from __future__ import annotations

from hashlib import blake2b, sha256, shake_256
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedkd_flwr.data.columns import column_texts
from fedkd_flwr.data.formats import Rows, in_usable_parts
from fedkd_flwr.data.preprocessor import check_columns, pixels_of
from fedkd_flwr.data.reading import column_numbers
from fedkd_flwr.data.schema import Schema
from fedkd_flwr.data.tables import readable_rows
from fedkd_flwr.data.text import text_values

__all__ = ["row_form", "row_values", "usable_row_values"]


def row_form(schema: Schema) -> str:
    """Return a digest of columns' names, kinds and readings, and of the label's name: in another form a row is another.

    The order of columns does not matter, nor do categories and classes.
    """
    readings = [column.reading for column in schema.columns]
    rules = [one.rules | ({"missing": sorted(one.missing)} if one.missing else {}) for one in readings]
    columns = sorted((c.name, c.kind, *own.items()) for c, own in zip(schema.columns, rules, strict=True))
    return sha256(repr((columns, schema.label, schema.shape)).encode()).hexdigest()[:16]


def row_values(table: pd.DataFrame, schema: Schema) -> list[NDArray[Any]]:
    """Return the canonical values of each row and its label: blocks (n, d) of numbers; texts as hashes."""
    check_columns(table, schema)
    label = _numbered(column_texts(table[schema.label]))
    if schema.shape is not None:
        return [pixels_of(table, schema), label]
    numbers, texts = [], []
    for column in sorted(schema.columns, key=lambda column: column.name):
        values = table[column.name]
        if column.kind == "numeric":
            numbers.append(column_numbers(values, column.name, column.reading).astype(np.float32))
        else:
            read = text_values if column.kind == "text" else column_texts
            size = 8 if column.kind == "text" else 4
            texts.append(_numbered(read(values, column.reading.missing), size=size))
    return [*([np.stack(numbers, axis=1)] if numbers else []), *texts, label]


def usable_row_values(table: pd.DataFrame, schema: Schema, *, digest: str) -> list[NDArray[Any]]:
    """Return `row_values`; where a row has none, values of its texts: one bad cell changes what no other row is.

    A model that reads texts learns from a row whose number nobody can read, so that row is known again too. ``digest``
    names this file; a row whose cells have no texts is a row of this file alone. An empty list for a table without one
    of the columns.
    """
    if not {schema.label, *schema.column_names} <= set(table.columns):
        return []
    layout = row_values(pd.DataFrame(columns=[*schema.column_names, schema.label], dtype=str), schema)
    blocks = [np.zeros((len(table), *block.shape[1:]), dtype=block.dtype) for block in layout]
    without = np.ones(len(table), dtype=bool)

    def take(rows: Rows) -> None:
        for block, part in zip(blocks, row_values(table.iloc[rows], schema), strict=True):
            block[rows] = part
        without[rows] = False

    in_usable_parts(take, lambda rows: readable_rows(table.iloc[rows], schema), len(table))
    if without.any():
        _take_texts(blocks, table, np.flatnonzero(without), schema, digest)
    return blocks


def _take_texts(
    blocks: list[NDArray[Any]], table: pd.DataFrame, rows: NDArray[np.intp], schema: Schema, digest: str
) -> None:
    """Put values that follow from the texts of some of a table's rows into these rows of the blocks."""
    names = *sorted(schema.column_names), schema.label
    said = np.array([f"{digest} {row}" for row in rows], dtype=object)

    def read(part: Rows) -> None:
        texts = [column_texts(table[name].iloc[rows[part]]) for name in names]
        said[part] = [repr(cells) for cells in zip(*texts, strict=True)]

    in_usable_parts(read, lambda part: np.ones(len(rows), dtype=bool)[part], len(rows))
    widths = [block[:1].nbytes for block in blocks]
    drawn = b"".join(shake_256(one.encode()).digest(sum(widths)) for one in said)
    parts = np.split(np.frombuffer(drawn, dtype=np.uint8).reshape(len(rows), -1), np.cumsum(widths)[:-1], axis=1)
    for block, part in zip(blocks, map(np.ascontiguousarray, parts), strict=True):
        block[rows] = part.view("<u4") / 2**32 if block.dtype.kind == "f" else part.view(block.dtype)


def _numbered(texts: NDArray[np.object_], *, size: int = 4) -> NDArray[Any]:
    """Return a column of texts as a hash of ``size`` bytes each, 0 where one is missing: shape (n, 1)."""
    codes, distinct = pd.factorize(texts)
    numbers = np.zeros(len(distinct) + 1, dtype=f"<u{size}")  # code -1 (missing) takes the last one
    for i, text in enumerate(distinct):
        canonical = text.encode("utf-8", "surrogatepass")
        numbers[i] = int.from_bytes(blake2b(canonical, digest_size=size).digest(), "little")
    return numbers[codes][:, None]

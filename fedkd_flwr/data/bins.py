"""Each column's values in a few bins, fixed by public facts alone: what is counted, and what rows are drawn from.

A categorical column has one bin for each category of the schema, and one for everything else: a missing value, and one
that the schema does not name. A numeric column has the ``bins`` of the schema, else bins that public rows fill equally.
No private row decides which bins there are, so that a value which one party alone holds has no count of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedkd_flwr.data.columns import short_list
from fedkd_flwr.data.preprocessor import Preprocessor
from fedkd_flwr.data.public import PublicSet
from fedkd_flwr.data.reading import PLAIN
from fedkd_flwr.data.schema import Column, Schema
from fedkd_flwr.errors import DataError, explain

__all__ = ["Bins", "bin_rows", "require_bins", "require_table"]

_WAYS = "Take public rows of another source (a donated or published set); images and texts have no such counts."


@dataclass(frozen=True, kw_only=True)
class Bins:
    """The bins of all columns of a public set, in the order of its features."""

    schema: Schema
    # Of each numeric column the least and the largest value that is drawn for each bin, ascending, in the raw unit; a
    # bin begins at its least value. Empty for a column of categories.
    lows: Sequence[NDArray[np.float64]]
    highs: Sequence[NDArray[np.float64]]
    # a row is at or above threshold i if its feature ``columns[i]`` is: these answers decide all of its bins
    columns: NDArray[np.int64]
    thresholds: NDArray[np.float32]

    @classmethod
    def of(cls, public: PublicSet, *, most: int) -> Bins:
        """Return the bins of a public set; of numbers without ``bins`` in the schema there are at most ``most``."""
        require_table(public.schema)
        state: dict[str, Any] = public.preprocessor.state() if isinstance(public.preprocessor, Preprocessor) else {}
        lows, highs, columns, thresholds = [], [], [], []
        at = 0
        for column in public.schema.columns:
            low = high = np.zeros(0)
            if column.kind == "categorical":
                width = len(column.categories)
                columns.append(np.arange(at, at + width))
                thresholds.append(np.full(width, 0.5))
                at += width
            else:
                _, mean, deviation = state.get("numeric", {}).get(column.name, (0.0, 0.0, 1.0))
                low, high = _ends(column, public.X[:, at].astype(np.float64) * deviation + mean, most)
                columns.append(np.full(len(low) - 1, at))
                thresholds.append((low[1:] - mean) / deviation)
                at += 1
            lows.append(low)
            highs.append(high)
        return cls(
            schema=public.schema,
            lows=lows,
            highs=highs,
            columns=np.concatenate(columns).astype(np.int64),
            thresholds=np.concatenate(thresholds).astype(np.float32),
        )

    def arrays(self) -> dict[str, Any]:
        """Return all but the schema as a model keeps it; ``Bins(schema=..., **arrays)`` makes the bins again."""
        plain = {"columns": self.columns, "thresholds": self.thresholds}
        return {**plain, "lows": list(self.lows), "highs": list(self.highs)}

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many bins each column has."""
        pairs = zip(self.schema.columns, self.lows, strict=True)
        return tuple(len(c.categories) + 1 if c.kind == "categorical" else len(low) for c, low in pairs)

    def codes(self, X: NDArray[np.floating[Any]]) -> NDArray[np.int64]:
        """Return the bin of each column for each row of features: (rows, columns), each within its column's bins."""
        over = X[:, self.columns] >= self.thresholds
        codes, at = np.empty((len(X), len(self.sizes)), dtype=np.int64), 0
        for j, (column, size) in enumerate(zip(self.schema.columns, self.sizes, strict=True)):
            part = over[:, at : at + size - 1]
            if column.kind == "categorical":  # the first category that holds, else the last bin
                codes[:, j] = np.where(part.any(axis=1), part.argmax(axis=1) if size > 1 else 0, size - 1)
            else:
                codes[:, j] = part.sum(axis=1)
            at += size - 1
        return codes

    def cells(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers of the cells that rows are counted in: each column's bins follow the last column's."""
        return codes + np.concatenate([[0], np.cumsum(self.sizes)[:-1]]).astype(np.int64)

    def by_threshold(self, scores: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return a score of each cell (cells, classes) as weights of the thresholds, and what no threshold decides."""
        weights, rest, at = [], np.zeros(scores.shape[1]), 0
        for column, size in zip(self.schema.columns, self.sizes, strict=True):
            own = scores[at : at + size]
            base = own[-1] if column.kind == "categorical" else own[0]
            weights.append(own[:-1] - base if column.kind == "categorical" else np.diff(own, axis=0))
            rest = rest + base
            at += size
        return np.concatenate(weights), rest

    def counts(self, X: NDArray[Any], y: NDArray[np.integer[Any]], *, num_classes: int) -> NDArray[np.int64]:
        """Return how many rows are in each bin with each class: (bins of all columns, num_classes), int64."""
        flat = self.cells(self.codes(X)) * num_classes + np.asarray(y, dtype=np.int64)[:, None]
        shape = sum(self.sizes), num_classes
        counts: NDArray[np.int64] = np.bincount(flat.ravel(), minlength=shape[0] * shape[1]).reshape(shape)
        return counts

    def names(self) -> Iterator[tuple[str, str]]:
        """Yield the column and the bin of each cell, in words."""
        for column, low, high in zip(self.schema.columns, self.lows, self.highs, strict=True):
            if column.kind == "categorical":
                words = [*column.categories, "(missing or another)"]
            else:
                words = [f"{a:g}" if a == b else f"{a:g} to {b:g}" for a, b in zip(low, high, strict=True)]
            for word in words:
                yield column.name, word

    def rows(self, codes: NDArray[np.int64], *, rng: np.random.Generator) -> pd.DataFrame:
        """Return raw rows with these bins, numbers drawn evenly within: whole ones where all ends of a column are."""
        table: dict[str, Any] = {}
        for column, code, low, high in zip(self.schema.columns, codes.T, self.lows, self.highs, strict=True):
            if column.kind == "categorical":
                table[column.name] = np.array([*column.categories, ""], dtype=object)[code]
            elif all((ends == np.floor(ends)).all() for ends in (low, high)):
                table[column.name] = _spelt(column, rng.integers(low[code], high[code], endpoint=True, dtype=np.int64))
            else:
                table[column.name] = _spelt(column, rng.uniform(low[code], high[code]))
        return pd.DataFrame(table)


def bin_rows(schema: Schema) -> pd.DataFrame:
    """Return rows that show each bin of a schema at least once: a public table for a run before there are public rows.

    Nobody's rows: row i has the i-th bin of every column, from the first again after a column's last.
    """
    require_table(schema)
    require_bins(schema)
    sizes = [len(c.categories) + 1 if c.kind == "categorical" else len(c.bins) - 1 for c in schema.columns]
    table: dict[str, Any] = {}
    for column, size in zip(schema.columns, sizes, strict=True):
        at = np.arange(max(*sizes, 2)) % size
        own = np.array(column.bins, dtype=np.float64)
        if column.kind == "categorical":
            table[column.name] = np.array([*column.categories, ""], dtype=object)[at]
        else:
            table[column.name] = _spelt(column, ((own[:-1] + own[1:]) / 2)[at])
    return pd.DataFrame(table)


def _spelt(column: Column, numbers: NDArray[Any]) -> Any:
    """Return numbers as the column is read: as they are, or as texts where it has rules, such as dates."""
    return numbers if column.reading == PLAIN else np.array(column.reading.spell(numbers), dtype=object)


def require_table(schema: Schema) -> None:
    """Refuse images and texts, by name."""
    if schema.shape is not None:
        raise DataError(explain("noisy sums", "be of a table", f"images of shape {schema.shape}", _WAYS))
    if schema.text_columns:
        raise DataError(explain("noisy sums", "be of numbers and categories", f"texts: {schema.text_columns}", _WAYS))


def require_bins(schema: Schema) -> None:
    """Refuse numeric columns whose bins the schema does not say, and name them."""
    if without := [column.name for column in schema.columns if column.kind == "numeric" and not column.bins]:
        way_out = 'Write the edges into the schema from what everybody knows, such as "bins = [0, 18, 30, 45, 60, 99]".'
        raise DataError(explain("bins", "be given for every numeric column", f"none of {short_list(without)}", way_out))


def _ends(column: Column, values: NDArray[np.float64], most: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the least and the largest value of each bin of a numeric column."""
    if column.bins:
        edges = np.array(column.bins, dtype=np.float64)
        whole = bool((edges == np.floor(edges)).all())  # the last bin has its end too
        return edges[:-1], np.append(edges[1:-1] - whole, edges[-1])
    # as the raw file has them: features hold seven digits
    largest = float(np.abs(values).max())
    values = np.round(values, 7 - int(np.ceil(np.log10(largest)))) if largest > 0 else values
    few, rows = np.unique(values, return_counts=True)
    starts = few
    if len(few) > most:
        often = rows > len(values) / most  # a value that many rows hold is a bin of its own
        cuts = np.quantile(values, np.arange(1, most) / most, method="higher")
        cuts = np.unique([*cuts, *few[often], *few[1:][often[:-1]]])
        left = max(most - 1 - len(cuts), 0)  # the rarer values need bins too
        starts = np.unique([few[0], *cuts, *np.quantile(few, np.arange(1, left + 1) / (left + 1), method="higher")])
    return starts, few[np.append(np.searchsorted(few, starts[1:]), len(few)) - 1]

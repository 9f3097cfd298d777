"""Raw rows to features, the same at every party, because everything is fitted on the public rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedkd_flwr.data.columns import canonical, column_texts, factorize, short_list
from fedkd_flwr.data.reading import column_numbers
from fedkd_flwr.data.schema import Column, Schema
from fedkd_flwr.data.text import TermWeights, text_values
from fedkd_flwr.errors import DataError, explain

__all__ = ["Preprocessor", "Table", "check_columns", "column_of", "pixels_of"]

Table = pd.DataFrame | NDArray[Any]
"""Raw rows: a DataFrame with named columns, or an array with columns in the schema's order."""


class Preprocessor:
    """Turns raw rows into features; everything is fitted on the public rows U.

    An empty number becomes U's median; then U's mean is subtracted, and U's deviation divides, unless it is 0. A
    category is one 0/1 column, all zeros where it is missing or unknown. Texts become TF-IDF columns, and pixels are
    divided by 255.

    >>> sex = Column(name="sex", kind="categorical", categories=("f", "m"))
    >>> schema = Schema(columns=(Column(name="age", kind="numeric"), sex), classes=("no", "yes"))
    >>> public = pd.DataFrame({"age": [20, 40], "sex": ["f", "m"]})
    >>> private = pd.DataFrame({"sex": ["?", "m"], "age": [30, 50]})
    >>> Preprocessor().fit(public, schema).transform(private).tolist()
    [[0.0, 0.0, 0.0], [2.0, 0.0, 1.0]]
    """

    def __init__(self) -> None:
        self._schema: Schema | None = None
        self._numeric: dict[str, tuple[float, float, float]] = {}  # name -> median, mean, deviation
        self._terms: dict[str, TermWeights] = {}

    def fit(self, table: Table, schema: Schema) -> Preprocessor:
        """Learn medians, means, deviations and words from the public rows; return self."""
        check_columns(table, schema)
        self._schema = schema
        self._numeric, self._terms = {}, {}
        for j, column in enumerate(schema.columns):
            if column.kind == "text":
                texts = text_values(column_of(table, column.name, j), column.reading.missing)
                self._terms[column.name] = TermWeights().fit(texts, max_terms=column.max_terms, name=column.name)
            if column.kind == "numeric" and schema.shape is None:
                numbers = column_numbers(column_of(table, column.name, j), column.name, column.reading)
                known = numbers[~np.isnan(numbers)]
                median = float(np.median(known)) if len(known) else 0.0
                filled = np.where(np.isnan(numbers), median, numbers)
                with np.errstate(over="ignore", invalid="ignore"):
                    mean, deviation = float(filled.mean()), float(filled.std())
                if not (np.isfinite(mean) and np.isfinite(deviation)):
                    seen = f"up to {np.abs(filled).max()}"
                    raise DataError(explain(f"column {column.name!r}", "hold numbers of moderate size", seen))
                # a deviation this small comes from rounding errors
                constant = not deviation > 1e-12 * max(1.0, abs(mean))
                self._numeric[column.name] = (median, mean, 1.0 if constant else deviation)
        return self

    def state(self) -> dict[str, Any]:
        """Return what was learnt from the public rows as plain values; `restored` makes the same features of it."""
        self._fitted()
        terms = {name: weights.state() for name, weights in self._terms.items()}
        return {"numeric": {name: list(values) for name, values in self._numeric.items()}, "terms": terms}

    @classmethod
    def restored(cls, schema: Schema, state: Mapping[str, Any]) -> Preprocessor:
        """Return the preprocessor of a schema and `state`; ValueError, TypeError or KeyError if it is none."""
        made = cls()
        made._schema = schema
        kinds = {} if schema.shape is not None else {column.name: column.kind for column in schema.columns}
        made._terms = {name: TermWeights.restored(values) for name, values in state["terms"].items()}
        for name, values in state["numeric"].items():
            median, mean, deviation = (float(value) for value in values)
            if not (np.isfinite([median, mean]).all() and 0 < deviation < np.inf):
                raise ValueError(f"column {name!r} must have a finite median and mean, and a deviation above 0")
            made._numeric[name] = (median, mean, deviation)
        for kind, known in (("numeric", made._numeric), ("text", made._terms)):
            if set(known) != {name for name, one in kinds.items() if one == kind}:
                raise ValueError(f"the {kind} columns are not those of the schema")
        return made

    @property
    def num_features(self) -> int:
        """Number of columns that `transform` returns."""
        return len(self.feature_names)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns that `transform` returns: ``age``, ``sex=f``, ``sex=m``, ``review:good``."""
        schema = self._fitted()
        if schema.shape is not None:
            return schema.column_names
        return tuple(name for column in schema.columns for name in self._features_of(column))

    def _features_of(self, column: Column) -> list[str]:
        if column.kind == "numeric":
            return [column.name]
        if column.kind == "text":
            return [f"{column.name}:{term}" for term in self._terms[column.name].terms]
        return [f"{column.name}={category}" for category in column.categories]

    def without(self, lacks: Collection[str]) -> tuple[Preprocessor, NDArray[np.intp]]:
        """Return what makes the features of the other columns alone, and which of this one's features those are.

        Raises `ConfigError` as `Schema.without`.
        """
        schema, state = self._fitted(), self.state()
        left = {kind: {name: of[name] for name in of if name not in lacks} for kind, of in state.items()}
        made = Preprocessor.restored(schema.without(lacks), left)
        kept = [column.name not in lacks for column in schema.columns for _ in self._features_of(column)]
        return made, np.flatnonzero(kept)

    def transform(self, table: Table) -> NDArray[np.float32]:
        """Return the features of raw rows, float32; columns that the schema does not name are ignored."""
        schema = self._fitted()
        check_columns(table, schema)
        if schema.shape is not None:
            return np.divide(pixels_of(table, schema), np.float32(255), dtype=np.float32)
        parts: list[NDArray[np.float32]] = []
        for j, column in enumerate(schema.columns):
            values = column_of(table, column.name, j)
            if column.kind == "numeric":
                parts.append(self._scaled(values, column)[:, None])
            elif column.kind == "text":
                parts.append(self._terms[column.name].transform(text_values(values, column.reading.missing)))
            else:
                codes, distinct = factorize(values)  # -1 where a value is missing
                position = {canonical(category): i for i, category in enumerate(column.categories)}
                texts = column_texts(distinct, column.reading.missing)
                places = np.array([*(position.get(text, -1) for text in texts), -1])[codes]
                parts.append((places[:, None] == np.arange(len(column.categories))).astype(np.float32))
        return np.concatenate(parts, axis=1)

    def _scaled(self, values: Any, column: Column) -> NDArray[np.float32]:
        name, numbers = column.name, column_numbers(values, column.name, column.reading)
        median, mean, deviation = self._numeric[name]
        with np.errstate(over="ignore"):
            scaled = ((np.where(np.isnan(numbers), median, numbers) - mean) / deviation).astype(np.float32)
        if not np.isfinite(scaled).all():
            row = int(np.flatnonzero(~np.isfinite(scaled))[0])
            seen = f"{numbers[row]} in row {row + 1} (public mean {mean:.4g}, deviation {deviation:.4g})"
            way_out = "Correct the value or leave it empty."
            raise DataError(explain(f"column {name!r}", "stay finite after scaling by the public rows", seen, way_out))
        return scaled

    def _fitted(self) -> Schema:
        if self._schema is None:
            raise DataError(explain("preprocessor", "be fitted on the public rows", "none yet", "Call fit first."))
        return self._schema


def check_columns(table: Table, schema: Schema) -> None:
    """Raise DataError unless a table has the schema's columns."""
    names = schema.column_names
    if isinstance(table, np.ndarray):
        if table.ndim != 2 or table.shape[1] != len(names):
            raise DataError(explain("rows", f"have shape (n, {len(names)})", table.shape))
        return
    present = set(table.columns)
    if missing := [name for name in names if name not in present]:
        way_out = "Rename or add them, empty if need be; in a run, a party without them names them in its node config."
        seen = f"a table without {short_list(missing, 8)}"
        raise DataError(explain("columns", f"include the {len(names)} feature columns of the schema", seen, way_out))


def column_of(table: Table, name: str, j: int) -> Any:
    """Return the schema's j-th column of a table."""
    return table[:, j] if isinstance(table, np.ndarray) else table[name]


def pixels_of(table: Table, schema: Schema) -> NDArray[np.uint8]:
    """Return the pixels of a table of images, uint8; `DataError` if one is no whole number within 0 to 255."""
    array = table if isinstance(table, np.ndarray) else table[list(schema.column_names)].to_numpy()
    if array.dtype == np.uint8:
        return array
    if array.dtype.kind not in "biuf":
        columns = [column_numbers(array[:, j], name) for j, name in enumerate(schema.column_names)]
        array = np.stack(columns, axis=1)
    if not (array.size == 0 or (np.min(array) >= 0 and np.max(array) <= 255)):
        raise DataError(explain("pixels", "be within 0 to 255", f"values from {np.min(array)} to {np.max(array)}"))
    pixels = array.astype(np.uint8)
    if not np.array_equal(pixels, array):
        way_out = "Multiply images in [0, 1] by 255 and round."
        raise DataError(explain("pixels", "be whole numbers within 0 to 255", "fractions", way_out))
    return pixels

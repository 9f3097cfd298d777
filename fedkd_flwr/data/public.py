"""The public set U: raw rows everybody holds, the preprocessing fitted on them, and their fingerprint.

Encoding, scaling and imputing are fitted on U only, so every party computes the same features without sharing
anything. The fingerprint is taken over raw values, not over scaled floats, which differ in the last bit between
machines.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedkd_flwr.data.columns import canonical, column_numbers, column_texts
from fedkd_flwr.data.schema import Schema
from fedkd_flwr.data.text import TermWeights, TextRows, text_values
from fedkd_flwr.errors import Code, ConfigError, DataError, explain

__all__ = [
    "PREPROCESSING_VERSION",
    "Preprocessor",
    "PublicLabels",
    "PublicSet",
    "Table",
    "fingerprint",
    "make_public_set",
    "raw_matrix",
]

PREPROCESSING_VERSION = 1
"""Part of the fingerprint: parties whose releases scale differently must not vote together."""

Table = pd.DataFrame | NDArray[Any]
"""Raw rows: a DataFrame with named columns, or an array whose columns stand in the schema's order."""


class Preprocessor:
    """Raw rows to features, with everything that is learnt learnt from the public rows.

    | column | becomes |
    |---|---|
    | numeric | one column: missing values are U's median, then standardised by U's mean and deviation |
    | constant on U | one column, centred and not scaled |
    | categorical | one 0/1 column per category of the schema; a missing or unknown value is all zeros |
    | text | TF-IDF columns over the words of U's texts, see `fedkd_flwr.data.text`; a missing text is all zeros |
    | pixels (``schema.shape``) | one column per pixel, divided by 255 |

    Examples
    --------
    >>> from fedkd_flwr.data.schema import Column, Schema
    >>> schema = Schema(
    ...     columns=(Column(name="age", kind="numeric"), Column(name="sex", kind="categorical", categories=("f", "m"))),
    ...     classes=("no", "yes"),
    ... )
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
        _check_columns(table, schema)
        self._schema = schema
        self._numeric, self._terms = {}, {}
        for j, column in enumerate(schema.columns):
            if column.kind == "text":
                texts = text_values(_column(table, column.name, j))
                self._terms[column.name] = TermWeights().fit(texts, max_terms=column.max_terms, name=column.name)
            if column.kind == "numeric" and schema.shape is None:
                numbers = column_numbers(_column(table, column.name, j), column.name)
                known = numbers[~np.isnan(numbers)]
                median = float(np.median(known)) if len(known) else 0.0
                filled = np.where(np.isnan(numbers), median, numbers)
                with np.errstate(over="ignore", invalid="ignore"):
                    mean, deviation = float(filled.mean()), float(filled.std())
                if not (np.isfinite(mean) and np.isfinite(deviation)):
                    raise DataError(
                        explain(
                            f"column {column.name!r}", "hold numbers of moderate size", f"up to {np.abs(filled).max()}"
                        )
                    )
                # a deviation of rounding errors is none
                constant = not deviation > 1e-12 * max(1.0, abs(mean))
                self._numeric[column.name] = (median, mean, 1.0 if constant else deviation)
        return self

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
        names: list[str] = []
        for column in schema.columns:
            if column.kind == "numeric":
                names.append(column.name)
            elif column.kind == "text":
                names += [f"{column.name}:{term}" for term in self._terms[column.name].terms]
            else:
                names += [f"{column.name}={category}" for category in column.categories]
        return tuple(names)

    def transform(self, table: Table) -> NDArray[np.float32]:
        """Return the features of raw rows; columns the schema does not name are ignored.

        Returns
        -------
        ndarray of shape (n, num_features), float32, C-contiguous

        Raises
        ------
        DataError
            If columns are missing, or a value is no finite number where the schema says numeric.
        """
        schema = self._fitted()
        _check_columns(table, schema)
        if schema.shape is not None:
            return np.divide(_pixels(table, schema), np.float32(255), dtype=np.float32)
        features = np.zeros((len(table), self.num_features), dtype=np.float32)
        at = 0
        for j, column in enumerate(schema.columns):
            values = _column(table, column.name, j)
            if column.kind == "numeric":
                features[:, at] = self._scaled(values, column.name)
                at += 1
                continue
            if column.kind == "text":
                weights = self._terms[column.name].transform(text_values(values))
                features[:, at : at + weights.shape[1]] = weights
                at += weights.shape[1]
                continue
            position = {canonical(category): i for i, category in enumerate(column.categories)}
            codes = np.array([position.get(text, -1) for text in column_texts(values)], dtype=np.int64)
            rows = np.flatnonzero(codes >= 0)
            features[rows, at + codes[rows]] = 1.0
            at += len(column.categories)
        return features

    def _scaled(self, values: Any, name: str) -> NDArray[np.float32]:
        numbers = column_numbers(values, name)
        median, mean, deviation = self._numeric[name]
        with np.errstate(over="ignore"):
            scaled = ((np.where(np.isnan(numbers), median, numbers) - mean) / deviation).astype(np.float32)
        if not np.isfinite(scaled).all():
            row = int(np.flatnonzero(~np.isfinite(scaled))[0])
            raise DataError(
                explain(
                    f"column {name!r}",
                    "stay finite after scaling by the public rows",
                    f"{numbers[row]} in row {row} (public mean {mean:.4g}, deviation {deviation:.4g})",
                    "Correct the value or leave it empty.",
                )
            )
        return scaled

    def _fitted(self) -> Schema:
        if self._schema is None:
            raise DataError(explain("preprocessor", "be fitted on the public rows", "none yet", "Call fit first."))
        return self._schema


@dataclass(frozen=True, kw_only=True)
class PublicLabels:
    """Labels of the public rows that everybody holds: what models are pre-trained on, and nothing else.

    Parameters
    ----------
    y : ndarray of shape (num_public,), int16
        Labels within ``0..num_classes-1``.
    num_classes : int
        Size of their label space, which may be another one than the schema's (digits beside letters).
    of_schema : bool
        Whether they are labels of the schema.
    """

    y: NDArray[np.int16]
    num_classes: int
    of_schema: bool = False

    def __post_init__(self) -> None:
        if not (self.y.ndim == 1 and len(self.y) and self.y.min() >= 0 and self.y.max() < self.num_classes):
            seen = f"{self.y.min()} to {self.y.max()}" if self.y.size else "none"
            raise DataError(explain("labels of the public rows", f"lie within 0..{self.num_classes - 1}", seen))


@dataclass(frozen=True, kw_only=True)
class PublicSet:
    """The public rows as every party and the server hold them.

    Parameters
    ----------
    X : ndarray of shape (num_public, num_features), float32
        Features; in a set `as_read_by` a model that reads texts, texts of shape (num_public, 1), object.
    fingerprint : str
        64 hexadecimal digits, see `fingerprint`.
    schema : Schema
        Columns and classes.
    preprocessor : Preprocessor, TextRows or None
        Turns private rows into the same features. None: raw numeric columns are the features (`raw_matrix`).
    texts : ndarray of shape (num_public, 1), object, or None
        The public texts where the schema has text columns.
    y : ndarray of shape (num_public,), int16, or None
        The truth, known in simulations only: for measuring, never for learning.
    labels : PublicLabels or None
        Labels that everybody holds, for pre-training.
    """

    X: NDArray[Any]
    fingerprint: str
    schema: Schema
    preprocessor: Preprocessor | TextRows | None
    y: NDArray[np.int16] | None = None
    texts: NDArray[np.object_] | None = None
    labels: PublicLabels | None = None

    def __post_init__(self) -> None:
        if self.labels is not None and len(self.labels.y) != len(self.X):
            rule = f"number {len(self.X)}, as the public rows"
            raise DataError(explain("labels of the public rows", rule, len(self.labels.y)))

    @property
    def num_rows(self) -> int:
        """Number of public rows."""
        return len(self.X)

    @property
    def num_classes(self) -> int:
        """Number of classes C of the schema."""
        return self.schema.num_classes

    @property
    def num_features(self) -> int:
        """Number of columns of ``X``."""
        return int(self.X.shape[1])

    @property
    def shape(self) -> tuple[int, ...] | None:
        """(channels, height, width) of an image row, None for a table."""
        return self.schema.shape

    def as_read_by(self, model: Any) -> PublicSet:
        """Return the set as a model reads it: raw texts if it says ``takes_text = True``, else features, as it is.

        The fingerprint is the same: parties with different kinds of models label the same rows.

        Raises
        ------
        ConfigError
            If the model reads texts and the schema has no text column.
        """
        if not getattr(model, "takes_text", False):
            return self
        reader = TextRows(self.schema)
        if self.texts is None:
            raise ConfigError(explain("texts", "be given with the public set", None, "Use make_public_set."))
        return replace(self, preprocessor=reader, X=self.texts)

    def features(self, table: Table) -> NDArray[Any]:
        """Return other raw rows as features like ``X``."""
        if self.preprocessor is None:
            return raw_matrix(table, self.schema)
        return self.preprocessor.transform(table)


def make_public_set(
    table: Table, schema: Schema, *, y: NDArray[np.int16] | None = None, scale: bool = True
) -> PublicSet:
    """Fit the preprocessing on public rows and return them as a `PublicSet`.

    Parameters
    ----------
    table : DataFrame or ndarray
        Raw public rows.
    schema : Schema
        Their schema.
    y : ndarray of shape (num_public,), int16, or None
        The truth, in simulations.
    scale : bool
        False keeps an all-numeric table as it is: for binary features.

    Raises
    ------
    DataError
        If there are no rows, columns are missing or a value does not fit its column.
    """
    if len(table) == 0:
        raise DataError(explain("public set", "have at least one row", 0), code=Code.NO_ROWS)
    if y is not None and y.shape != (len(table),):
        raise DataError(explain("y", f"have shape ({len(table)},)", y.shape))
    table = _parsed(table, schema)
    preprocessor = Preprocessor().fit(table, schema) if scale else None
    X = raw_matrix(table, schema) if preprocessor is None else preprocessor.transform(table)
    texts = TextRows(schema).transform(table) if schema.text_columns else None
    return PublicSet(
        X=X, fingerprint=fingerprint(table, schema), schema=schema, preprocessor=preprocessor, y=y, texts=texts
    )


def raw_matrix(table: Table, schema: Schema) -> NDArray[np.float32]:
    """Return the numeric columns of a table unscaled, in the schema's order; nothing may be missing.

    Returns
    -------
    ndarray of shape (n, columns), float32, C-contiguous
    """
    _check_columns(table, schema)
    if others := [column.name for column in schema.columns if column.kind != "numeric"]:
        raise DataError(explain("columns of an unscaled set", "all be numeric", ", ".join(others)))
    if isinstance(table, np.ndarray):
        matrix = np.ascontiguousarray(table, dtype=np.float32)
    else:
        columns = [column_numbers(table[name], name) for name in schema.column_names]
        matrix = np.ascontiguousarray(np.stack(columns, axis=1), dtype=np.float32)
    if not np.isfinite(matrix).all():
        row, column = (int(i[0]) for i in np.nonzero(~np.isfinite(matrix)))
        raise DataError(
            explain(
                f"column {schema.column_names[column]!r}",
                "be finite in every row",
                f"{matrix[row, column]} in row {row}",
            )
        )
    return matrix


def fingerprint(table: Table, schema: Schema) -> str:
    """Return the SHA-256 of U's canonical raw columns, the schema and `PREPROCESSING_VERSION`.

    CSV, Parquet and NPZ files of the same values give the same fingerprint, whatever the order of their columns.
    Another value, another order of rows, another class list gives another one. The label column is no part of it.

    Returns
    -------
    str
        64 hexadecimal digits.
    """
    _check_columns(table, schema)
    digest = hashlib.sha256(f"fedkd public set, preprocessing {PREPROCESSING_VERSION}\n".encode())
    digest.update(schema.to_toml().encode())
    digest.update(f"rows {len(table)}\n".encode())
    if schema.shape is not None:
        digest.update(np.ascontiguousarray(_pixels(table, schema)).data)
        return digest.hexdigest()
    for j, column in enumerate(schema.columns):
        values = _column(table, column.name, j)
        if column.kind == "numeric":
            numbers = column_numbers(values, column.name) + 0.0  # -0.0 becomes 0.0
            numbers[np.isnan(numbers)] = np.nan  # one bit pattern for all of them
            digest.update(np.ascontiguousarray(numbers, dtype="<f8").data)
        elif column.kind == "text":
            digest.update(json.dumps(text_values(values).tolist()).encode())
        else:
            digest.update(json.dumps(column_texts(values).tolist()).encode())
    return digest.hexdigest()


def _check_columns(table: Table, schema: Schema) -> None:
    names = schema.column_names
    if isinstance(table, np.ndarray):
        if table.ndim != 2 or table.shape[1] != len(names):
            raise DataError(explain("rows", f"have shape (n, {len(names)})", table.shape))
        return
    present = set(table.columns)
    if missing := [name for name in names if name not in present]:
        shown = ", ".join(missing[:8]) + (f" and {len(missing) - 8} more" if len(missing) > 8 else "")
        raise DataError(
            explain(
                "columns",
                f"include the {len(names)} feature columns of the schema",
                f"a table without {shown}",
                "Rename or add them; a column may be empty, not absent.",
            )
        )


def _parsed(table: Table, schema: Schema) -> Table:
    """Return a table whose numeric columns are numbers, so that text is parsed once and not three times."""
    _check_columns(table, schema)
    if isinstance(table, np.ndarray) or schema.shape is not None:
        return table
    numeric = {c.name for c in schema.columns if c.kind == "numeric"}
    columns = {c: column_numbers(table[c], c) if c in numeric else table[c] for c in schema.column_names}
    return pd.DataFrame(columns, index=table.index)


def _column(table: Table, name: str, j: int) -> Any:
    return table[:, j] if isinstance(table, np.ndarray) else table[name]


def _pixels(table: Table, schema: Schema) -> NDArray[np.uint8]:
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
        raise DataError(
            explain(
                "pixels", "be whole numbers within 0 to 255", "fractions", "Multiply images in [0, 1] by 255 and round."
            )
        )
    return pixels

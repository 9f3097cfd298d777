"""The public set U: rows that everybody holds, the preprocessing fitted on them, and their fingerprint.

Encoding, scaling and imputing are fitted on U only, so every party computes the same features without sharing anything.
The fingerprint covers raw values, because scaled floats differ in the last bit between machines.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedkd_flwr.data.columns import column_texts, short_list
from fedkd_flwr.data.preprocessor import Preprocessor, Table, check_columns, column_of, pixels_of
from fedkd_flwr.data.reading import PLAIN, column_numbers
from fedkd_flwr.data.schema import Schema
from fedkd_flwr.data.text import TextRows, text_values
from fedkd_flwr.errors import Code, ConfigError, DataError, FedkdError, ModelBytesError, explain
from fedkd_flwr.labels.voting import ABSTAIN, check_labels

__all__ = ["PREPROCESSING_VERSION", "Encoder", "Preprocessor", "PublicLabels", "PublicSet", "Table", "check_classes"]
__all__ += ["check_test_rows", "fingerprint", "make_public_set", "require_same_set", "short_fingerprint"]

PREPROCESSING_VERSION = 2
"""Part of the fingerprint, because parties whose releases compute other features must not vote together."""


@dataclass(frozen=True, kw_only=True)
class PublicLabels:
    """Labels of the public rows that everybody holds; they serve to pre-train models and for nothing else."""

    y: NDArray[np.int16]  # within 0..num_classes-1
    num_classes: int  # it may differ from the schema's: digits as public rows, letters as private ones
    of_schema: bool = False  # whether these labels are the schema's classes

    def __post_init__(self) -> None:
        if not (self.y.ndim == 1 and len(self.y) and self.y.min() >= 0 and self.y.max() < self.num_classes):
            seen = f"{self.y.min()} to {self.y.max()}" if self.y.size else "none"
            raise DataError(explain("labels of the public rows", f"lie within 0..{self.num_classes - 1}", seen))


@dataclass(frozen=True, kw_only=True)
class PublicSet:
    """The public rows as every party and the server hold them."""

    X: NDArray[Any]  # features, float32; for a model that reads texts (`as_read_by`) texts, (num_public, 1)
    fingerprint: str
    schema: Schema
    preprocessor: Preprocessor | TextRows  # makes the same features of private rows
    # The true labels, `ABSTAIN` where one is not known. They serve to measure, and at the server some may judge votes
    # (``known-rows``); nobody learns from them.
    y: NDArray[np.int16] | None = None
    texts: NDArray[np.object_] | None = None  # (num_public, 1), if the schema has text columns
    labels: PublicLabels | None = None  # for pre-training
    lacks: tuple[str, ...] = ()  # columns of the federation's schema that its holder has none of (`without`)

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

    @property
    def truth(self) -> NDArray[np.int16]:
        """The true labels, `ABSTAIN` where they are not known: (num_public,)."""
        return np.full(self.num_rows, ABSTAIN, dtype=np.int16) if self.y is None else self.y

    def as_read_by(self, model: Any) -> PublicSet:
        """Return the set with raw texts in ``X`` for a model that says ``takes_text = True``, otherwise the set itself.

        The fingerprint stays the same, because parties with different kinds of models label the same rows.
        """
        if not getattr(model, "takes_text", False):
            return self
        reader = TextRows(self.schema)
        if self.texts is None:
            raise ConfigError(explain("texts", "be given with the public set", None, "Use make_public_set."))
        return replace(self, preprocessor=reader, X=self.texts)

    def without(self, lacks: Collection[str]) -> tuple[PublicSet, NDArray[np.intp] | slice]:
        """Return the set as a party reads it that lacks some columns, and which columns of ``X`` are left.

        The fingerprint stays the same, as in `as_read_by`, which comes first. Raises `ConfigError` as `Schema.without`,
        and where a model that reads texts would lack one.
        """
        if not lacks:
            return self, slice(None)
        schema, made = self.schema.without(lacks), self.preprocessor
        kept: NDArray[np.intp] | slice = slice(None)
        if isinstance(made, Preprocessor):
            made, kept = made.without(lacks)
        elif schema.text_columns != self.schema.text_columns:
            rule, way_out = "name no text column for a model that reads texts", "Give this party a model of numbers."
            raise ConfigError(explain("lacks", rule, ", ".join(sorted(lacks)), way_out))
        names = tuple(name for name in self.schema.column_names if name in lacks)
        return replace(self, X=self.X[:, kept], schema=schema, preprocessor=made, lacks=names), kept

    def features(self, table: Table) -> NDArray[Any]:
        """Return other raw rows as features like ``X``."""
        return self.preprocessor.transform(table)


def check_classes(name: str, y: NDArray[Any], classes: Sequence[str], *, least: int = 0) -> None:
    """Refuse labels that are no whole numbers within ``least..len(classes) - 1``, and name the first such row."""
    way_out = f"Give each class by its place: 0 is the first of the schema's {short_list(classes, 8)}. "
    way_out += "Leave rows without a label out."
    check_labels(y, num_classes=len(classes), name=name, least=least, way_out=way_out)


def check_test_rows(name: str, X: NDArray[Any], y: NDArray[Any], public: PublicSet) -> None:
    """Refuse test rows that no model of these public rows can be measured on."""
    if not (X.ndim == 2 and y.shape == (len(X),)):
        raise DataError(explain(name, "be (n, d) and (n,)", f"X {X.shape}, y {y.shape}"))
    if len(X) and X.shape[1] != public.num_features:
        way_out = "Encode them by the public schema's preprocessing: public.features(table)."
        raise DataError(explain(name, f"have {public.num_features} features", X.shape[1], way_out))
    check_classes(f"y of {name}", y, public.schema.classes)


def make_public_set(table: Table, schema: Schema, *, y: NDArray[np.int16] | None = None) -> PublicSet:
    """Fit the preprocessing on raw public rows and return them as a `PublicSet`.

    ``y`` are the true labels, if they are known: places in the schema's classes, `ABSTAIN` (-1) where one is not.
    """
    if len(table) == 0:
        raise DataError(explain("public set", "have at least one row", 0), code=Code.NO_ROWS)
    if y is not None:
        y = np.asarray(y)
        if y.shape != (len(table),):
            raise DataError(explain("y", f"have shape ({len(table)},)", y.shape))
        check_classes("y of the public set", y, schema.classes, least=ABSTAIN)
        y = y.astype(np.int16, copy=False)
    table, parsed = _parsed(table, schema)
    preprocessor = Preprocessor().fit(table, parsed)
    X = preprocessor.transform(table)
    texts = TextRows(schema).transform(table) if schema.text_columns else None
    digest = _digest(table, parsed, schema.to_toml())
    preprocessor = Preprocessor.restored(schema, preprocessor.state())
    return PublicSet(X=X, fingerprint=digest, schema=schema, preprocessor=preprocessor, y=y, texts=texts)


def fingerprint(table: Table, schema: Schema) -> str:
    """Return the SHA-256 of U's canonical raw columns, the schema and `PREPROCESSING_VERSION`: 64 hexadecimal digits.

    CSV, Parquet and NPZ files with the same values have the same fingerprint, whatever the order of their columns. It
    changes with any value, the order of the rows, and the schema. The label column is not covered.
    """
    check_columns(table, schema)
    return _digest(table, schema, schema.to_toml())


def _digest(table: Table, schema: Schema, toml: str) -> str:
    """Return the digest of raw columns, read by ``schema``, and of the text of the schema that everybody holds."""
    digest = hashlib.sha256(f"fedkd public set, preprocessing {PREPROCESSING_VERSION}\n".encode())
    digest.update(toml.encode())
    digest.update(f"rows {len(table)}\n".encode())
    if schema.shape is not None:
        digest.update(np.ascontiguousarray(pixels_of(table, schema)).data)
        return digest.hexdigest()
    for j, column in enumerate(schema.columns):
        values = column_of(table, column.name, j)
        if column.kind == "numeric":
            numbers = column_numbers(values, column.name, column.reading) + 0.0  # -0.0 becomes 0.0
            numbers[np.isnan(numbers)] = np.nan  # the same bit pattern for every NaN
            digest.update(np.ascontiguousarray(numbers, dtype="<f8").data)
        elif column.kind == "text":
            digest.update(json.dumps(text_values(values, column.reading.missing).tolist()).encode())
        else:
            digest.update(json.dumps(column_texts(values, column.reading.missing).tolist()).encode())
    return digest.hexdigest()


def short_fingerprint(fingerprint: str) -> str:
    """Return a fingerprint as twenty decimal digits, which two people can compare by telephone.

    They tell sets apart that differ by mistake; the 64 digits themselves are what runs compare.

    >>> short_fingerprint("0123456789abcdef" * 4)
    '0780 0679 8899 1192 6255'
    """
    digits = f"{int(fingerprint, 16) % 10**20:020d}"
    return " ".join(digits[i : i + 4] for i in range(0, 20, 4))


def require_same_set(fingerprint: str, agreed: str) -> None:
    """Raise `DataError` (code ``public-set-mismatch``) unless a fingerprint is the one that was agreed on.

    ``agreed`` is the same 64 digits, or 20 of `short_fingerprint`; spaces and hyphens do not count.
    """
    plain = "".join(agreed.lower().split()).replace("-", "")
    if plain not in (fingerprint, short_fingerprint(fingerprint).replace(" ", "")):
        rule = f"be the one that was agreed on, {agreed}"
        way_out = "Copy the public file and schema.toml from the coordinator once more, both unchanged."
        message = explain("fingerprint of the public set", rule, short_fingerprint(fingerprint), way_out)
        raise DataError(message, code=Code.PUBLIC_SET_MISMATCH)


def _parsed(table: Table, schema: Schema) -> tuple[Table, Schema]:
    """Return the table with numbers for texts, and its schema: texts are parsed once, and no rule applies twice."""
    check_columns(table, schema)
    if isinstance(table, np.ndarray) or schema.shape is not None:
        return table, schema
    columns = {
        c.name: column_numbers(table[c.name], c.name, c.reading) if c.kind == "numeric" else table[c.name]
        for c in schema.columns
    }
    plain = tuple(replace(c, reading=PLAIN) if c.kind == "numeric" else c for c in schema.columns)
    return pd.DataFrame(columns, index=table.index), replace(schema, columns=plain)


@dataclass(frozen=True, kw_only=True)
class Encoder:
    """Turns raw rows into the features that a model was trained on."""

    schema: Schema
    preprocessor: Preprocessor | TextRows  # as in `PublicSet`
    fingerprint: str = ""  # the public set's, for the reader

    @classmethod
    def of(cls, public: PublicSet) -> Encoder:
        """Return the encoder of a public set, as a model reads it (`PublicSet.as_read_by`)."""
        return cls(schema=public.schema, preprocessor=public.preprocessor, fingerprint=public.fingerprint)

    @property
    def num_features(self) -> int:
        """Number of columns of `features`."""
        return 1 if isinstance(self.preprocessor, TextRows) else self.preprocessor.num_features

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the raw columns that are read: for a model of texts its text columns alone."""
        texts = isinstance(self.preprocessor, TextRows)
        return self.schema.text_columns if texts else self.schema.column_names

    def features(self, table: Table) -> NDArray[Any]:
        """Return raw rows as features; raises `DataError` as `Preprocessor.transform` does."""
        return self.preprocessor.transform(table)

    def to_bytes(self) -> bytes:
        """Return the encoder as JSON. Numbers keep every bit."""
        state = self.preprocessor.state() if isinstance(self.preprocessor, Preprocessor) else None
        kind = "texts" if state is None else "features"
        plain = {"preprocessing": PREPROCESSING_VERSION, "kind": kind, "schema": self.schema.to_toml(), "state": state}
        return json.dumps(plain | {"fingerprint": self.fingerprint}).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Encoder:
        """Return the encoder that `to_bytes` wrote. The bytes may come from anybody: else `ModelBytesError`."""
        try:
            plain = json.loads(data)
            if plain["preprocessing"] != PREPROCESSING_VERSION:
                way_out = "Another version of fedkd_flwr wrote the model: save it again with this one."
                seen = plain["preprocessing"]
                raise ModelBytesError(explain("preprocessing", f"be version {PREPROCESSING_VERSION}", seen, way_out))
            schema = Schema.from_toml(plain["schema"], "the model's file")
            made: Preprocessor | TextRows
            if plain["kind"] == "features":
                made = Preprocessor.restored(schema, plain["state"])
            elif plain["kind"] == "texts":
                made = TextRows(schema)
            else:
                raise ValueError(f"unknown kind {plain['kind']!r}")
            return cls(schema=schema, preprocessor=made, fingerprint=str(plain.get("fingerprint", "")))
        except ModelBytesError:
            raise
        except (FedkdError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            seen = f"this: {type(error).__name__}: {error}"
            raise ModelBytesError(explain("A model's encoder", "be one that fedkd_flwr wrote", seen)) from error

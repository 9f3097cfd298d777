"""From raw columns to features as ONNX, bit by bit as `fedkd_flwr.data.preprocessor` computes them.

| schema | inputs of the graph, of shape (n, 1) unless said otherwise |
|---|---|
| numeric column | its name, float64; NaN where a value is missing |
| categorical column | its name, text; anything that is no category counts as missing |
| images | ``pixels``, uint8 of shape (n, pixels), from 0 to 255 |
| a text column among them | ``features`` alone, float32 of shape (n, features): `SavedModel.features` makes them |
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedkd_flwr.data.columns import canonical, column_texts
from fedkd_flwr.data.dates import in_words
from fedkd_flwr.data.preprocessor import Preprocessor, pixels_of
from fedkd_flwr.data.public import Encoder, raw_matrix
from fedkd_flwr.data.reading import PLAIN, Reading, column_numbers
from fedkd_flwr.data.schema import Schema
from fedkd_flwr.onnx_graphs.graph import ML, Graph

__all__ = ["add_encoder", "expected_cells", "feed", "input_kind"]


def input_kind(encoder: Encoder) -> str:
    """Return what the graph of a model takes: ``columns``, ``pixels`` or, with text columns, ``features``."""
    if encoder.schema.text_columns:
        return "features"
    return "pixels" if encoder.schema.shape is not None else "columns"


def add_encoder(graph: Graph, encoder: Encoder) -> str:
    """Declare the graph's inputs and return the name of the features, (n, num_features) float32."""
    kind = input_kind(encoder)
    if kind == "features":
        return graph.input("features", np.float32, encoder.num_features)
    if kind == "pixels":
        pixels = graph.cast(graph.input("pixels", np.uint8, encoder.num_features), np.float32)
        return graph.add("Div", pixels, graph.constant(255, np.float32))
    parts = []
    for numeric, columns in groupby(encoder.schema.columns, key=lambda column: column.kind == "numeric"):
        if numeric:
            parts.append(_numbers(graph, encoder, [column.name for column in columns]))
        else:
            parts += [_categories(graph, column.name, column.categories) for column in columns]
    return graph.add("Concat", *parts, axis=1)


def _numbers(graph: Graph, encoder: Encoder, names: list[str]) -> str:
    columns = [graph.input(name, np.float64, 1) for name in names]
    numbers = graph.add("Concat", *columns, axis=1)
    if isinstance(encoder.preprocessor, Preprocessor):
        learnt = encoder.preprocessor.state()["numeric"]
        median, mean, deviation = (
            graph.constant(values, np.float64) for values in zip(*(learnt[name] for name in names), strict=True)
        )
        filled = graph.add("Where", graph.add("IsNaN", numbers), median, numbers)
        numbers = graph.add("Div", graph.add("Sub", filled, mean), deviation)
    return graph.cast(numbers, np.float32)


def _categories(graph: Graph, name: str, categories: tuple[str, ...]) -> str:
    codes: dict[str, int] = {}
    for code, category in enumerate(categories):
        text = canonical(category)
        if text is None:
            codes.setdefault(category, code)
            continue
        # a whole number may be written as pandas writes it, too, and a truth value as Arrow and spreadsheets write it
        others = [f"{text}.0"] if text.lstrip("-").isdecimal() else []
        others += [text.lower(), text.upper()] if text in ("True", "False") else []
        for spelling in (category, text, *others):
            codes.setdefault(spelling, code)
    found = graph.add(
        "LabelEncoder",
        graph.input(name, object, 1),
        domain=ML,
        keys_strings=list(codes) or [""],
        values_int64s=list(codes.values()) or [-1],
        default_int64=-1,
    )
    return graph.cast(graph.add("Equal", found, graph.constant([range(len(categories))], np.int64)), np.float32)


def expected_cells(schema: Schema) -> dict[str, str]:
    """Return, by column, what a graph expects where a schema says how raw cells are read; plain numbers are left out.

    >>> from fedkd_flwr.data.schema import Column
    >>> reading = Reading(dates="day-first", missing=("k.A.",))
    >>> columns = (
    ...     Column(name="admission", kind="numeric", reading=reading),
    ...     Column(name="lactate", kind="numeric", reading=Reading(decimal=",", limits="number")),
    ...     Column(name="age", kind="numeric"),
    ... )
    >>> for name, cells in expected_cells(Schema(columns=columns, classes=("no", "yes"))).items():
    ...     print(f"{name}: {cells}")
    admission: days since 1970-01-01, 'k.A.' as NaN
    lactate: '1,5' as 1.5, '<0.5' as 0.5
    """
    return {
        column.name: ", ".join(_expected(column.reading))
        for column in schema.columns
        if column.kind == "numeric" and column.reading != PLAIN
    }


def _expected(reading: Reading) -> Iterator[str]:
    if reading.dates:
        yield in_words(reading.dates).partition(" as ")[2]
    if reading.decimal == ",":
        yield "'1,5' as 1.5"
    if reading.thousands:
        yield f"'1{reading.thousands}000' as 1000"
    if reading.unit:
        yield f"numbers without {reading.unit!r}"
    if reading.limits:
        yield f"'<0.5' as { {'number': '0.5', 'middle': '0.25', 'missing': 'NaN'}[reading.limits] }"
    if reading.missing:
        yield f"{', '.join(map(repr, reading.missing))} as NaN"


def feed(encoder: Encoder, table: pd.DataFrame) -> dict[str, NDArray[Any]]:
    """Return raw rows as the inputs of the graph, by name."""
    schema, kind = encoder.schema, input_kind(encoder)
    if kind == "features":
        return {"features": encoder.features(table)}
    if kind == "pixels":
        return {"pixels": np.ascontiguousarray(pixels_of(table, schema))}
    if encoder.preprocessor is None:
        raw_matrix(table, schema)  # raises where a value is missing
    inputs: dict[str, NDArray[Any]] = {}
    for column in schema.columns:
        if column.kind == "numeric":
            inputs[column.name] = column_numbers(table[column.name], column.name, column.reading)[:, None]
        else:
            texts = column_texts(table[column.name], column.reading.missing)
            inputs[column.name] = np.array(["" if text is None else text for text in texts], dtype=object)[:, None]
    return inputs

"""From raw columns to features as ONNX, bit by bit as `fedkd_flwr.data.preprocessor` computes them.

| schema | inputs of the graph, of shape (n, 1) unless said otherwise |
|---|---|
| numeric column | its name, float64; NaN where a value is missing |
| categorical column | its name, text; anything that is no category counts as missing |
| images | ``pixels``, uint8 of shape (n, pixels), from 0 to 255 |
| a text column among them | ``features`` alone, float32 of shape (n, features): `SavedModel.features` makes them |
"""

from __future__ import annotations

from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedkd_flwr.data.columns import canonical, column_texts
from fedkd_flwr.data.preprocessor import Preprocessor, pixels_of
from fedkd_flwr.data.public import Encoder
from fedkd_flwr.data.reading import column_numbers
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
    """Return, by column, how a schema reads raw cells that are no plain numbers: the graph takes what they become."""
    return {
        column.name: words for column in schema.columns if column.kind == "numeric" and (words := column.reading.words)
    }


def feed(encoder: Encoder, table: pd.DataFrame) -> dict[str, NDArray[Any]]:
    """Return raw rows as the inputs of the graph, by name."""
    schema, kind = encoder.schema, input_kind(encoder)
    if kind == "features":
        return {"features": encoder.features(table)}
    if kind == "pixels":
        return {"pixels": np.ascontiguousarray(pixels_of(table, schema))}
    inputs: dict[str, NDArray[Any]] = {}
    for column in schema.columns:
        if column.kind == "numeric":
            inputs[column.name] = column_numbers(table[column.name], column.name, column.reading)[:, None]
        else:
            texts = column_texts(table[column.name], column.reading.missing)
            inputs[column.name] = np.array(["" if text is None else text for text in texts], dtype=object)[:, None]
    return inputs

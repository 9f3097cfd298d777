"""A saved model as one ONNX file, from raw columns on, and the proof that both answer alike.

| schema | inputs of the graph, of shape (n, 1) unless said otherwise |
|---|---|
| numeric column | its name, float64; NaN where a value is missing |
| categorical column | its name, text; anything that is no category counts as missing |
| images | ``pixels``, uint8 of shape (n, pixels), from 0 to 255 |
"""

from __future__ import annotations

import json
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedkd_flwr.data.columns import canonical, column_texts
from fedkd_flwr.data.dates import ALONE
from fedkd_flwr.data.preprocessor import Preprocessor, pixels_of
from fedkd_flwr.data.public import Encoder
from fedkd_flwr.data.reading import column_numbers
from fedkd_flwr.data.schema import Schema
from fedkd_flwr.errors import FedkdError, explain, import_extra
from fedkd_flwr.onnx_graphs.estimators import Answers, add_estimator
from fedkd_flwr.onnx_graphs.graph import ML, Graph
from fedkd_flwr.stores.saved_model import SavedModel

__all__ = ["Difference", "check_onnx", "expected_cells", "onnx_inputs", "to_onnx"]

OUTPUTS = ("label", "probabilities")
TOLERANCE = 1e-5
"""The most that a probability may differ between a model and its graph."""


class Difference(NamedTuple):
    """How a graph and its model differ on some rows."""

    rows: int
    labels: int  # rows with another label
    probability: float  # the largest difference of a probability


def to_onnx(model: SavedModel) -> bytes:
    """Return a saved model as ONNX: raw columns in, class names and probabilities out.

    The outputs are ``label``, text of shape (n,), and
    ``probabilities``, float32 of shape (n, classes), in the order of ``model.classes``. The metadata names classes,
    schema and inputs. Raises `FedkdError` by name if there is no graph that answers as the model does (models of
    texts; users' own estimators that skl2onnx does not know), or a column is called as an output.
    """
    classifier, encoder = model.classifier, model.encoder
    if encoder.schema.text_columns:
        name, rule = type(classifier.template).__name__, "read numbers, categories or images to become ONNX"
        seen, way_out = f"the text {encoder.schema.text_columns[0]}", "Use fedkd predict, or fedkd_flwr.load(path)."
        raise FedkdError(explain(f"A model of {name}", rule, seen, way_out))
    columns = encoder.schema.column_names if encoder.schema.shape is None else ()
    if clash := [name for name in columns if name in OUTPUTS]:
        rule = f"differ from a graph's outputs, {' and '.join(OUTPUTS)}"
        way_out = "Use fedkd predict, or name this column otherwise in the table and learn again."
        raise FedkdError(explain("names of columns of a model that becomes ONNX", rule, ", ".join(clash), way_out))
    graph = Graph(reserved=columns)
    features = _add_encoder(graph, encoder)
    own = classifier.classes
    if classifier.estimator is None:  # one class only, which it answers with whatever comes
        zero = graph.add("Mul", graph.column(features, 0), graph.constant(0, np.float32))
        codes = graph.cast(graph.add("Reshape", zero, graph.constant([-1], np.int64)), np.int64)
        answers = Answers(codes, graph.add("Add", zero, graph.constant(1, np.float32)))
    else:
        answers = add_estimator(graph, classifier.estimator, features, num_classes=len(own))
    probabilities = graph.cast(answers.probabilities, np.float32)
    if len(own) < classifier.num_classes:
        place = np.zeros((len(own), classifier.num_classes), dtype=np.float32)
        place[np.arange(len(own)), own] = 1.0
        probabilities = graph.add("MatMul", probabilities, graph.constant(place))
    names = graph.constant([model.classes[i] for i in own])
    label = graph.add("Gather", names, answers.codes)
    outputs: dict[str, tuple[str, Any, list[Any]]] = {
        OUTPUTS[0]: (label, str, ["n"]),
        OUTPUTS[1]: (probabilities, np.float32, ["n", classifier.num_classes]),
    }
    facts = {
        "classes": json.dumps(model.classes, ensure_ascii=False),
        "inputs": "columns" if encoder.schema.shape is None else "pixels",
        "schema": encoder.schema.to_toml(),
        "public-set-fingerprint": encoder.fingerprint,
    }
    data: bytes = graph.model(outputs, name="fedkd-model", facts=facts).SerializeToString()
    return data


def check_onnx(model: SavedModel, data: bytes, table: pd.DataFrame | None = None) -> Difference:
    """Run a graph beside its model by onnxruntime on raw rows, by default `_made_up_rows`; return how they differ.

    Raises `FedkdError` if a label differs, or a probability by more than 1e-5.
    """
    runtime = import_extra("onnxruntime", "onnx")
    getattr(runtime, "disable_telemetry_events", lambda: None)()
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    session = runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    table = _made_up_rows(model) if table is None else table
    X, inputs = model.encoder.features(table), onnx_inputs(model, table)
    labels, probabilities = session.run(list(OUTPUTS), inputs)
    own = np.array(model.classes)[model.classifier.predict(X)]
    known = model.classifier.predict_proba(X)
    found = Difference(len(X), int((labels != own).sum()), float(np.abs(probabilities - known).max(initial=0.0)))
    if found.labels or not found.probability <= TOLERANCE:
        name = type(model.classifier.template).__name__
        seen = f"{found.labels} other labels in {found.rows} rows, and a difference of {found.probability:.2g}"
        rule = f"answer as the model itself: the same labels, and probabilities within {TOLERANCE:g}"
        raise FedkdError(explain(f"The graph of {name}", rule, seen, "Use fedkd predict for this model."))
    return found


def _made_up_rows(model: SavedModel, count: int = 256) -> pd.DataFrame:
    """Return rows drawn from the schema, nobody's: numbers around the public rows' means, categories, holes."""
    rng, schema = np.random.default_rng(0), model.encoder.schema
    if schema.shape is not None:
        pixels = rng.integers(0, 256, (count, len(schema.column_names)), dtype=np.uint8)
        return pd.DataFrame(pixels, columns=list(schema.column_names))
    state: dict[str, Any] = getattr(model.encoder.preprocessor, "state", dict)()
    columns: dict[str, Any] = {}
    for column in schema.columns:
        if column.kind == "numeric":
            _, mean, deviation = state.get("numeric", {}).get(column.name, (0.0, 0.0, 1.0))
            numbers = mean + deviation * rng.normal(size=count)
            numbers[rng.random(count) < 0.05] = np.nan
            of_days = column.reading.dates and column.reading.dates not in ALONE  # written as texts, or as dates
            columns[column.name] = pd.to_datetime(numbers, unit="D") if of_days else numbers
        else:
            columns[column.name] = rng.choice([*column.categories, "", "something else"], count)
    return pd.DataFrame(columns)


# ---------------------------------------------------------------------------------- raw columns to features


def _add_encoder(graph: Graph, encoder: Encoder) -> str:
    """Declare the graph's inputs and return the name of the features, (n, num_features) float32."""
    if encoder.schema.shape is not None:
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
    """Return, by column, the rules by which a schema reads raw cells: the graph takes the numbers that they become."""
    readings = {column.name: column.reading for column in schema.columns if column.kind == "numeric"}
    return {name: str(reading) for name, reading in readings.items() if reading.of_numbers or reading.missing}


def onnx_inputs(model: SavedModel, table: pd.DataFrame) -> dict[str, NDArray[Any]]:
    """Return raw rows as the inputs of a model's graph: what ``InferenceSession.run(None, inputs)`` takes."""
    schema = model.encoder.schema
    if schema.shape is not None:
        return {"pixels": np.ascontiguousarray(pixels_of(table, schema))}
    inputs: dict[str, NDArray[Any]] = {}
    for column in schema.columns:
        if column.kind == "numeric":
            inputs[column.name] = column_numbers(table[column.name], column.name, column.reading)[:, None]
        else:
            texts = column_texts(table[column.name], column.reading.missing)
            inputs[column.name] = np.array(["" if text is None else text for text in texts], dtype=object)[:, None]
    return inputs

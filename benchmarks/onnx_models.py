"""ONNX graphs beside the models themselves: every model of the zoo, on the test rows of several data sets.

    python benchmarks/onnx_models.py --data-root DATA > benchmarks/results/onnx-models.json

Counts rows with another label, and the largest difference of a probability, from raw rows to the end: all test rows of
each data set, of adult and mushroom the first 3,000. Models learn from at most 1,000 rows. ``skl2onnx`` is what
scikit-learn's usual converter gives for the same trees and forests, in single precision from encoded rows.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd

from fedkd_flwr.data.datasets import load_pool
from fedkd_flwr.data.public import Encoder
from fedkd_flwr.models import NAMES, make_model
from fedkd_flwr.onnx_graphs import to_onnx
from fedkd_flwr.stores.saved_model import SavedModel

TABLES = ("breast-cancer", "wine", "digits", "mushroom", "adult")
IMAGES = ("mnist", "cifar10")
SMALL = {"mlp": {"epochs": 3}, "hist-gradient-boosting": {"max_iter": 20}}
FEW_STEPS = {"max_steps": 5}


def _raw(pool: Any, encoder: Encoder) -> dict[str, Any]:
    """Return the graph's inputs for the test rows, from their features: the encoding is linear, so it can be undone.

    Raw rows do not survive `load_pool`. Both sides then start from the same raw rows.
    """
    schema, X = encoder.schema, pool.X_test
    if schema.shape is not None:
        return {"pixels": np.rint(X * 255).astype(np.uint8)}
    columns: dict[str, Any] = {}
    state, at = encoder.preprocessor.state()["numeric"] if encoder.preprocessor is not None else {}, 0
    for column in schema.columns:
        if column.kind == "numeric":
            _, mean, deviation = state.get(column.name, (0, 0.0, 1.0))
            columns[column.name] = X[:, at].astype(np.float64) * deviation + mean
            at += 1
            continue
        part = X[:, at : at + len(column.categories)]
        names = np.array([*column.categories, ""], dtype=object)
        columns[column.name] = names[np.where(part.any(axis=1), part.argmax(axis=1), len(column.categories))]
        at += len(column.categories)
    return columns


def _compared(saved: SavedModel, columns: dict[str, Any]) -> dict[str, Any]:
    import onnxruntime

    began = time.perf_counter()
    data = to_onnx(saved)
    exported = time.perf_counter() - began
    inputs, features = columns, None
    if "pixels" in columns:
        features = saved.features(columns["pixels"])
    else:
        table = pd.DataFrame(columns)
        features = saved.features(table)
        inputs = {name: np.asarray(values)[:, None] for name, values in columns.items()}
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    labels, probabilities = session.run(["label", "probabilities"], inputs)
    own = np.array(saved.classes)[saved.classifier.predict(features)]
    known = saved.classifier.predict_proba(features)
    best = np.sort(known, axis=1)[:, -2:]
    return {
        "rows": len(own),
        "other labels": int((labels != own).sum()),
        "largest difference": float(np.abs(probabilities - known).max()),
        "tied rows": int((best[:, 0] == best[:, 1]).sum()),
        "bytes": len(data),
        "seconds to export": round(exported, 2),
        **_usual_converter(saved, features, own),
    }


def _usual_converter(saved: SavedModel, features: Any, own: Any) -> dict[str, Any]:
    """Return how skl2onnx's own conversion of a forest does on the same features."""
    import onnxruntime
    from skl2onnx import to_onnx as convert

    estimator = saved.classifier.estimator
    if not type(estimator).__module__.startswith(("sklearn.tree", "sklearn.ensemble._forest")):
        return {}
    graph = convert(estimator, features[:1], options={id(estimator): {"zipmap": False}})
    codes = onnxruntime.InferenceSession(graph.SerializeToString()).run(None, {"X": features})[0]
    labels = np.array(saved.classes)[saved.classifier.classes[codes]]
    return {"other labels by skl2onnx": int((labels != own).sum())}


def main() -> None:
    """Print the results as JSON, each with its data set and model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-root", default="")
    parser.add_argument("--data", nargs="*", default=[*TABLES, *IMAGES])
    parser.add_argument("--models", nargs="*", default=[], help="only these")
    parser.add_argument("--rows", type=int, default=3000, help="at most so many test rows of the larger sets")
    options = parser.parse_args()
    found = []
    for name in options.data:
        most = options.rows if name in ("adult", "mushroom", *IMAGES) else 0
        pool = load_pool(
            name, seed=1, data_root=options.data_root, num_test=most if name != "mushroom" else min(most, 2000)
        )
        models = [m for m in NAMES if m not in ("transformer", "rulefit") and not m.startswith("cnn-fedmd-")]
        if name not in IMAGES:
            models = [m for m in models if not m.startswith("cnn")]
        else:
            models = ["random-forest", "mlp", *(m for m in models if m.startswith("cnn"))]
        for model_name in [one for one in models if one in (options.models or models)]:
            X, y = (array[:1000] for array in (pool.X, pool.y))
            params = FEW_STEPS if model_name.startswith("cnn") else SMALL.get(model_name, {})
            model = make_model(
                model_name,
                num_classes=pool.public.num_classes,
                num_features=X.shape[1],
                shape=pool.public.shape,
                seed=1,
                params=params,
            ).fit(X, y)
            saved = SavedModel(classifier=model, encoder=Encoder.of(pool.public))
            one = {"data": name, "model": model_name, **_compared(saved, _raw(pool, saved.encoder))}
            print(json.dumps(one), file=sys.stderr, flush=True)
            found.append(one)
    versions = {
        name: version(name)
        for name in ("onnx", "onnxruntime", "skl2onnx", "onnxmltools", "scikit-learn", "torch", "xgboost")
    }
    print(json.dumps({"versions": versions, "results": found}, indent=1))


if __name__ == "__main__":
    main()

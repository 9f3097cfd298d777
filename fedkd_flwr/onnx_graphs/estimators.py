"""From features to answers as ONNX, one function for each kind of estimator."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from copy import copy, deepcopy
from typing import Any, NamedTuple

import numpy as np
from sklearn.pipeline import make_pipeline

from fedkd_flwr.errors import FedkdError, MissingExtraError, explain, import_extra
from fedkd_flwr.models.estimators import ByValues, NumberScaler
from fedkd_flwr.onnx_graphs.graph import ML, OPSETS, Graph

__all__ = ["Answers", "add_estimator"]


class Answers(NamedTuple):
    """Names of what an estimator answers: codes of its own classes, (n,) int64, and probabilities, (n, k) of floats."""

    codes: str
    probabilities: str


def add_estimator(graph: Graph, estimator: Any, features: str, *, num_classes: int) -> Answers:
    """Add an estimator over ``num_classes`` classes of its own to a graph; ``features`` are (n, d) float32.

    Raises `FedkdError` if there is no conversion for it that would answer as it does; the message names it.
    """
    name = f"{type(estimator).__module__}.{type(estimator).__qualname__}"
    way_out = "Use fedkd predict, or fedkd_flwr.load(path)."
    if isinstance(estimator, ByValues):
        raise FedkdError(explain("A model that becomes ONNX", "answer with classes", "numbers or grades", way_out))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _KNOWN.get(name, _by_skl2onnx)(graph, estimator, features, num_classes)
    except MissingExtraError:
        raise
    except Exception as error:  # converters raise whatever they, or a user's module, meet
        seen = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        rule = "have a graph in ONNX that answers as it does"
        raise FedkdError(explain(f"A model of {name}", rule, seen, way_out)) from error


def _largest(graph: Graph, scores: str) -> str:
    return graph.add("ArgMax", scores, axis=1, keepdims=0)


def _forest(graph: Graph, forest: Any, features: str, num_classes: int) -> Answers:
    """Trees and forests: the leaves' shares of the classes in double precision, in the order of the trees.

    One ``TreeEnsembleRegressor`` holds all trees, and each adds the number of its leaf to an output of its own. So
    nothing depends on the order in which a runtime adds, or on the precision of sums.
    """
    members = getattr(forest, "estimators_", None)
    trees = [one.tree_ for one in (members or [forest])]
    left, right, column, threshold, values = (
        np.concatenate([getattr(tree, name) for tree in trees])
        for name in ("children_left", "children_right", "feature", "threshold", "value")
    )
    leaf, sizes = left == -1, [tree.node_count for tree in trees]
    number, node = np.repeat(np.arange(len(trees)), sizes), np.concatenate([np.arange(size) for size in sizes])
    counts = np.bincount(number[leaf], minlength=len(trees))
    first = np.cumsum(counts) - counts
    # float32 thresholds under which the same float32 features lie: rounded down
    near = threshold.astype(np.float32)
    near = np.where(near.astype(np.float64) > threshold, np.nextafter(near, np.float32(-np.inf)), near)
    inner = {"truenodeids": left, "falsenodeids": right, "featureids": column}
    reached = graph.add(
        "TreeEnsembleRegressor",
        features,
        domain=ML,
        n_targets=len(trees),
        aggregate_function="SUM",
        post_transform="NONE",
        nodes_treeids=number.tolist(),
        nodes_nodeids=node.tolist(),
        nodes_modes=np.where(leaf, "LEAF", "BRANCH_LEQ").tolist(),
        nodes_values=np.where(leaf, np.float32(0), near).tolist(),
        **{f"nodes_{key}": np.where(leaf, 0, array).tolist() for key, array in inner.items()},
        target_treeids=number[leaf].tolist(),
        target_nodeids=node[leaf].tolist(),
        target_ids=number[leaf].tolist(),
        # below 2**24, so exact in single precision
        target_weights=(np.arange(leaf.sum()) - first[number[leaf]]).astype(float).tolist(),
    )
    rows = graph.add("Add", graph.cast(reached, np.int64), graph.constant(first[None, :], np.int64))
    zero = graph.cast(graph.add("Mul", graph.column(features, 0), graph.constant(0, np.float32)), np.float64)
    begin = graph.add("Add", zero, graph.constant(np.zeros((1, num_classes))))
    total = graph.running_sum(begin, values[leaf, 0, :], rows)
    if members is not None:
        total = graph.add("Div", total, graph.constant(float(len(members)), np.float64))
    return Answers(_largest(graph, total), total)


def _neighbours(graph: Graph, model: Any, features: str, num_classes: int) -> Answers:
    (weights,) = _converted(graph, make_pipeline(model.scaler_, model.knn_), features)
    return Answers(_largest(graph, weights), weights)


def _binned(graph: Graph, model: Any, features: str, num_classes: int) -> Answers:
    """BinnedLinear: scores in double precision, linear in which thresholds the features reach."""
    values = graph.add("Gather", features, graph.constant(model.columns, np.int64), axis=1)
    reached = graph.add("GreaterOrEqual", values, graph.constant(model.thresholds, np.float32))
    scores = graph.add("MatMul", graph.cast(reached, np.float64), graph.constant(model.weights, np.float64))
    scores = graph.add("Add", scores, graph.constant(model.intercept, np.float64))
    return Answers(_largest(graph, scores), graph.add("Softmax", scores, axis=1))


def _xgboost(graph: Graph, model: Any, features: str, num_classes: int) -> Answers:
    """XGBoost: onnxmltools' converter, within skl2onnx."""
    converters = import_extra("onnxmltools.convert.xgboost.operator_converters.XGBoost", "onnx")
    from skl2onnx import update_registered_converter
    from skl2onnx.common.shape_calculator import calculate_linear_classifier_output_shapes as shapes

    if parallel := model.num_parallel_tree:  # the converter looks at n_estimators trees; the answers stay the same
        model = copy(model).set_params(n_estimators=model.n_estimators * parallel, num_parallel_tree=1)
    if model.missing == model.missing:  # another value than NaN, the only one that the graph's trees know
        absent = graph.add("Equal", features, graph.constant(model.missing, np.float32))
        features = graph.add("Where", absent, graph.constant(np.nan, np.float32), features)
        model = copy(model).set_params(missing=np.nan)
    options = {"nocl": [True, False], "zipmap": [True, False, "columns"]}
    update_registered_converter(type(model), "XGBClassifier", shapes, converters.convert_xgboost, options=options)
    return _by_skl2onnx(graph, model, features, num_classes)


def _net(graph: Graph, net: Any, features: str, num_classes: int) -> Answers:
    """Torch nets of the zoo and users' own modules in their place, by torch.onnx; one output for each class."""
    import torch

    module = deepcopy(net.module_).to("cpu", memory_format=torch.contiguous_format).eval()
    buffer = io.BytesIO()
    # by tracing: all torch since 2.4 can, in a tenth of the time of dynamo=True, and without onnxscript
    torch.onnx.export(
        module,
        (torch.zeros((2, net.n_features_in_)),),
        buffer,
        input_names=["rows"],
        output_names=["outputs"],
        dynamic_axes={"rows": {0: "n"}, "outputs": {0: "n"}},
        opset_version=OPSETS[""],
        dynamo=False,
    )
    (outputs,) = graph.splice(graph.onnx.load_from_string(buffer.getvalue()), features)
    return Answers(_largest(graph, outputs), graph.add("Softmax", outputs, axis=1))


def _converted(graph: Graph, estimator: Any, features: str) -> list[str]:
    """Put skl2onnx's graph of an estimator into this one; return the names of its outputs."""
    skl2onnx = import_extra("skl2onnx", "onnx")
    from skl2onnx.common.data_types import FloatTensorType
    from skl2onnx.operator_converters.scaler_op import convert_sklearn_scaler
    from skl2onnx.shape_calculators.scaler import calculate_sklearn_scaler_output_shapes

    scaler = ("NumberScaler", calculate_sklearn_scaler_output_shapes, convert_sklearn_scaler)
    skl2onnx.update_registered_converter(NumberScaler, *scaler, options={"div": ["std", "div", "div_cast"]})
    converted = skl2onnx.convert_sklearn(
        estimator,
        initial_types=[("features", FloatTensorType([None, int(estimator.n_features_in_)]))],
        options={id(estimator): {"zipmap": False}} if hasattr(estimator, "predict_proba") else None,
        target_opset=OPSETS,
    )
    return graph.splice(converted, features)


def _by_skl2onnx(graph: Graph, estimator: Any, features: str, num_classes: int) -> Answers:
    """Convert any other estimator that skl2onnx knows."""
    found = _converted(graph, estimator, features)
    codes = graph.cast(graph.add("Reshape", found[0], graph.constant([-1], np.int64)), np.int64)
    if len(found) > 1 and hasattr(estimator, "predict_proba"):
        return Answers(codes, found[1])
    column = graph.add("Reshape", codes, graph.constant([-1, 1], np.int64))
    same = graph.add("Equal", column, graph.constant([range(num_classes)], np.int64))
    return Answers(codes, graph.cast(same, np.float32))


_KNOWN: dict[str, Callable[[Graph, Any, str, int], Answers]] = {
    "sklearn.tree._classes.DecisionTreeClassifier": _forest,
    "sklearn.ensemble._forest.RandomForestClassifier": _forest,
    "sklearn.ensemble._forest.ExtraTreesClassifier": _forest,
    "fedkd_flwr.models.estimators.BinnedLinear": _binned,
    "fedkd_flwr.models.estimators.NearestNeighbours": _neighbours,
    "xgboost.sklearn.XGBClassifier": _xgboost,
    "fedkd_flwr.models.networks.TorchNet": _net,
}

"""A graph of ONNX operations, built one operation at a time; values are named by what `add` and `constant` return."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.errors import import_extra

__all__ = ["ML", "OPSETS", "Graph"]

ML = "ai.onnx.ml"
OPSETS = {"": 17, ML: 3}
"""Versions of the operators; onnxruntime has had them since 1.12 of 2022."""


class Graph:
    """Nodes and constants of a graph that is being built.

    ``reserved`` are names of columns, which no value made here has.

    Raises `MissingExtraError` if onnx is not installed.
    """

    def __init__(self, reserved: Collection[str] = ()) -> None:
        self.reserved = tuple(reserved)
        self.onnx = import_extra("onnx", "onnx")
        self.inputs: list[Any] = []
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.opsets = dict(OPSETS)
        self._count = 0

    def _name(self, kind: str) -> str:
        while True:
            self._count += 1
            name = f"{kind}_{self._count}"
            if not any(one.startswith(name) for one in self.reserved):  # names in a part begin with the part's
                return name

    def input(self, name: str, dtype: Any, width: int) -> str:
        """Declare an input of shape (n, width) and return its name."""
        kind = self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self.inputs.append(self.onnx.helper.make_tensor_value_info(name, kind, ["n", width]))
        return name

    def constant(self, values: Any, dtype: Any = None) -> str:
        """Add a constant and return its name."""
        array = np.asarray(values, dtype=dtype)
        if array.dtype.kind == "U":
            array = array.astype(object)
        name = self._name("constant")
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def add(self, operation: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add one operation and return the name of its output."""
        name = self._name(operation)
        self.nodes.append(self.onnx.helper.make_node(operation, list(inputs), [name], domain=domain, **attributes))
        return name

    def cast(self, value: str, dtype: Any) -> str:
        """Return a value as another type."""
        return self.add("Cast", value, to=self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def column(self, value: str, first: int) -> str:
        """Return one column of a matrix, of shape (n, 1)."""
        return self.add("Gather", value, self.constant([first], np.int64), axis=1)

    def running_sum(self, start: str, table: NDArray[Any], rows: str) -> str:
        """Return ``start + table[rows[:, 0]] + table[rows[:, 1]] + ...``, added in this order as a loop would.

        ``start`` names a matrix (n, k), ``rows`` one of (n, t), int64: the rows of ``table`` (m, k) to add.
        """
        helper, kind = self.onnx.helper, self.onnx.helper.np_dtype_to_tensor_dtype(table.dtype)
        whole = self.onnx.TensorProto.INT64
        held = self.constant(table)
        so_far, row, found, after = (self._name("scan") for _ in range(4))
        nodes = [helper.make_node("Gather", [held, row], [found]), helper.make_node("Add", [so_far, found], [after])]
        body = helper.make_graph(
            nodes,
            "one_tree",
            [
                helper.make_tensor_value_info(so_far, kind, ["n", table.shape[1]]),
                helper.make_tensor_value_info(row, whole, ["n"]),
            ],
            [helper.make_tensor_value_info(after, kind, ["n", table.shape[1]])],
        )
        by_tree = self.add("Transpose", rows, perm=[1, 0])
        return self.add("Scan", start, by_tree, body=body, num_scan_inputs=1)

    def splice(self, model: Any, value: str) -> list[str]:
        """Take another model's graph in, its only input being ``value``; return the names of its outputs.

        Raises ValueError if an operation means something else in the versions of operators used here.
        """
        prefix = self._name("part") + "_"
        model = self.onnx.compose.add_prefix(model, prefix)
        schema_of = self.onnx.defs.get_schema
        versions = {used.domain: used.version for used in model.opset_import}
        for node in model.graph.node:
            here = self.opsets.setdefault(node.domain, versions[node.domain])
            known = schema_of(node.op_type, here, node.domain)
            # what operators of one name mean differs where inputs became attributes, or the other way round
            same = known.min_input <= len(node.input) <= known.max_input
            if not (same and {attribute.name for attribute in node.attribute} <= set(known.attributes)):
                raise ValueError(f"{node.op_type} of operators {versions[node.domain]}, not {here}")
        (only,) = model.graph.input
        self.nodes.append(self.onnx.helper.make_node("Identity", [value], [only.name]))
        self.nodes += model.graph.node
        self.constants += model.graph.initializer
        return [output.name for output in model.graph.output]

    def model(self, outputs: dict[str, tuple[str, Any, list[Any]]], *, name: str, facts: dict[str, str]) -> Any:
        """Return the finished model; raises if onnx finds the graph wrong.

        ``outputs`` maps the name of an output to (value, type, shape); ``facts`` become the metadata for readers.
        """
        helper = self.onnx.helper
        declared = []
        for output, (value, dtype, shape) in outputs.items():
            self.nodes.append(helper.make_node("Identity", [value], [output]))
            kind = self.onnx.TensorProto.STRING if dtype is str else helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
            declared.append(helper.make_tensor_value_info(output, kind, shape))
        graph = helper.make_graph(self.nodes, name, self.inputs, declared, initializer=self.constants)
        opsets = [helper.make_opsetid(domain, number) for domain, number in self.opsets.items()]
        model = helper.make_model(graph, opset_imports=opsets, producer_name="fedkd-flwr", ir_version=10)
        helper.set_model_props(model, facts)
        self.onnx.checker.check_model(model)
        return model

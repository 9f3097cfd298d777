"""Trees as ONNX: which leaf each row reaches in each tree, exactly; the leaves' values are added elsewhere.

One ``TreeEnsembleRegressor`` holds all trees, and each adds the number of its leaf to an output of its own. So nothing
depends on the order in which a runtime adds, or on the precision of sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.onnx_graphs.graph import ML, Graph

__all__ = ["PlainTree", "add_leaves", "at_most"]


@dataclass(frozen=True, kw_only=True)
class PlainTree:
    """One tree. Arrays have one entry per node, the root first; ``values`` (nodes, k) are what leaves say.

    A row goes left at an inner node where feature ``column`` is at most ``threshold``, float32.
    """

    left: NDArray[np.integer]
    right: NDArray[np.integer]
    leaf: NDArray[np.bool_]
    column: NDArray[np.integer]
    threshold: NDArray[np.float32]
    values: NDArray[np.floating]


def at_most(threshold: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return float32 thresholds under which the same float32 features lie: rounded down.

    >>> float(at_most(np.array([0.1]))[0]) <= 0.1
    True
    """
    near = threshold.astype(np.float32)
    return np.where(near.astype(np.float64) > threshold, np.nextafter(near, np.float32(-np.inf)), near)


def add_leaves(graph: Graph, features: str, trees: Sequence[PlainTree]) -> tuple[str, NDArray[np.floating]]:
    """Add the trees; return the name of the reached leaves, (n, trees) int64, and the table of values they number."""
    counts = [int(tree.leaf.sum()) for tree in trees]
    first = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int64)
    number = np.concatenate([np.full(len(tree.leaf), t) for t, tree in enumerate(trees)])
    node = np.concatenate([np.arange(len(tree.leaf)) for tree in trees])
    leaf = np.concatenate([tree.leaf for tree in trees])
    inner = {
        "truenodeids": np.concatenate([tree.left for tree in trees]),
        "falsenodeids": np.concatenate([tree.right for tree in trees]),
        "featureids": np.concatenate([tree.column for tree in trees]),
    }
    values = np.where(leaf, np.float32(0), np.concatenate([tree.threshold for tree in trees]))
    modes = np.where(leaf, "LEAF", "BRANCH_LEQ")
    reached = graph.add(
        "TreeEnsembleRegressor",
        features,
        domain=ML,
        n_targets=len(trees),
        aggregate_function="SUM",
        post_transform="NONE",
        nodes_treeids=number.tolist(),
        nodes_nodeids=node.tolist(),
        nodes_modes=modes.tolist(),
        nodes_values=values.tolist(),
        **{f"nodes_{key}": np.where(leaf, 0, array).tolist() for key, array in inner.items()},
        target_treeids=number[leaf].tolist(),
        target_nodeids=node[leaf].tolist(),
        target_ids=number[leaf].tolist(),
        # below 2**24, so exact in single precision
        target_weights=np.concatenate([np.arange(count) for count in counts]).astype(float).tolist(),
    )
    rows = graph.add("Add", graph.cast(reached, np.int64), graph.constant(first[None, :]))
    return rows, np.concatenate([tree.values[tree.leaf] for tree in trees])

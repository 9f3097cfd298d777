"""Minibatches as slices of tensors in memory, in an order drawn from torch's current generator.

Only imported on use.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["Batch", "as_targets", "epochs_of", "halves", "mixed"]

Batch = tuple[Tensor, Tensor]


def as_targets(y: NDArray[Any]) -> Tensor:
    """Return labels as int64 and probabilities or logits as float32."""
    return torch.from_numpy(np.array(y, dtype=np.int64 if np.asarray(y).dtype.kind in "iu" else np.float32))


def epochs_of(
    X: Tensor, y: Tensor, *, epochs: int, batch_size: int, max_steps: int | None = None, least: int = 1
) -> Iterator[Batch]:
    """Yield the batches of whole shuffled passes, at most ``max_steps`` of them.

    The last batch of a pass is left out where it has fewer than ``least`` rows and is not the only one.
    """
    left = max_steps
    for _ in range(epochs):
        order = torch.randperm(len(y)).to(y.device)
        for start in range(0, len(y), batch_size):
            if start and len(y) - start < least:
                break
            if left is not None:
                if left <= 0:
                    return
                left -= 1
            rows = order[start : start + batch_size]
            yield X.index_select(0, rows), y.index_select(0, rows)  # twice as fast as X[rows]


def mixed(parts: list[Batch], sizes: list[int], steps: int) -> Iterator[list[Batch]]:
    """Yield ``steps`` times ``sizes[i]`` rows of each part i, in shuffled passes that leave no labelled row out."""
    streams = [_rows_of(y, size) for (_, y), size in zip(parts, sizes, strict=True)]
    for _ in range(steps):
        rows = [next(stream) for stream in streams]
        yield [(X.index_select(0, r), y.index_select(0, r)) for (X, y), r in zip(parts, rows, strict=True)]


def halves(parts: list[Batch], *, batch_size: int, steps: int | None) -> Iterator[Batch]:
    """Yield batches of one part, or half (rounded up) of the first part and half of the second; by default one pass."""
    sizes = [batch_size] if len(parts) == 1 else [batch_size - batch_size // 2, batch_size // 2]
    if steps is None:
        steps = -(-sum(len(_labelled(y)) for _, y in parts) // batch_size)
    for batch in mixed(parts, sizes, steps):
        yield torch.cat([X for X, _ in batch]), torch.cat([y for _, y in batch])


def _rows_of(y: Tensor, size: int) -> Iterator[Tensor]:
    known = _labelled(y)
    order = torch.randperm(len(known))
    while True:
        while len(order) < size:
            order = torch.cat((order, torch.randperm(len(known))))
        yield known[order[:size]].to(y.device)
        order = order[size:]


def _labelled(y: Tensor) -> Tensor:
    """Return the numbers of the rows with a label, or with a target of floats."""
    return torch.arange(len(y)) if y.is_floating_point() else torch.nonzero(y.cpu() >= 0).ravel()

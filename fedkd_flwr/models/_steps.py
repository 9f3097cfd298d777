"""What a step of training sees: minibatches in an order drawn from torch's current generator, and a loss.

Only imported on use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedkd_flwr.errors import Code, ConfigError, explain

__all__ = [
    "LOSSES",
    "Batch",
    "JointLoss",
    "as_targets",
    "check_loss",
    "epochs_of",
    "halves",
    "mixed",
    "proximal_loss",
    "shifted_loss",
]


class SquaredProbabilities(nn.Module):  # type: ignore[misc]  # torch is not read
    """Mean squared difference between probabilities, over rows and classes."""

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Compare logits, after softmax, with probabilities."""
        return nn.functional.mse_loss(logits.softmax(dim=1), targets)


class JointLoss(nn.Module):  # type: ignore[misc]  # torch is not read
    """Cross-entropy on the first rows, with labels, plus a weighted distance on the others, with targets.

    Source: the joint objective of distributed distillation (Bistritz, Mann and Bambos 2020).
    """

    def __init__(self, distance: nn.Module, weight: float) -> None:
        super().__init__()
        self.distance = distance
        self.weight = weight

    def forward(self, logits: Tensor, targets: tuple[Tensor, Tensor]) -> Tensor:
        """Return the loss of both together."""
        labels, public = targets
        own = nn.functional.cross_entropy(logits[: len(labels)], labels)
        total: Tensor = own + self.weight * self.distance(logits[len(labels) :], public)
        return total


class WithTerm(nn.Module):  # type: ignore[misc]  # torch is not read
    """Cross-entropy plus what a function of the weights returns."""

    def __init__(self, term: Callable[[], Tensor]) -> None:
        super().__init__()
        self.term = term

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of logits and labels, with the term."""
        total: Tensor = nn.functional.cross_entropy(logits, labels) + self.term()
        return total


def proximal_loss(weights: Iterable[Tensor], mu: float) -> WithTerm:
    """Return cross-entropy plus (mu / 2) ||w - w_t||^2, where w_t are the weights now.

    Source: Li et al., "Federated Optimization in Heterogeneous Networks", MLSys 2020, equation (2). The norm is
    squared, so that the gradient is mu (w - w_t); the sample in Flower's own documentation leaves the square out.
    """
    pairs = [(weight, weight.detach().clone()) for weight in weights]
    return WithTerm(lambda: mu / 2 * torch.stack([(weight - start).square().sum() for weight, start in pairs]).sum())


def shifted_loss(pairs: Sequence[tuple[Tensor, Tensor]]) -> WithTerm:
    """Return cross-entropy plus the inner product of weights and shifts: each shift is added to a weight's gradient.

    Source: Karimireddy et al., "SCAFFOLD", ICML 2020, Algorithm 1, whose local step follows g - c_i + c.
    """
    return WithTerm(lambda: torch.stack([(weight * shift).sum() for weight, shift in pairs]).sum())


LOSSES: dict[str, Callable[[], nn.Module]] = {
    "cross-entropy": nn.CrossEntropyLoss,  # targets are labels or probabilities
    "l1-logits": nn.L1Loss,  # mean over rows and classes, as FedMD's published code compares logits
    "mse-probs": SquaredProbabilities,
}


def check_loss(loss: Tensor, lr: float, way_out: str) -> None:
    """Raise ConfigError if the loss is not finite."""
    if not bool(torch.isfinite(loss)):
        message = explain("Training", "keep the loss finite", f"lr={lr} with loss {float(loss)}", way_out)
        raise ConfigError(message, code=Code.WRONG_MODEL_OUTPUT)


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

"""Losses as torch modules: logits and targets in, one number out.

Only imported on use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor, nn

from fedkd_flwr.errors import Code, ConfigError, explain

__all__ = ["LOSSES", "JointLoss", "check_loss", "proximal_loss", "shifted_loss"]


class SquaredProbabilities(nn.Module):
    """Mean squared difference between probabilities, over rows and classes."""

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Compare logits, after softmax, with probabilities."""
        return nn.functional.mse_loss(logits.softmax(dim=1), targets)


class JointLoss(nn.Module):
    """Cross-entropy on the first rows, which have labels, plus a weighted distance on the others, which have targets.

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


class WithTerm(nn.Module):
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

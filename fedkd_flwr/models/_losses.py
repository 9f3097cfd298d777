"""What a net's answers are compared with, and how: torch modules from (logits, targets) to one number.

Only imported on use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

__all__ = ["LOSSES", "JointLoss", "ProximalLoss"]


class SquaredProbabilities(nn.Module):
    """Mean squared difference between probabilities, over rows and classes."""

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Compare logits, after softmax, with probabilities."""
        return nn.functional.mse_loss(logits.softmax(dim=1), targets)


class JointLoss(nn.Module):
    """Cross-entropy on own labels plus a weighted distance to targets on the rows after them.

    Source: the joint objective of distributed distillation (Bistritz, Mann and Bambos 2020).
    """

    def __init__(self, distance: nn.Module, weight: float) -> None:
        super().__init__()
        self.distance = distance
        self.weight = weight

    def forward(self, logits: Tensor, targets: tuple[Tensor, Tensor]) -> Tensor:
        """Compare the first rows with labels, the others with targets."""
        labels, public = targets
        own = nn.functional.cross_entropy(logits[: len(labels)], labels)
        total: Tensor = own + self.weight * self.distance(logits[len(labels) :], public)
        return total


class ProximalLoss(nn.Module):
    """Cross-entropy plus (mu / 2) ||w - w_t||^2, w_t being the weights when this was made.

    Source: Li et al., "Federated Optimization in Heterogeneous Networks", MLSys 2020, equation (2). The norm is
    squared, so that the gradient is mu (w - w_t); the sample in Flower's own documentation leaves the square out.
    """

    def __init__(self, weights: Iterable[Tensor], mu: float) -> None:
        super().__init__()
        self.weights = list(weights)  # a list: they stay the net's, not parameters of this module
        self.anchors = [weight.detach().clone() for weight in self.weights]
        self.mu = mu

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Compare logits with labels, and the weights with where they started."""
        pairs = zip(self.weights, self.anchors, strict=True)
        squares = torch.stack([(weight - anchor).square().sum() for weight, anchor in pairs]).sum()
        total: Tensor = nn.functional.cross_entropy(logits, labels) + self.mu / 2 * squares
        return total


LOSSES: dict[str, Callable[[], nn.Module]] = {
    "cross-entropy": nn.CrossEntropyLoss,  # of hard labels or probabilities
    "l1-logits": nn.L1Loss,  # mean over rows and classes, as FedMD's published code compares logits
    "mse-probs": SquaredProbabilities,
}

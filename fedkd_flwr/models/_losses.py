"""What a net's answers are compared with, and how: torch modules from (logits, targets) to one number.

Only imported on use.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

__all__ = ["LOSSES", "JointLoss"]


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


LOSSES: dict[str, Callable[[], nn.Module]] = {
    "cross-entropy": nn.CrossEntropyLoss,  # of hard labels or probabilities
    "l1-logits": nn.L1Loss,  # mean over rows and classes, as FedMD's published code compares logits
    "mse-probs": SquaredProbabilities,
}

"""Distributed distillation at a party: one loss of its own labels and the distance to the last averages.

The other half, and the whole round, is `fedkd_flwr.strategies.dd`.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from fedkd_flwr.algorithms.dd import CARD
from fedkd_flwr.clients.instruction import Instruction
from fedkd_flwr.clients.score_exchange import Lesson, ScoreClient
from fedkd_flwr.models.classifier import Classifier

__all__ = ["DDClient"]


class DDClient(ScoreClient):
    """Sends logits, probabilities or labels of some public rows every round (Bistritz, Mann and Bambos 2020)."""

    card = CARD

    def begin(self, model: Classifier, X: NDArray[Any], y: NDArray[Any], instruction: Instruction) -> None:
        """Take a round's steps on own rows alone."""
        model.update(X, y, steps=instruction.config.steps_per_round)

    def improve(
        self, model: Classifier, X: NDArray[Any], y: NDArray[Any], lesson: Lesson, instruction: Instruction
    ) -> None:
        """Take a round's steps on the joint loss."""
        weight, steps = instruction.config.distillation_weight, instruction.config.steps_per_round
        model.joint_steps(X, y, lesson.X, lesson.targets, steps=steps, weight=weight, loss=lesson.loss)

    def weight(self, instruction: Instruction) -> float:
        """Return the weight of the joint loss, for models that have none: rows of averages weigh as much."""
        return float(instruction.config.distillation_weight)

    def practise(self, model: Classifier, X: NDArray[Any], y: NDArray[Any], instruction: Instruction) -> None:
        """Take as many steps again as all rounds had."""
        steps = instruction.config.steps_per_round * instruction.server_round
        model.update(X, y, steps=steps)

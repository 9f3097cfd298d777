"""Distributed distillation at a party: one loss of its own labels and the distance to the last averages.

The other half, and the whole round, is `fedkd_flwr.strategies.dd`.
"""

from __future__ import annotations

from typing import Any, ClassVar

from numpy.typing import NDArray

from fedkd_flwr.clients.party import Instruction
from fedkd_flwr.clients.score_exchange import Lesson, SoftClient
from fedkd_flwr.errors import PayloadError, explain
from fedkd_flwr.models.classifier import Classifier

__all__ = ["DDClient"]


class DDClient(SoftClient):
    """Sends logits, probabilities or labels of some public rows every round (Bistritz, Mann and Bambos 2020).

    Parameters as in `SoftClient`.
    """

    algorithm: ClassVar[str] = "dd"

    def begin(self, model: Classifier, X: NDArray[Any], y: NDArray[Any], instruction: Instruction) -> None:
        """Take a round's steps on own rows alone."""
        model.update(X, y, steps=instruction.integer("steps-per-round", minimum=1))

    def improve(
        self, model: Classifier, X: NDArray[Any], y: NDArray[Any], lesson: Lesson, instruction: Instruction
    ) -> None:
        """Take a round's steps on the joint loss."""
        weight = instruction.config.get("distillation-weight")
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight < float("inf"):
            raise PayloadError(explain("distillation-weight", "be a finite number >= 0", weight))
        steps = instruction.integer("steps-per-round", minimum=1)
        model.joint_steps(X, y, lesson.X, lesson.targets, steps=steps, weight=float(weight), loss=lesson.loss)

    def practise(self, model: Classifier, X: NDArray[Any], y: NDArray[Any], instruction: Instruction) -> None:
        """Take as many steps again as all rounds had."""
        steps = instruction.integer("steps-per-round", minimum=1) * instruction.server_round
        model.update(X, y, steps=steps)

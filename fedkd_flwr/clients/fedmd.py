"""FedMD at a party: digest the averages of the last public rows, revisit its own rows, answer the next public rows.

The other half, and the whole round, is `fedkd_flwr.strategies.fedmd`.
"""

from __future__ import annotations

from typing import Any, ClassVar

from numpy.typing import NDArray

from fedkd_flwr.clients.party import Instruction
from fedkd_flwr.clients.score_exchange import Lesson, SoftClient
from fedkd_flwr.models.classifier import Classifier

__all__ = ["FedMDClient"]


class FedMDClient(SoftClient):
    """Sends logits, probabilities or labels of some public rows every round (FedMD-NFDP, Algorithm 1).

    Parameters as in `SoftClient`.
    """

    algorithm: ClassVar[str] = "fedmd"

    def begin(self, model: Classifier, X: NDArray[Any], y: NDArray[Any], instruction: Instruction) -> None:
        """Train for T1 epochs."""
        model.train_epochs(X, y, epochs=instruction.integer("initial-epochs", minimum=1))

    def improve(
        self, model: Classifier, X: NDArray[Any], y: NDArray[Any], lesson: Lesson, instruction: Instruction
    ) -> None:
        """Digest for T2 epochs and revisit for T3, in the order the run says; at the end, digest at least."""
        digest_first = instruction.choice("digest-order", ("digest-first", "revisit-first")) == "digest-first"
        digest, revisit = (
            instruction.integer("digest-epochs", minimum=1),
            instruction.integer("revisit-epochs", minimum=0),
        )
        if self.is_last(instruction) and not instruction.flag("final-revisit"):
            revisit = 0
        if revisit and not digest_first:
            model.train_epochs(X, y, epochs=revisit)
        batch = instruction.integer("digest-batch", minimum=1)
        model.digest(lesson.X, lesson.targets, epochs=digest, loss=lesson.loss, batch_size=batch)
        if revisit and digest_first:
            model.train_epochs(X, y, epochs=revisit)

    def practise(self, model: Classifier, X: NDArray[Any], y: NDArray[Any], instruction: Instruction) -> None:
        """Train for the T3 epochs of every round."""
        if epochs := instruction.integer("revisit-epochs", minimum=0) * instruction.server_round:
            model.train_epochs(X, y, epochs=epochs)

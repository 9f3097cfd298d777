"""FedMD at a party: digest the averages of the last public rows, revisit its own rows, answer the next public rows.

DS-FL and SCARLET do the same. The other half, and the whole round, is `fedkd_flwr.strategies.fedmd`.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from fedkd_flwr.algorithms.fedmd import CARD
from fedkd_flwr.algorithms.score_exchange import DISTILLATION_BATCH, DigestConfig
from fedkd_flwr.clients.instruction import Instruction
from fedkd_flwr.clients.score_exchange import Lesson, ScoreClient, nothing_more
from fedkd_flwr.models.classifier import Classifier

__all__ = ["DigestClient", "FedMDClient"]


class DigestClient(ScoreClient):
    """A party that learns the averages by themselves, before its own rows. Parameters as in `ScoreClient`."""

    def begin(self, model: Classifier, X: NDArray[Any], y: NDArray[Any], instruction: Instruction) -> None:
        """Train for T1 epochs."""
        model.train_epochs(X, y, epochs=instruction.config.initial_epochs)

    def improve(
        self, model: Classifier, X: NDArray[Any], y: NDArray[Any], lesson: Lesson, instruction: Instruction
    ) -> None:
        """Digest for T2 epochs and revisit for T3; at the end, digest at least."""
        config: DigestConfig = instruction.config
        last = nothing_more(instruction) and not config.final_own_rows
        revisit = 0 if last else config.own_rows_epochs
        digest, batch = config.distillation_epochs, DISTILLATION_BATCH
        model.digest(lesson.X, lesson.targets, epochs=digest, loss=lesson.loss, batch_size=batch)
        if revisit:
            model.train_epochs(X, y, epochs=revisit)

    def practise(self, model: Classifier, X: NDArray[Any], y: NDArray[Any], instruction: Instruction) -> None:
        """Train for T3 epochs as often as with the averages."""
        if epochs := instruction.config.revisited(instruction.server_round):
            model.train_epochs(X, y, epochs=epochs)


class FedMDClient(DigestClient):
    """Sends logits, probabilities or labels of some public rows every round (FedMD-NFDP, Algorithm 1)."""

    card = CARD

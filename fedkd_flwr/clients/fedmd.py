"""FedMD at a party: digest the averages of the last public rows, revisit its own rows, answer the next public rows.

The other half, and the whole round, is `fedkd_flwr.strategies.fedmd`.
"""

from __future__ import annotations

from typing import Any, ClassVar

from numpy.typing import NDArray

from fedkd_flwr.algorithms.card import Card
from fedkd_flwr.algorithms.fedmd import CARD
from fedkd_flwr.algorithms.score_exchange import DigestConfig
from fedkd_flwr.clients.party import Instruction
from fedkd_flwr.clients.score_exchange import Lesson, ScoreClient
from fedkd_flwr.models.classifier import Classifier

__all__ = ["FedMDClient"]


class FedMDClient(ScoreClient):
    """Sends logits, probabilities or labels of some public rows every round (FedMD-NFDP, Algorithm 1).

    Parameters as in `ScoreClient`.
    """

    card: ClassVar[Card] = CARD

    def begin(self, model: Classifier, X: NDArray[Any], y: NDArray[Any], instruction: Instruction) -> None:
        """Train for T1 epochs."""
        model.train_epochs(X, y, epochs=instruction.config.initial_epochs)

    def improve(
        self, model: Classifier, X: NDArray[Any], y: NDArray[Any], lesson: Lesson, instruction: Instruction
    ) -> None:
        """Digest for T2 epochs and revisit for T3, in the order the run says; at the end, digest at least."""
        config: DigestConfig = instruction.config
        last = self.is_last(instruction) and not config.final_revisit
        revisit = 0 if last else config.revisit_epochs
        if revisit and config.digest_order == "revisit-first":
            model.train_epochs(X, y, epochs=revisit)
        digest, batch = config.digest_epochs, config.digest_batch
        model.digest(lesson.X, lesson.targets, epochs=digest, loss=lesson.loss, batch_size=batch)
        if revisit and config.digest_order == "digest-first":
            model.train_epochs(X, y, epochs=revisit)

    def practise(self, model: Classifier, X: NDArray[Any], y: NDArray[Any], instruction: Instruction) -> None:
        """Train for the T3 epochs of every round."""
        if epochs := instruction.config.revisit_epochs * instruction.server_round:
            model.train_epochs(X, y, epochs=epochs)

"""Stacked: a logistic regression on what the parties' models say, taught by public rows whose labels the server has.

The aggregator of FENS (Allouah et al., NeurIPS 2024). FENS sends models, and teaches a small net by the parties' own
labels in many rounds; here the server needs the labels of 200 public rows, or half of them, and answers on public rows
alone leave. Parties learn what the regression says beside their own rows; what they do, send and may claim is DD's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from flwr.app import ArrayRecord
from numpy.typing import NDArray

from fedkd_flwr.algorithms.score_exchange import ScoreFacts, as_labels
from fedkd_flwr.baselines.cards import STACKED as CARD
from fedkd_flwr.baselines.cards import StackedConfig
from fedkd_flwr.clients.dd import DDClient
from fedkd_flwr.labels.known import KnownRows, draw_known
from fedkd_flwr.labels.voting import share_right
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.models.taught import teach
from fedkd_flwr.record.run_record import RoundRecord
from fedkd_flwr.strategies.exchange import checked_test
from fedkd_flwr.strategies.score_exchange import PartyScores, ScoreExchange

__all__ = ["StackedClient", "StackedExchange", "aggregate"]

_LEAST = 1e-3  # of a probability: a model that is sure and wrong must not outweigh all others


def aggregate(answers: Sequence[NDArray[Any]], known: KnownRows, *, num_classes: int) -> NDArray[np.float64]:
    """Return the probability of each class in each public row: (num_public, num_classes), float64.

    ``answers``: each party's probabilities (num_public, num_classes), or labels (num_public,). A class without a known
    row gets none.
    """
    from sklearn.linear_model import LogisticRegression

    each = [np.eye(num_classes)[answer] if answer.ndim == 1 else answer for answer in answers]
    said = np.log(np.clip(np.concatenate(each, axis=1), _LEAST, 1.0))
    model = LogisticRegression(max_iter=1000).fit(said[known.rows], known.labels)
    probs = np.zeros((len(said), num_classes))
    probs[:, model.classes_] = model.predict_proba(said)
    return probs


class StackedExchange(ScoreExchange):
    """One round of probabilities. Parameters as in `ScoreExchange`, ``final_model`` and ``test`` as in `OneShotVote`.

    ``model``: the server's, after the round.
    """

    card = CARD
    config: StackedConfig
    takes = ("party_rows", "final_model", "test")

    def __init__(
        self,
        *,
        final_model: Callable[..., Classifier],
        test: tuple[NDArray[Any], NDArray[Any]] | None = None,
        **keywords: Any,
    ) -> None:
        super().__init__(**keywords)
        self.final_model, self.test = final_model, checked_test(test, self.public)
        self.batch, truth = self.spec.num_public, self.public.truth
        rng = self.rng("known-rows", hashlib.sha256(truth.tobytes()).hexdigest())
        count = min(self.config.known_rows, self.spec.num_public // 2)
        self.known = draw_known(truth, count, num_classes=self.spec.num_classes, rng=rng)
        self.model: Classifier | None = None

    def combine(self, scores: Sequence[NDArray[Any]], server_round: int) -> tuple[NDArray[np.float64], ScoreFacts]:
        """Return what the regression says of all public rows, and how far parties agree with it."""
        made = aggregate(scores, self.known, num_classes=self.spec.num_classes)
        agreement = np.mean([(as_labels(one) == made.argmax(axis=1)).mean() for one in scores])
        return made, ScoreFacts(agreement=float(agreement))

    def combine_answers(self, server_round: int, answers: Sequence[PartyScores], this: RoundRecord) -> ArrayRecord:
        """Stack the answers, and teach the server's model; the rows that taught are not measured."""
        arrays = super().combine_answers(server_round, answers, this)
        probs, rows = np.asarray(self.average), self.average_rows
        labels, unknown = probs.argmax(axis=1).astype(np.int16), np.setdiff1d(rows, self.known.rows)
        this.consensus_accuracy = share_right(labels[unknown], self.public.truth[unknown])
        seed = int(self.rng("final-model").integers(2**31))
        self.model = teach(lambda: self.final_model(seed=seed), self.public.X, rows, labels, counts=probs)
        if self.test is not None and len(self.test[1]):
            self.record.server["common"] = self.model.metrics(*self.test)
        return arrays


class StackedClient(DDClient):
    """Sends probabilities once, and learns what the server makes of all. Parameters as in `DDClient`."""

    card = CARD

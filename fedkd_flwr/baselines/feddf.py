"""FedDF: FedAvg's mean, to which the server distils the parties' nets on the public rows.

Lin, Kong, Stich, Jaggi, NeurIPS 2020 (arXiv 2006.07242), Algorithm 1: after each round the mean by rows (Flower's
FedAvg) learns softmax(mean of the parties' logits). Departures: the paper stops by a labelled validation set and
anneals the learning rate; here the server, which has no labels, takes 20 passes with the net's own optimiser, started
afresh, and all nets have one architecture.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from flwr.app import ArrayRecord
from numpy.typing import NDArray
from scipy.special import softmax

from fedkd_flwr.baselines.cards import FEDDF as CARD
from fedkd_flwr.baselines.weight_exchange import FlowerMean, PartyWeights, WeightClient
from fedkd_flwr.labels.voting import share_right
from fedkd_flwr.models.classifier import Classifier
from fedkd_flwr.record.run_record import RoundRecord

__all__ = ["FedDFClient", "FedDFExchange", "aggregate"]

_SERVER_EPOCHS = 20
"""Of the server over all public rows in each round."""


def aggregate(logits: Iterable[NDArray[np.floating]]) -> NDArray[np.float64]:
    """Return softmax(mean of the parties' logits), (num_public, num_classes): what the server's net is to say.

    Every party counts alike, as in AVGLOGITS of equation (1). ``logits``, (num_public, num_classes) of each party, are
    taken one at a time, so memory does not grow with the parties. Those of ln 9 and of 0 have the mean ln 3:

    >>> aggregate([np.array([[0.0, np.log(9.0)]]), np.array([[0.0, 0.0]])]).round(6).tolist()
    [[0.25, 0.75]]
    """
    total, count = np.zeros(()), 0
    for one in logits:
        total, count = total + np.asarray(one, dtype=np.float64), count + 1
    return np.asarray(softmax(total / count, axis=1))


class FedDFExchange(FlowerMean):
    """FedAvg with distillation at the server. Parameters as in `WeightExchange`."""

    card = CARD
    rows_tried = None  # the mean is taught what each net says of them

    def combine_answers(self, server_round: int, answers: Sequence[PartyWeights], this: RoundRecord) -> ArrayRecord:
        """Average the nets, and teach the mean what they say together of the public rows."""
        super().combine_answers(server_round, answers, this)
        X = self.public.X

        def logits() -> Iterator[NDArray[np.float32]]:
            for answer in answers:
                yield self._spare.set_arrays(answer.parts["model"]).logits(X)

        probs = aggregate(logits())
        this.consensus_accuracy = share_right(probs.argmax(axis=1), self.public.truth)
        # minibatches, dropout and the optimiser start anew in each round, from the seed: a run can be continued exactly
        student: Classifier = self.global_model(seed=int(self.rng("distil", server_round).integers(2**31)))
        student.set_arrays(self.model.arrays())
        student.digest(X, probs, epochs=_SERVER_EPOCHS, loss="cross-entropy")
        return self.take_up(student.arrays())


class FedDFClient(WeightClient):
    """Sends the weights of the server's net after some passes over its rows. Parameters as in `WeightClient`."""

    card = CARD

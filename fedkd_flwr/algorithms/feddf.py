"""FedDF: the mean of the parties' nets, to which the server then distils what they say together; and its card.

Lin, Kong, Stich, Jaggi, "Ensemble Distillation for Robust Model Fusion in Federated Learning", NeurIPS 2020 (arXiv
2006.07242), Algorithm 1 and equation (1). The whole round is told in `fedkd_flwr.strategies.feddf`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.algorithms.card import Card, setting
from fedkd_flwr.algorithms.exchange import LocalEpochsConfig, epochs_on_pooled

__all__ = ["CARD", "FedDFConfig", "aggregate"]


class FedDFConfig(LocalEpochsConfig):
    """Settings of FedDF."""

    section: ClassVar[str] = "feddf"

    distill_epochs: int = setting(20, ge=1, le=10_000)
    """Passes of the server over all public rows in each round, with the net's own optimiser, started afresh."""


def aggregate(logits: Iterable[NDArray[np.floating]]) -> NDArray[np.float64]:
    """Return softmax(mean of the parties' logits): what the server's net is to say of each public row.

    Every party counts alike, as in AVGLOGITS of equation (1).

    Parameters
    ----------
    logits : iterable of ndarray of shape (num_public, num_classes)
        One for each party; taken one at a time, so memory does not grow with the parties.

    Returns
    -------
    probs : ndarray of shape (num_public, num_classes), float64

    Examples
    --------
    Logits of ln 9 and of 0 for the second class have the mean ln 3:

    >>> aggregate([np.array([[0.0, np.log(9.0)]]), np.array([[0.0, 0.0]])]).round(6).tolist()
    [[0.25, 0.75]]
    """
    total, count = np.zeros(()), 0
    for one in logits:
        total, count = total + np.asarray(one, dtype=np.float64), count + 1
    mean = total / count
    weights = np.exp(mean - mean.max(axis=1, keepdims=True))
    probs: NDArray[np.float64] = weights / weights.sum(axis=1, keepdims=True)
    return probs


CARD = Card(
    name="feddf",
    title="FedDF",
    paper='Lin et al., "Ensemble Distillation for Robust Model Fusion in Federated Learning", NeurIPS 2020',
    config=FedDFConfig,
    strategy="fedkd_flwr.strategies.feddf:FedDF",
    client="fedkd_flwr.clients.feddf:FedDFClient",
    sends="weights",
    default_rounds=10,
    samples=True,
    train_pooled=epochs_on_pooled,
)

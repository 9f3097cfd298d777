"""Dawid-Skene: each party has a confusion matrix of its own, which is learnt from all labels together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.errors import ConfigError, DataError, explain
from fedkd_flwr.labels.voting import ABSTAIN, Ballot, Consensus, ConsensusRule, Labels, majority

__all__ = ["DawidSkene", "dawid_skene"]


def dawid_skene(
    labels: Sequence[Labels],
    *,
    num_classes: int,
    max_iterations: int = 100,
    tolerance: float = 1e-5,
    class_prior: Literal["estimated", "uniform"] = "estimated",
) -> tuple[Labels, NDArray[np.float64]]:
    """Return the consensus that explains all parties' labels best, each with its own confusion matrix.

    Expectation maximisation (Dawid and Skene, "Maximum Likelihood Estimation of Observer Error-Rates Using the EM
    Algorithm", Applied Statistics 28(1), 1979, section 3), started from the vote shares. It learns which party can tell
    which classes apart, so it helps under multi-class label skew and harms strongly imbalanced two-class votes. It
    needs every party's labels at once: memory O(num_parties * num_public).

    ``labels`` holds one array of each party, (num_public,) int16, ``ABSTAIN`` where it has no vote. It stops after
    ``max_iterations``, or when the mean log-likelihood of a row improves by less than ``tolerance``. Shares of the
    classes among the rows are estimated with the rest, as published, or with ``class_prior`` "uniform" taken as equal:
    under label skew the first votes miss whole classes, and an estimated prior never gives them back.

    Returned are the most probable classes, (num_public,) int16, ``ABSTAIN`` for rows without any vote, and the
    posterior probabilities, (num_public, num_classes); a row without votes holds the class prior. A class that nobody
    gave to any row has probability 0: with equal classes, nothing that parties say would speak against it.

    Two good voters and one who swaps the classes:

    >>> good, swapped = np.array([0, 0, 1, 1], np.int16), np.array([1, 1, 0, 0], np.int16)
    >>> dawid_skene([good, good, swapped], num_classes=2)[0].tolist()
    [0, 0, 1, 1]
    """
    from scipy import sparse

    if class_prior not in ("estimated", "uniform"):
        raise ConfigError(explain("class_prior", 'be "estimated" or "uniform"', class_prior))
    if not len(labels):
        raise DataError(explain("labels", "hold at least one party's array", 0, "Wait for parties to answer."))
    matrix = np.stack(labels, axis=1)  # (num_public, num_parties)
    num_public, num_parties = matrix.shape
    rows, parties = np.nonzero(matrix != ABSTAIN)
    columns = parties * num_classes + matrix[rows, parties]
    # one-hot votes, one block of num_classes columns a party: both EM steps are then one sparse product
    onehot = sparse.csr_array((np.ones(rows.size), (rows, columns)), shape=(num_public, num_parties * num_classes))
    counts = np.bincount(rows * num_classes + matrix[rows, parties], minlength=num_public * num_classes)
    voted = np.zeros(num_public, dtype=bool)
    voted[rows] = True
    probs: NDArray[np.float64] = counts.reshape(num_public, num_classes).astype(np.float64)
    named = probs.any(axis=0) if voted.any() else np.ones(num_classes, dtype=bool)
    probs[~voted] = named
    probs /= probs.sum(axis=1, keepdims=True)

    tiny = 1e-10
    previous = -np.inf
    for _ in range(max_iterations):
        # M: confusion[j, l, k] = P(party j says l | class k); prior[k], from rows that somebody voted on
        confusion = (onehot.T @ probs).reshape(num_parties, num_classes, num_classes)
        confusion = np.maximum(confusion, tiny)
        confusion /= confusion.sum(axis=1, keepdims=True)
        if class_prior == "estimated":
            prior = np.maximum(probs[voted].mean(axis=0) if voted.any() else probs.mean(axis=0), tiny)
            prior /= prior.sum()
        else:
            prior = np.full(num_classes, 1.0 / num_classes)
        # E: posterior of every row
        log_joint = onehot @ np.log(confusion).reshape(-1, num_classes) + np.log(prior)
        log_joint[:, ~named] = -np.inf
        top = log_joint.max(axis=1, keepdims=True)
        probs = np.exp(log_joint - top)
        total = probs.sum(axis=1, keepdims=True)
        probs /= total
        likelihood = float((np.log(total) + top).mean())
        if not likelihood - previous > tolerance:
            break
        previous = likelihood
    consensus: Labels = probs.argmax(axis=1).astype(np.int16)
    consensus[~voted] = ABSTAIN
    return consensus, probs


@dataclass(frozen=True)
class DawidSkene(ConsensusRule):
    """The most probable class of each row where it is probable enough (``least``); other rows wait."""

    name: ClassVar[str] = "dawid-skene"
    abstains: ClassVar[bool] = True
    reads_labels: ClassVar[bool] = True
    least: float = 0.9999

    def combine(self, ballot: Ballot, *, config: Any, rng: np.random.Generator) -> Consensus:
        """Return the classes that the labels of the parties that count make most probable.

        It learns each party's errors, also a liar's: leaving out whom nobody confirms would only lose what that tells.
        """
        counted = [arrays[0] for arrays, counts in zip(ballot.labels, ballot.counted, strict=True) if counts]
        labels, probs = dawid_skene(  # five steps with equal classes: to its end it fits the votes' mistakes
            counted or [arrays[0] for arrays in ballot.labels],
            num_classes=ballot.votes.shape[1],
            max_iterations=5,
            tolerance=0.0,
            class_prior="uniform",
        )
        sure = (labels != ABSTAIN) & (probs.max(axis=1) >= self.least)
        # probabilities that are equal up to rounding are a tie like any other
        picked = majority(np.round(probs, 9), ties=config.ties, rng=rng)
        return Consensus(np.where(sure, picked, ABSTAIN).astype(np.int16))

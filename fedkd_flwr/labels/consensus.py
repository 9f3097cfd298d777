"""From votes to the consensus: majority, qualified majority, Dawid-Skene.

Ties are broken by a named policy, never by a silent argmax (which favours low class indices).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.errors import ConfigError, DataError, explain
from fedkd_flwr.labels.voting import ABSTAIN, Labels

__all__ = ["Ties", "agreement", "dawid_skene", "majority", "qualified_majority", "reaches"]

Ties = Literal["random", "lowest"]


def majority(votes: NDArray[Any], *, ties: Ties = "random", rng: np.random.Generator | None = None) -> Labels:
    """Return the class with most votes for each row; rows without votes stay unlabelled.

    Parameters
    ----------
    votes : ndarray of shape (num_public, num_classes)
        Vote counts, or any scores >= 0 (a row of zeros has no votes).
    ties : {"random", "lowest"}
        Break ties at random with ``rng``, or by the lowest class index (as published codes do).
    rng : numpy.random.Generator
        Needed for random ties.

    Returns
    -------
    ndarray of shape (num_public,), int16
        Consensus labels, ``ABSTAIN`` where a row has no votes.

    Examples
    --------
    >>> majority(np.array([[2, 1], [0, 3], [0, 0], [1, 1]]), ties="lowest").tolist()
    [0, 1, -1, 0]
    """
    top = votes.max(axis=1)
    labels: Labels = votes.argmax(axis=1).astype(np.int16)
    if ties == "random":
        if rng is None:
            raise ConfigError(explain("rng", "be a numpy Generator for random ties", rng, 'Or use ties="lowest".'))
        is_top = votes == top[:, None]
        tied = np.flatnonzero(is_top.sum(axis=1) > 1)
        # among tied classes the one with the largest uniform draw wins: each is equally likely
        draws = rng.random((tied.size, votes.shape[1]))
        labels[tied] = np.where(is_top[tied], draws, -1.0).argmax(axis=1)
    elif ties != "lowest":
        raise ConfigError(explain("ties", 'be "random" or "lowest"', ties))
    labels[top <= 0] = ABSTAIN
    return labels


def qualified_majority(
    votes: NDArray[Any],
    *,
    quorum: float,
    num_voters: int,
    ties: Ties = "random",
    rng: np.random.Generator | None = None,
) -> Labels:
    """Return the majority label where it has at least ``ceil(quorum * num_voters)`` votes (FedCT (QM)).

    Parameters
    ----------
    votes : ndarray of shape (num_public, num_classes)
        Vote counts.
    quorum : float
        Share of the parties with a valid reply that must agree, within [0, 1]. 0 is plain majority; a row
        without votes stays unlabelled also then.
    num_voters : int
        Parties with a valid reply.
    ties, rng
        As in `majority`.

    Returns
    -------
    ndarray of shape (num_public,), int16
        Consensus labels, ``ABSTAIN`` where the quorum is missed: unlabelled this round.

    Examples
    --------
    >>> votes = np.array([[9, 1], [5, 5], [2, 8]])
    >>> qualified_majority(votes, quorum=0.9, num_voters=10, ties="lowest").tolist()
    [0, -1, -1]
    """
    labels = majority(votes, ties=ties, rng=rng)
    labels[~reaches(votes, quorum=quorum, num_voters=num_voters)] = ABSTAIN
    return labels


def reaches(votes: NDArray[Any], *, quorum: float, num_voters: int) -> NDArray[np.bool_]:
    """Tell of each row whether its first class has at least ``ceil(quorum * num_voters)`` votes; see there.

    >>> reaches(np.array([[9, 1], [5, 5]]), quorum=0.9, num_voters=10).tolist()
    [True, False]
    """
    if not 0.0 <= quorum <= 1.0:
        raise ConfigError(explain("quorum", "be within [0, 1]", quorum, "Use 0.9 for nine of ten parties."))
    # 0.9 * 10 is 9.000000000000002 in floats on some ways to compute it: do not ask for a tenth party
    enough: NDArray[np.bool_] = votes.max(axis=1) >= np.ceil(quorum * num_voters - 1e-9)
    return enough


def dawid_skene(
    labels: Sequence[Labels],
    *,
    num_classes: int,
    max_iterations: int = 100,
    tolerance: float = 1e-5,
    class_prior: Literal["estimated", "uniform"] = "estimated",
) -> tuple[Labels, NDArray[np.float64]]:
    """Return the consensus that explains all parties' labels best, each with its own confusion matrix.

    Expectation maximisation (Dawid and Skene, "Maximum Likelihood Estimation of Observer Error-Rates Using
    the EM Algorithm", Applied Statistics 28(1), 1979, section 3), started from the vote shares. It learns
    which party can tell which classes apart, so it helps under multi-class label skew and harms strongly
    imbalanced two-class votes. It needs every party's labels at once: memory O(num_parties * num_public).

    Parameters
    ----------
    labels : sequence of ndarray of shape (num_public,), int16
        One label array per party, ``ABSTAIN`` where it has no vote.
    num_classes : int
        Number of classes.
    max_iterations : int
        Upper limit on EM iterations.
    tolerance : float
        Stop when the mean log-likelihood of a row improves by less than this.
    class_prior : {"estimated", "uniform"}
        Shares of the classes among the rows: estimated with the rest, as published, or taken as equal. Under label
        skew the first votes miss whole classes, and an estimated prior never gives them back.

    Returns
    -------
    consensus : ndarray of shape (num_public,), int16
        Most probable class, ``ABSTAIN`` for rows without any vote.
    probs : ndarray of shape (num_public, num_classes), float64
        Posterior class probabilities; a row without votes holds the class prior. A class that nobody gave to any row
        has probability 0: with equal classes, nothing that parties say would speak against it.

    Examples
    --------
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


def agreement(labels: Labels, consensus: Labels) -> float:
    """Return the share of labelled rows on which ``labels`` give the consensus; NaN if no row is labelled.

    >>> agreement(np.array([0, 1, 1]), np.array([0, 1, -1]))
    1.0
    """
    labelled = consensus != ABSTAIN
    return float((labels[labelled] == consensus[labelled]).mean()) if labelled.any() else float("nan")

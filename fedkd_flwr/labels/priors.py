"""For which population a probability of a class is meant: from posteriors under some class shares to others.

A classifier that learnt from rows of which a share q_c has class c answers ``p(c | x) ∝ q_c f_c(x)``, where f_c is the
density of class c. Among rows of which a share s_c has the class, Bayes' rule gives ``p(c | x) s_c / q_c``, up to one
factor a row (Saerens, Latinne and Decaestecker, "Adjusting the Outputs of a Classifier to New a Priori Probabilities",
Neural Computation 2002, equation 2.4). This holds where a class looks the same in both populations, and only the shares
differ.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.errors import DataError, explain

__all__ = ["PSEUDO_COUNT", "class_shares", "posteriors"]

PSEUDO_COUNT = 1.0
"""Rows of each class that are counted beside the rows seen, so that a class without rows is rare and not impossible."""


def class_shares(counts: NDArray[Any], *, pseudo_count: float = PSEUDO_COUNT) -> NDArray[np.float64]:
    """Return the share of each class among the rows of a population of which so many were seen.

    ``counts``, (num_classes,), are 0 or more and finite. Raises `DataError` if they are not, or nothing is counted.
    """
    counted = np.asarray(counts, dtype=np.float64) + pseudo_count
    if not (counted.ndim == 1 and (counted >= 0).all() and 0 < counted.sum() < np.inf):
        raise DataError(explain("class shares", "be finite, 0 or more, and not all 0", np.asarray(counts).tolist()))
    return np.asarray(counted / counted.sum())


def posteriors(
    probs: NDArray[np.floating], *, taught: NDArray[np.floating], shares: NDArray[np.floating]
) -> NDArray[np.float64]:
    """Return probabilities for a population with these class shares, from those of a model taught with others.

    ``probs``, (num_rows, num_classes), are the model's; ``taught`` and ``shares``, (num_classes,), the share of each
    class in what it learnt from and in the population that is asked about. A row whose probabilities all lie on classes
    with share 0 gets the shares themselves. Raises `DataError` if the lengths differ, or a class that has a share was
    never taught.

    A model that learnt from as many ill as well people; one in ten is ill where it answers:

    >>> even, rare = np.array([0.5, 0.5]), np.array([0.9, 0.1])
    >>> posteriors(np.array([[0.5, 0.5], [0.1, 0.9]]), taught=even, shares=rare).round(2).tolist()
    [[0.9, 0.1], [0.5, 0.5]]
    """
    num_classes = probs.shape[1]
    if not taught.shape == shares.shape == (num_classes,):
        raise DataError(explain("class shares", f"be of {num_classes} classes", f"{taught.shape} and {shares.shape}"))
    if not (taught[shares > 0] > 0).all():
        raise DataError(explain("taught shares", "be > 0 for every class with a share", taught.tolist()))
    moved = probs * np.divide(shares, taught, out=np.zeros(num_classes), where=taught > 0)
    totals = moved.sum(axis=1, keepdims=True)
    return np.asarray(np.where(totals > 0, moved / np.where(totals > 0, totals, 1.0), shares))

"""Density-ratio votes: each party says how much a public row looks like its rows of a class, and not only which class.

Under label skew most votes on a row come from parties that never saw its class. A party cannot know that, but it can
tell its own rows from the public ones. So it fits its kind of model on its rows (classes 0..C-1) and on the public rows
(class C, "other"), each side with the same total weight, and scores every public row by a model that did not see it.
Then ``P(c | x) / P(other | x) / share of c`` estimates how much denser the party's class c is at x than the public rows
are. These ratios, weighed by class counts, add up over parties to the density of a class among all private rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.errors import DataError, explain
from fedkd_flwr.labels.voting import ABSTAIN, Labels

__all__ = [
    "OTHER_FLOOR",
    "RATIO_BITS",
    "check_counts",
    "density_ratios",
    "public_fit",
    "ratio_codes",
    "ratios_of",
    "steady_codes",
    "with_classes_of",
]

OTHER_FLOOR = 0.02
"""The least probability of "other": a model that is surer than this would multiply a row's ratios without bound."""

RATIO_BITS = 3
"""Of a code: 0 for about none, then seven steps of factors of 2."""

# Of its row's largest ratio, for two classes and for more: what is below is not sent. Of two classes the smaller one
# tells how sure a party is: 1/2 cost .01 of AUC (22 tables of other people, seed 31). Of more it takes bytes alone.
_LEAST_OF_TWO, _LEAST_OF_MORE = 0.125, 0.5


def density_ratios(probs: NDArray[np.floating], class_counts: NDArray[np.integer]) -> NDArray[np.float64]:
    """Return how many times denser each of a party's classes is at each public row than the public rows are.

    ``min(P(c | x) / max(P(other | x), 0.02) / pi_c, 2 C)``, where pi_c is the share of class c among the party's rows;
    0 for a class that the party does not hold. Float64 of shape (num_public, num_classes). ``probs``, (num_public,
    num_classes + 1), are of models that did not see the row they score; the last column is the class "other".
    ``class_counts`` are the party's rows of each class. Raises `DataError` if the shapes do not fit, a probability is
    not within [0, 1], or the party has no row.

    >>> probs = np.array([[0.6, 0.0, 0.4], [0.1, 0.0, 0.9], [0.0, 1.0, 0.0]])
    >>> density_ratios(probs, np.array([3, 1])).round(2).tolist()
    [[2.0, 0.0], [0.15, 0.0], [0.0, 4.0]]
    """
    counts = check_counts(class_counts, len(class_counts))
    num_classes = len(counts)
    probs = np.asarray(probs, dtype=np.float64)
    if probs.ndim != 2 or probs.shape[1] != num_classes + 1:
        raise DataError(explain("probs", f"have {num_classes} + 1 columns", f"shape {probs.shape}"))
    if not ((probs >= 0) & (probs <= 1 + 1e-6)).all():
        raise DataError(explain("probs", "lie within [0, 1]", "a value outside, or NaN"))
    if not counts.sum() >= 1:
        raise DataError(explain("class_counts", "add up to 1 row or more", 0))
    shares = counts / counts.sum()
    ratios = np.zeros((len(probs), num_classes))
    held = counts > 0
    ratios[:, held] = probs[:, :-1][:, held] / np.maximum(probs[:, -1:], OTHER_FLOOR) / shares[held]
    return np.minimum(ratios, 2.0 * num_classes)


def with_classes_of(
    probs: NDArray[np.floating],
    own_probs: NDArray[np.floating],
    class_counts: NDArray[np.integer],
    taught: Labels | None = None,
) -> NDArray[np.float64]:
    """Return what "other" gets in ``probs``, and the rest among the classes as the party's own model divides it.

    A net that tells own rows from public ones has taken few steps on own rows; the party's own net knows its classes
    better. Where that one also learnt labels of public rows, as in FedCT (half of each minibatch), its classes have the
    shares m = (pi + rho) / 2, with pi those of the own rows and rho those of these labels. Its probabilities are
    brought back to pi: ``q_c pi_c / m_c``, scaled to a sum of 1. So a class that the party does not hold gets nothing,
    and what looks like one is shared among the others as little as they look like it.

    ``probs`` and ``class_counts`` are as in `density_ratios`; ``own_probs``, (num_public, num_classes), are the own
    model's; ``taught``, (num_public,), the labels that it learnt besides.

    >>> probs, own = np.array([[0.1, 0.4, 0.5]]), np.array([[0.6, 0.4]])
    >>> with_classes_of(probs, own, np.array([5, 5])).round(2).tolist()
    [[0.3, 0.2, 0.5]]
    >>> with_classes_of(probs, own, np.array([9, 1]), taught=np.array([0, 1, 1, 1])).round(2).tolist()
    [[0.45, 0.05, 0.5]]
    """
    shares = class_counts / max(int(class_counts.sum()), 1)
    learnt = shares
    if taught is not None and (known := taught[taught != ABSTAIN]).size:
        learnt = (shares + np.bincount(known, minlength=len(shares)) / known.size) / 2
    divided = np.asarray(own_probs, dtype=np.float64) * (shares / np.maximum(learnt, 1e-12))
    divided /= np.maximum(divided.sum(axis=1, keepdims=True), 1e-12)
    other = np.asarray(probs, dtype=np.float64)[:, -1:]
    return np.hstack((divided * (1.0 - other), other))


def ratio_codes(ratios: NDArray[np.floating]) -> NDArray[np.uint8]:
    """Return ratios of `density_ratios` as codes: 0 for about none, then equal steps of the logarithm up to ``2 C``.

    A ratio gets the code of `RATIO_BITS` bits, uint8, whose value is nearest on the logarithmic scale. Ratios far below
    the largest of their row become 0: below an eighth of two classes, below half of more.

    >>> ratio_codes(np.array([[6.0, 2.9, 0.0], [1.0, 0.6, 0.4], [0.0, 0.01, 0.0]])).tolist()
    [[7, 0, 0], [4, 4, 0], [0, 0, 0]]
    """
    num_classes = ratios.shape[1]
    least = _LEAST_OF_TWO if num_classes == 2 else _LEAST_OF_MORE
    kept = np.where(ratios >= least * ratios.max(axis=1, keepdims=True), ratios, 0.0)
    # the border between two codes is their geometric mean, and the least value has a border of its own
    return np.searchsorted(_levels(num_classes)[1:] / np.sqrt(2.0), kept, side="right").astype(np.uint8)


def ratios_of(codes: NDArray[np.integer]) -> NDArray[np.float64]:
    """Return the ratios that codes (num_public, num_classes) stand for; raise `DataError` if one is no code."""
    codes = np.asarray(codes)
    values = _levels(codes.shape[1])
    if codes.size and not (codes.min() >= 0 and codes.max() < len(values)):
        wrong = int(codes.min()) if codes.min() < 0 else int(codes.max())
        raise DataError(explain("codes", f"lie within 0..{len(values) - 1}", wrong))
    return np.asarray(values[codes])


def _levels(num_classes: int) -> NDArray[np.float64]:
    return np.concatenate([[0.0], 2.0 * num_classes * 2.0 ** -np.arange(2**RATIO_BITS - 2, -1, -1)])


def steady_codes(codes: NDArray[np.uint8], base: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return codes that keep a row of the last round's where it says about the same, so that it need not be sent.

    A row is kept where the same class has the largest code, and that moved by at most one step: models that are fitted
    anew differ by so much from one seed to the next. ``base`` are the codes that the receiver holds.
    """
    step = np.abs(codes.max(axis=1).astype(np.int16) - base.max(axis=1))
    about_the_same = (step <= 1) & (codes.argmax(axis=1) == base.argmax(axis=1))
    return np.where(about_the_same[:, None], base, codes)


def public_fit(ratios: NDArray[np.floating], class_counts: NDArray[np.integer]) -> float:
    """Return how much of a party's data the public rows show it: about 0 for rows from elsewhere, at most 1.

    A density ratio is 1 on average over the public rows if those come from the mixture that holds the class. So this is
    the mean ratio of each class, at most 1, weighed by the class's share of the party's rows. Forests, which are never
    sure, give about 0.5 for fitting rows. A party with few rows gets a low figure too: it can tell little.
    """
    counts = check_counts(class_counts, ratios.shape[1])
    found = np.minimum(np.asarray(ratios, dtype=np.float64).mean(axis=0), 1.0)
    return float(found @ counts / max(counts.sum(), 1))


def check_counts(class_counts: NDArray[Any], num_classes: int) -> NDArray[np.int64]:
    """Return a party's rows of each class as int64, or raise `DataError`."""
    counts = np.asarray(class_counts)
    if counts.shape != (num_classes,) or counts.dtype.kind not in "iu" or (counts < 0).any():
        rule = f"be {num_classes} whole numbers >= 0"
        raise DataError(explain("class_counts", rule, f"dtype {counts.dtype}, shape {counts.shape}"))
    return counts.astype(np.int64)

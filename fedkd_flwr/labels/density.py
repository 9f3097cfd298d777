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

from fedkd_flwr.checks import check_whole
from fedkd_flwr.errors import DataError, explain
from fedkd_flwr.labels.voting import ABSTAIN, Labels

__all__ = ["OTHER_FLOOR", "DensityVote", "density_ratios", "ratio_codes", "ratios_of"]

OTHER_FLOOR = 0.02
"""The least probability of "other": a model that is surer than this would multiply a row's ratios without bound."""

_OCTAVES_PER_CODE = {3: 1.0, 4: 0.5}
_NOBODYS = 0.02


def density_ratios(probs: NDArray[np.floating], class_counts: NDArray[np.integer]) -> NDArray[np.float64]:
    """Return how many times denser each of a party's classes is at each public row than the public rows are.

    ``min(P(c | x) / max(P(other | x), 0.02) / pi_c, 2 C)``, where pi_c is the share of class c among the party's rows;
    0 for a class that the party does not hold.

    Parameters
    ----------
    probs : ndarray of shape (num_public, num_classes + 1)
        Probabilities from models that did not see the row they score; the last column is the class "other".
    class_counts : ndarray of shape (num_classes,), int
        The party's rows of each class.

    Returns
    -------
    ndarray of shape (num_public, num_classes), float64
        Within [0, 2 C].

    Raises
    ------
    DataError
        If the shapes do not fit, a probability is not within [0, 1], or the party has no row.

    Examples
    --------
    >>> probs = np.array([[0.6, 0.0, 0.4], [0.1, 0.0, 0.9], [0.0, 1.0, 0.0]])
    >>> density_ratios(probs, np.array([3, 1])).round(2).tolist()
    [[2.0, 0.0], [0.15, 0.0], [0.0, 4.0]]
    """
    counts = _check_counts(class_counts, len(class_counts))
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


def ratio_codes(ratios: NDArray[np.floating], *, num_classes: int, bits: int) -> NDArray[np.uint8]:
    """Return ratios as codes of 3 or 4 bits: 0 for about none, then steps of the logarithm up to ``2 C``.

    Three bits step by factors of 2, four bits by factors of the square root of 2. A ratio gets the code whose value is
    nearest on the logarithmic scale; code 0 is what lies a step or more below the least value.

    Examples
    --------
    >>> ratio_codes(np.array([[0.0, 0.06, 1.0, 2.9, 4.0]]), num_classes=2, bits=3).tolist()
    [[0, 1, 5, 7, 7]]
    """
    values = _levels(num_classes, bits)
    # the border between two codes is their geometric mean; one more step lies below the least value
    borders = values[1:] * 2.0 ** (-_OCTAVES_PER_CODE[bits] / 2)
    codes: NDArray[np.uint8] = np.searchsorted(borders, ratios, side="right").astype(np.uint8)
    return codes


def ratios_of(codes: NDArray[np.integer], *, num_classes: int, bits: int) -> NDArray[np.float64]:
    """Return the ratios that codes stand for; a code out of range is refused.

    >>> ratios_of(np.array([[0, 1, 5, 7]], np.uint8), num_classes=2, bits=3).tolist()
    [[0.0, 0.0625, 1.0, 4.0]]
    """
    values = _levels(num_classes, bits)
    codes = np.asarray(codes)
    if codes.size and not (codes.min() >= 0 and codes.max() < len(values)):
        raise DataError(explain("codes", f"lie within 0..{len(values) - 1}", int(codes.max())))
    ratios: NDArray[np.float64] = values[codes]
    return ratios


def _levels(num_classes: int, bits: int) -> NDArray[np.float64]:
    check_whole("num_classes", num_classes, 2)
    check_whole("bits", bits, min(_OCTAVES_PER_CODE), max(_OCTAVES_PER_CODE))
    below_top = np.arange(2**bits - 2, -1, -1) * _OCTAVES_PER_CODE[bits]
    return np.concatenate([[0.0], 2.0 * num_classes * 2.0**-below_top])


class DensityVote:
    """Adds up the ratios of one party after the other; memory O(num_public * num_classes).

    Parameters
    ----------
    num_public : int
        Number of public rows.
    num_classes : int
        Number of classes.

    Examples
    --------
    The first party holds class 0 alone and knows the first row; the second holds class 1 and knows the second row.
    Nobody knows the third:

    >>> vote = DensityVote(num_public=3, num_classes=2)
    >>> vote.add(np.array([[4.0, 0.0], [0.0, 0.0], [0.0, 0.0]]), np.array([30, 0]))
    >>> vote.add(np.array([[0.0, 0.0], [0.0, 2.0], [0.0, 0.0]]), np.array([0, 10]))
    >>> labels, confidence = vote.consensus()
    >>> labels.tolist(), confidence.tolist()
    ([0, 1, -1], [1.0, 1.0, 0.0])
    """

    def __init__(self, *, num_public: int, num_classes: int) -> None:
        check_whole("num_public", num_public, 1, error=DataError)
        check_whole("num_classes", num_classes, 2, error=DataError)
        self._sums = np.zeros((num_public, num_classes))
        self._counts = np.zeros(num_classes)
        self.num_voters = 0

    def add(self, ratios: NDArray[np.floating], class_counts: NDArray[np.integer]) -> None:
        """Add one party's ratios (num_public, num_classes) with its class counts (num_classes,)."""
        counts = _check_counts(class_counts, self._sums.shape[1])
        ratios = np.asarray(ratios, dtype=np.float64)
        if ratios.shape != self._sums.shape:
            raise DataError(explain("ratios", f"have shape {self._sums.shape}", f"shape {ratios.shape}"))
        if not ((ratios >= 0) & (ratios <= 2.0 * len(counts))).all():
            raise DataError(explain("ratios", f"lie within 0..{2 * len(counts)}", "a value outside, or NaN"))
        self._sums += counts * ratios
        self._counts += counts
        self.num_voters += 1

    def densities(self) -> NDArray[np.float64]:
        """Return ``pi_c S_c``: each class's share among all private rows times its density ratio at each row.

        Returns
        -------
        ndarray of shape (num_public, num_classes), float64
            A row's sum is about 1 where the public rows resemble the private ones.
        """
        # S_c = sums_c / counts_c and pi_c = counts_c / counts, so the class's own count cancels
        return self._sums / max(self._counts.sum(), 1.0)

    def consensus(self) -> tuple[Labels, NDArray[np.float64]]:
        """Return the class of largest ``pi_c S_c`` of each row, and its share among all classes.

        Returns
        -------
        labels : ndarray of shape (num_public,), int16
            ``ABSTAIN`` where the densities of all classes are near 0: the row looks like nobody's data.
        confidence : ndarray of shape (num_public,), float64
            Within [0, 1]; 0 where there is no label.
        """
        densities = self.densities()
        total = densities.sum(axis=1)
        labels: Labels = densities.argmax(axis=1).astype(np.int16)
        labelled = total > _NOBODYS
        labels[~labelled] = ABSTAIN
        confidence = np.zeros(len(labels))
        confidence[labelled] = densities.max(axis=1)[labelled] / total[labelled]
        return labels, confidence


def _check_counts(class_counts: NDArray[Any], num_classes: int) -> NDArray[np.int64]:
    counts = np.asarray(class_counts)
    if counts.shape != (num_classes,) or counts.dtype.kind not in "iu" or (counts < 0).any():
        rule = f"be {num_classes} whole numbers >= 0"
        raise DataError(explain("class_counts", rule, f"dtype {counts.dtype}, shape {counts.shape}"))
    return counts.astype(np.int64)

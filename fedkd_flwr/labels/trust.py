"""What a party's labels count by how far the others confirm them (`fedkd_flwr.labels.confirmed`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedkd_flwr.labels.confirmed import LEAST_VARIANCE, LEAST_VOTERS, Said, can_tell, confirmed, trusts
from fedkd_flwr.labels.voting import ABSTAIN, Labels, is_informative

__all__ = [
    "DOUBTED",
    "MOST_DOUBTED",
    "NEARLY_ALL",
    "TRUST_UNIT",
    "label_trusts",
    "nearly_alike",
    "steadied_weights",
    "trusted_weights",
]

TRUST_UNIT = 100
"""Votes that trust weighs are counted in hundredths: whole numbers keep ties exact."""

DOUBTED, MOST_DOUBTED = 0.25, 1 / 3
"""Who counts less than this much of a vote is doubted. Where that is more than this share of the parties, they know too
few classes to judge each other (on 50 uneven parties of Adult it was half, all honest)."""

NEARLY_ALL = 0.94
"""Of a party's votes: who gives one class so many gives it nearly all rows."""

_MOST_ALIKE = 0.1  # of the others' votes: what all parties that label every row alike may cast together
_MOST_NEARLY_ALIKE = 0.5  # of the others' votes: what such parties may cast together where trust cannot tell
_LEAST_ROWS = 30  # of fewer public rows any correlation may be chance


def label_trusts(answers: Sequence[Labels], *, num_classes: int) -> NDArray[np.float64] | None:
    """Return what each party's labels count, 0 to 1; None where agreement cannot tell who is wrong.

    It cannot with fewer than three parties or thirty rows, nor where fewer than half of the parties are confirmed, nor
    where more than a third would count less than a quarter (those that label all rows alike among them): under extreme
    label skew most honest parties give nearly all rows one class, and then a liar looks like them.

    ``answers`` are each party's labels, (num_public,) or (num_arrays, num_public); several arrays count as shares of
    one vote.
    """
    num_public = answers[0].shape[-1]
    if len(answers) < LEAST_VOTERS or num_public < _LEAST_ROWS:
        return None
    said = [_said(labels, num_classes) for labels in answers]
    found = confirmed(said, num_public=num_public, weights=np.ones(len(said)), least_variance=LEAST_VARIANCE)
    if not can_tell(found):
        return None
    # a party that labels every row alike has a rule of its own (`voter_weights`), and is no yardstick
    alike = np.array([not is_informative(labels) for labels in answers])
    counted = np.zeros(len(answers))
    counted[~alike] = trusts(found[~alike])
    return None if (counted < DOUBTED).mean() > MOST_DOUBTED else counted


def trusted_weights(weights: Sequence[int], trust: NDArray[np.float64], alike: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return what each party's votes count, in hundredths of ``weights``, which `voter_weights` gives.

    Parties that label every row alike shift all rows by the same amount, so their number must not decide: together they
    cast at most a tenth of what the others cast.
    """
    base = np.asarray(weights, dtype=np.float64) * TRUST_UNIT
    counted = np.where(alike, 0.0, base * trust)
    idle = np.where(alike, base, 0.0)
    idle *= min(1.0, _MOST_ALIKE * counted.sum() / max(idle.sum(), 1e-12))
    return np.asarray(np.rint(counted + idle), dtype=np.int64)


def nearly_alike(labels: Labels) -> bool:
    """Tell whether a party gives nearly all rows one class: at least 94 % of its votes."""
    cast = labels[labels != ABSTAIN]
    return not cast.size or bool(np.bincount(cast).max() >= NEARLY_ALL * cast.size)


def steadied_weights(weights: Sequence[int], answers: Sequence[Labels]) -> NDArray[np.int64] | None:
    """Return what votes count where `label_trusts` cannot tell who is wrong, in hundredths; None: as ``weights`` says.

    A party that gives nearly all rows one class moves nearly all rows by the same amount, whether it lies or has few
    rows of the others. Together such parties cast at most half of what the others cast: they decide where the others
    differ, and cannot outvote them where they agree. That needs three others, and thirty rows.
    """
    nearly = np.array([nearly_alike(labels) for labels in answers])
    units = np.asarray(weights, dtype=np.float64) * TRUST_UNIT
    most = _MOST_NEARLY_ALIKE * units[~nearly].sum()
    if answers[0].shape[-1] < _LEAST_ROWS or (~nearly).sum() < LEAST_VOTERS or units[nearly].sum() <= most:
        return None
    units[nearly] *= most / units[nearly].sum()
    return np.asarray(np.rint(units), dtype=np.int64)


def _said(labels: Labels, num_classes: int) -> Said:
    arrays = np.atleast_2d(labels)
    rows = np.broadcast_to(np.arange(arrays.shape[1]), arrays.shape)[arrays != ABSTAIN]
    cast = arrays[arrays != ABSTAIN].astype(np.int64)
    places, counts = np.unique(rows * num_classes + cast, return_counts=True)
    values = counts / len(arrays)
    mass = np.bincount(places % num_classes, weights=values, minlength=num_classes)
    # fully from an equal share of its labels on
    return Said(places, values, np.minimum(num_classes * mass / max(mass.sum(), 1e-12), 1.0))

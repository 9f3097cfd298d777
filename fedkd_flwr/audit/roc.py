"""How well scores tell members from fresh rows: AUC, and the share of members found at few false alarms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fedkd_flwr.errors import DataError, explain
from fedkd_flwr.record.audit import Measured

__all__ = ["attack_auc", "detection_rate"]

Scores = NDArray[np.floating[Any]]


def _checked(name: str, scores: Scores) -> NDArray[np.float64]:
    values = np.asarray(scores, dtype=np.float64)
    if not (values.ndim == 1 and len(values) >= 2 and np.isfinite(values).all()):
        raise DataError(explain(f"scores of {name}", "be two or more finite numbers", f"shape {values.shape}"))
    return values


def attack_auc(members: Scores, fresh: Scores, *, confidence: float = 0.95) -> Measured:
    """Return the area under the ROC curve with DeLong's interval.

    DeLong, DeLong and Clarke-Pearson (Biometrics 1988), by midranks as Sun and Xu (IEEE SPL 2014). The interval takes
    rows for independent. Where members and fresh rows are apart completely it has no width. ``members``, (n,), and
    ``fresh``, (m,), are two or more finite scores each, else `DataError` is raised; a member's should be the larger.

    >>> attack_auc(np.array([3.0, 2.0, 1.5]), np.array([1.0, 2.0, 0.0])).value.__round__(3)
    0.833
    """
    positive, negative = _checked("members", members), _checked("fresh rows", fresh)
    n, m = len(positive), len(negative)
    ranks = stats.rankdata(np.concatenate([positive, negative]))
    beaten = (ranks[:n] - stats.rankdata(positive)) / m  # share of fresh rows below each member
    above = 1 - (ranks[n:] - stats.rankdata(negative)) / n  # share of members above each fresh row
    value = float(beaten.mean())
    width = float(stats.norm.ppf((1 + confidence) / 2)) * math.sqrt(beaten.var(ddof=1) / n + above.var(ddof=1) / m)
    return Measured(value=value, low=max(0.0, value - width), high=min(1.0, value + width))


def detection_rate(members: Scores, fresh: Scores, *, false_alarms: float, confidence: float = 0.95) -> Measured:
    """Return the share of members found (TPR) where at most ``false_alarms`` of the fresh rows (FPR) are taken for one.

    The interval is Clopper and Pearson's of the members' share above the threshold that the fresh rows set; that the
    threshold is an estimate too is not in it. With fewer than ``1 / false_alarms`` fresh rows no false alarm is
    allowed at all. Arguments and errors as in `attack_auc`.

    >>> found = detection_rate(np.array([3.0, 2.0, 1.0]), np.array([0.0, 2.5]), false_alarms=0.01)
    >>> found.value.__round__(3), found.high.__round__(3)
    (0.333, 0.906)
    """
    positive, negative = _checked("members", members), np.sort(_checked("fresh rows", fresh))
    allowed = math.floor(false_alarms * len(negative) + 1e-9)
    hits = int((positive > negative[len(negative) - allowed - 1]).sum())
    interval = stats.binomtest(hits, len(positive)).proportion_ci(confidence, method="exact")
    return Measured(value=hits / len(positive), low=float(interval.low), high=float(interval.high))

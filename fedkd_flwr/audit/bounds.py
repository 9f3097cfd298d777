"""What the scores and the guesses of an attack show: rows it tells apart, and the epsilon that it proves.

Epsilons are lower bounds. A claim of (epsilon, delta) is refuted, at the confidence asked for, where the lower bound is
above it. A bound below it shows nothing: another attacker may do better.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import brentq

from fedkd_flwr.checks import check_number, check_whole
from fedkd_flwr.errors import DataError, explain
from fedkd_flwr.record.audit import Measured

__all__ = ["attack_auc", "detection_rate", "one_run_epsilon"]

_MOST = 50.0  # no number of guesses that a computer makes proves more


def one_run_epsilon(
    correct: int, guesses: int, canaries: int, *, delta: float = 0.0, confidence: float = 0.95
) -> float:
    """Return the epsilon that guesses about many coins of one run prove.

    Steinke, Nasr and Jagielski, "Privacy auditing with one (1) training run" (NeurIPS 2023), Theorem 5.2: each of m
    canaries is put in or not (or one of two is) by a fair coin of its own; whoever sees what was sent guesses r of
    them, by any rule, and abstains on the rest. If the run is (epsilon, delta)-DP for each canary, then Pr[v or more
    are right] is at most ``beta + 2 m delta alpha``, with beta that of Binomial(r, e^epsilon / (e^epsilon + 1)).

    ``correct``, ``guesses`` and ``canaries`` are v <= r <= m; the number of guesses must not be chosen by whether they
    were right. ``delta`` is the claim's: with ``2 canaries delta`` near 1 nothing is proven.
    ``confidence`` is one-sided. The result is 0 where nothing is proven, and at most 50. Raises `ConfigError`.

    >>> round(one_run_epsilon(90, 100, 100), 2), one_run_epsilon(55, 100, 100)
    (1.63, 0.0)
    >>> round(one_run_epsilon(90, 100, 1000, delta=1e-5), 2)
    1.63
    """
    check_whole("canaries", canaries, 1)
    check_whole("guesses", guesses, 0, canaries)
    check_whole("correct", correct, 0, guesses)
    check_number("delta", delta, least=0, below=1)
    check_number("confidence", confidence, above=0, below=1)

    def chance(epsilon: float) -> float:
        """Return the largest probability of so many right guesses."""
        right = 1 / (1 + math.exp(-epsilon))
        tail = float(stats.binom.sf(correct - 1, guesses, right))
        if delta == 0 or not correct:
            return tail
        below, alpha = 0.0, 0.0
        for short, mass in enumerate(stats.binom.pmf(range(correct - 1, -1, -1), guesses, right), start=1):
            below += float(mass)
            alpha = max(alpha, below / short)
        return tail + 2 * canaries * delta * alpha

    return _largest_refuted(chance, 1 - confidence)


def _largest_refuted(chance: Callable[[float], float], level: float) -> float:
    """Return an epsilon at which what was seen is as probable as ``level``; 0 if it is more probable already there.

    Whoever refutes one epsilon refutes each that is smaller, so any such epsilon is a bound.
    """
    if chance(0.0) >= level:
        return 0.0
    if chance(_MOST) < level:
        return _MOST
    return float(brentq(lambda epsilon: chance(epsilon) - level, 0.0, _MOST, xtol=1e-9))


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

"""Lower bounds of epsilon that an attacker's right guesses prove.

A claim of (epsilon, delta) is refuted, at the confidence asked for, where the lower bound is above it. A bound below
it shows nothing: another attacker may do better.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy import stats
from scipy.optimize import brentq

from fedkd_flwr.checks import check_number, check_whole

__all__ = ["one_run_epsilon"]

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

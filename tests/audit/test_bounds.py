"""Lower bounds of epsilon: never above the truth more often than they say, and near it with enough guesses."""

import math

import pytest
from scipy import stats

from fedkd_flwr.audit.bounds import one_run_epsilon
from fedkd_flwr.errors import ConfigError


def _published_p_value(m, r, v, eps, delta):
    """Algorithm of Steinke, Nasr and Jagielski (NeurIPS 2023), appendix D, as printed."""
    q = 1 / (1 + math.exp(-eps))
    beta = stats.binom.sf(v - 1, r, q)
    alpha = total = 0.0
    for i in range(1, v + 1):
        total += stats.binom.pmf(v - i, r, q)
        alpha = max(alpha, total / i)
    return min(beta + alpha * delta * 2 * m, 1)


@pytest.mark.parametrize(("m", "r", "v", "delta"), [(1000, 100, 90, 1e-5), (50, 50, 45, 0.0), (500, 200, 150, 1e-4)])
def test_the_bound_is_where_the_published_p_value_reaches_five_percent(m, r, v, delta):
    found = one_run_epsilon(v, r, m, delta=delta)
    assert _published_p_value(m, r, v, found, delta) == pytest.approx(0.05, abs=1e-6)


@pytest.mark.parametrize(("correct", "guesses"), [(0, 0), (0, 10), (5, 10), (4, 4)])
def test_few_or_wrong_guesses_prove_nothing(correct, guesses):
    assert one_run_epsilon(correct, guesses, 10) == 0


def test_a_delta_that_exposes_a_canary_proves_nothing_in_one_run():
    assert one_run_epsilon(100, 100, 100, delta=0.1) == 0
    assert one_run_epsilon(100, 100, 100) > 3


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: one_run_epsilon(3, 2, 10), "correct must be a whole number within 0..2"),
        (lambda: one_run_epsilon(1, 11, 10), "guesses must be a whole number within 0..10"),
        (lambda: one_run_epsilon(1, 2, 10, delta=1.0), "delta must be"),
        (lambda: one_run_epsilon(1, 2, 10, confidence=1.0), "confidence must be"),
    ],
)
def test_impossible_numbers_are_refused(call, match):
    with pytest.raises(ConfigError, match=match):
        call()

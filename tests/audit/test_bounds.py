"""ROC figures: the library's values, intervals that hold, and few false alarms counted as asked.

Lower bounds of epsilon: never above the truth more often than they say, and near it with enough guesses.
"""

import math

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score, roc_curve

from fedkd_flwr.audit.bounds import attack_auc, detection_rate, one_run_epsilon
from fedkd_flwr.errors import ConfigError, DataError
from fedkd_flwr.record.audit import Measured


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


def _scores(n, m, seed, apart=0.7, digits=None):
    rng = np.random.default_rng(seed)
    members, fresh = rng.normal(apart, 1, n), rng.normal(size=m)
    return (members, fresh) if digits is None else (members.round(digits), fresh.round(digits))


@pytest.mark.parametrize("digits", [None, 0])
def test_auc_is_scikit_learn_s_also_with_ties(digits):
    members, fresh = _scores(50, 80, 1, digits=digits)
    expected = roc_auc_score(np.r_[np.ones(50), np.zeros(80)], np.r_[members, fresh])
    assert attack_auc(members, fresh).value == pytest.approx(expected, abs=1e-12)


def test_delong_s_variance_is_that_of_the_definition():
    members, fresh = _scores(7, 5, 3)
    wins = (members[:, None] > fresh).astype(float)
    variance = wins.mean(1).var(ddof=1) / 7 + wins.mean(0).var(ddof=1) / 5
    found = attack_auc(members, fresh)
    assert found.value == pytest.approx(wins.mean())
    assert min(1.0, found.value + 1.959964 * np.sqrt(variance)) == pytest.approx(found.high)


def test_members_found_at_few_false_alarms_are_those_of_the_curve():
    members, fresh = _scores(3000, 2000, 5, apart=2.0)
    labels = np.r_[np.ones(3000), np.zeros(2000)]
    fpr, tpr, _ = roc_curve(labels, np.r_[members, fresh], drop_intermediate=False)
    for share in (0.01, 0.001):
        assert detection_rate(members, fresh, false_alarms=share).value == tpr[fpr <= share].max()


def test_too_few_fresh_rows_allow_no_false_alarm():
    members, fresh = np.array([0.5, 2.0, 3.0]), np.array([1.0, 0.0])
    found = detection_rate(members, fresh, false_alarms=0.001)
    assert found.value == pytest.approx(2 / 3)
    assert found.low < found.value < found.high


def test_equal_scores_find_nobody():
    same = np.zeros(10)
    assert attack_auc(same, same) == Measured(value=0.5, low=0.5, high=0.5)
    assert detection_rate(same, same, false_alarms=0.01).value == 0


@pytest.mark.parametrize("bad", [np.array([1.0]), np.array([1.0, np.nan]), np.zeros((2, 2))])
def test_scores_that_are_none_are_refused(bad):
    with pytest.raises(DataError, match="two or more finite numbers"):
        attack_auc(bad, np.zeros(3))

"""What a release of noisy counts claims: never below an exact computation, nor below what an attacker proves."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from fedkd_flwr.audit.bounds import repeated_epsilon
from fedkd_flwr.privacy.claims.noisy_sums import noisy_sums
from fedkd_flwr.privacy.noise.sums import NoisyCounts

DELTA = 1e-5


def tables(rows: np.ndarray, sizes: tuple[int, ...], classes: int) -> np.ndarray:
    """Count by loops: rows of (value of each column, class)."""
    found = np.zeros((sum(sizes), classes), dtype=np.int64)
    for *values, label in rows.tolist():
        at = 0
        for value, size in zip(values, sizes, strict=True):
            found[at + value, label] += 1
            at += size
    return found


@settings(max_examples=20)
@given(st.floats(0.5, 60.0), st.integers(1, 40), st.integers(1, 3))
def test_the_claim_is_never_below_an_exact_computation(sigma: float, columns: int, times: int):
    claim = noisy_sums(NoisyCounts(sigma=sigma, tables=columns), times=times, delta=DELTA)
    # what one record moves, in standard deviations, is all that two Gaussians differ by
    apart = math.sqrt(2 * columns * times) / sigma
    law = stats.norm(apart**2 / 2, apart)  # of the privacy loss

    def beyond(loss: float) -> float:
        return -math.expm1(claim.epsilon - loss) * law.pdf(loss)

    spread = law.std()
    exact, error = integrate.quad(beyond, claim.epsilon, max(claim.epsilon, law.mean()) + 40 * spread, limit=400,
                                  points=[claim.epsilon + 0.1 * spread, claim.epsilon + spread])  # fmt: skip
    assert exact <= DELTA * (1 + 1e-6) + error
    assert claim.epsilon == 0 or exact > 0.99 * DELTA - error
    assert claim.basis == "proven"


def test_the_released_counts_themselves_cost_no_more_than_claimed():
    """Of one column with two values: the exact law of the rounded counts, cell by cell, composed on a grid."""
    sigma, claim = 1.5, noisy_sums(NoisyCounts(sigma=1.5, tables=1), times=1, delta=0.01)
    k = np.arange(-40, 42)
    law = stats.norm.cdf(k + 0.5, scale=sigma) - stats.norm.cdf(k - 0.5, scale=sigma)
    here, there = law[:-1], law[1:]  # a cell, and the same cell with one record more
    one, other = np.multiply.outer(here, there), np.multiply.outer(there, here)  # one cell loses it, another gains it
    delta = np.maximum(one - math.exp(claim.epsilon) * other, 0).sum()
    assert 0.0 < delta <= 0.01


def test_an_attacker_with_two_neighbouring_tables_proves_no_more_than_the_claim_and_not_much_less():
    runs, sizes = 100_000, (2, 2, 2)
    canary, other = np.array([[0, 0, 0, 0]]), np.array([[1, 1, 1, 1]])
    rows = np.array([[0, 1, 0, 0], [1, 0, 1, 1]])
    with_canary, without = (tables(np.concatenate([rows, one]), sizes, 2) for one in (canary, other))
    mechanism = NoisyCounts(sigma=2.0, tables=len(sizes))
    claim = noisy_sums(mechanism, times=1, delta=DELTA)
    direction = (with_canary - without).ravel()

    def scores(counts: np.ndarray, seed: int) -> np.ndarray:
        many = np.tile(counts, (runs, 1))
        return mechanism.privatize(many, rng=np.random.default_rng(seed)).reshape(runs, -1) @ direction

    limit = (with_canary.ravel() + without.ravel()) @ direction / 2 + 8
    hits = [int((scores(counts, seed) > limit).sum()) for seed, counts in enumerate((with_canary, without))]
    found = repeated_epsilon(*hits, runs, delta=DELTA, confidence=0.999)
    assert 0.3 * claim.epsilon < found <= claim.epsilon
    # the same attacker refutes the claim of a mechanism that forgot that each column is a table of its own
    wrong = noisy_sums(NoisyCounts(sigma=4.0, tables=1), times=1, delta=DELTA)
    assert found > wrong.epsilon


def test_several_answers_of_a_party_compose():
    mechanism = NoisyCounts(sigma=20.0, tables=5)
    once, twice = (noisy_sums(mechanism, times=times, delta=DELTA) for times in (1, 2))
    assert once.epsilon < twice.epsilon < 2 * once.epsilon
    assert (once.unit, once.adversary) == ("record", "server")

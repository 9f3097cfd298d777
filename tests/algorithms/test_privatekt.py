"""What PrivateKT's server learns and draws: estimates, targets, entropy, draws by it."""

import itertools

import numpy as np
import pytest

from fedkd_flwr.algorithms.privatekt import PrivateKTConfig, draw_by_entropy, entropy, estimate, hard_targets
from fedkd_flwr.errors import ConfigError

PROBS = np.array([[1.0, 0.0, 0.0], [0.8, 0.1, 0.1], [1 / 3, 1 / 3, 1 / 3]])


def test_entropy_is_that_of_the_formula_and_finite_where_a_probability_is_zero():
    expected = [0.0, -(0.8 * np.log(0.8) + 0.2 * np.log(0.1)), np.log(3)]
    assert entropy(PROBS) == pytest.approx(expected)
    assert not np.signbit(entropy(PROBS)).any()  # no uncertainty is 0, not -0
    single = PROBS.astype(np.float32)
    assert entropy(single).tolist() == entropy(single.astype(np.float64)).tolist()
    assert entropy(single).dtype == np.float64


@pytest.mark.parametrize(("prefer", "sign"), [("uncertain", 1.0), ("certain", -1.0)])
def test_ordered_pairs_are_drawn_as_often_as_drawing_one_after_the_other_by_weight_says(prefer, sign):
    weights = np.exp(sign * entropy(PROBS))
    rng, draws = np.random.default_rng(5), 20_000
    drawn = [tuple(draw_by_entropy(PROBS, 2, prefer=prefer, rng=rng).tolist()) for _ in range(draws)]
    for first, second in itertools.permutations(range(3), 2):
        expected = weights[first] / weights.sum() * weights[second] / (weights.sum() - weights[first])
        error = np.sqrt(expected * (1 - expected) / draws)
        assert abs(drawn.count((first, second)) / draws - expected) < 4 * error


@pytest.mark.parametrize("count", [0, 4])
def test_an_impossible_draw_is_refused(count):
    with pytest.raises(ConfigError, match=rf"rows to draw must be within 1\.\.3 \(public rows\), got {count}"):
        draw_by_entropy(PROBS, count, prefer="certain", rng=np.random.default_rng(0))


def test_hard_targets_follow_the_tie_policy_also_where_estimates_are_negative():
    estimates = np.array([[-0.5, 0.75, 0.75]] * 200)
    lowest = hard_targets(estimates, ties="lowest", rng=np.random.default_rng(0))
    assert (lowest == [0.0, 1.0, 0.0]).all()
    drawn = hard_targets(estimates, ties="random", rng=np.random.default_rng(0)).mean(axis=0)
    assert drawn[0] == 0.0
    assert 0.35 < drawn[1] < 0.65


def test_estimates_that_differ_by_less_than_half_a_billionth_are_a_tie():
    estimates = np.array([[0.2, 0.4, 0.4 + 4e-10], [0.2, 0.4, 0.4 + 6e-10]])
    assert hard_targets(estimates, ties="lowest", rng=np.random.default_rng(0)).argmax(axis=1).tolist() == [1, 2]


CLEAR = 160.0  # an epsilon of two labels at which every label is kept


def _labels(*rows):
    return [np.array(row, dtype=np.int16) for row in rows]


def test_the_estimate_is_equation_3_by_hand():
    """K = 2 labels of epsilon 2 ln 4 together: ln 4 each, so beta = (4 - 1) / (4 - 1 + 3) = 1/2."""
    config = PrivateKTConfig(round_epsilon=2 * np.log(4), transfer_rows=2)
    assert config.mechanism(3).keep == pytest.approx(0.5)
    found = estimate(_labels([0, 1], [0, 2], [0, 1], [1, 1]), config=config, num_classes=3)
    shares = np.array([[3, 1, 0], [0, 3, 1]]) / 4
    assert found == pytest.approx((shares - 0.5 / 3) / 0.5)
    assert found.min() < 0 < 1 < found.max()
    assert found.sum(axis=1) == pytest.approx(np.ones(2))


def test_the_estimate_is_unbiased():
    """Mean over seeded runs of the noise within four standard errors of the true mean one-hot label."""
    config = PrivateKTConfig(round_epsilon=2.0, transfer_rows=3)
    mechanism, rng = config.mechanism(3), np.random.default_rng(11)
    labels = np.array([[0, 1, 2], [0, 1, 1], [0, 2, 1], [0, 0, 1]], dtype=np.int16)
    truth = np.stack([np.bincount(column, minlength=3) for column in labels.T]) / len(labels)
    found = np.stack([
        estimate([mechanism.privatize(row, rng=rng) for row in labels], config=config, num_classes=3)
        for _ in range(1500)
    ])  # fmt: skip
    errors = found.std(axis=0, ddof=1) / np.sqrt(len(found))
    assert found.min() < -0.2  # what a biased estimate, clipped to shares, would never be
    assert (np.abs(found.mean(axis=0) - truth) < 4 * errors).all()
    assert found.sum(axis=2) == pytest.approx(np.ones((1500, 3)))


def test_a_round_s_noise_is_no_choice_so_a_delta_may_always_be_given():
    assert (PrivateKTConfig(delta=1e-3).delta, PrivateKTConfig().privacy) == (1e-3, "party")

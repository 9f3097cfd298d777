"""What PrivateKT's server keeps and draws: entropy, draws by it, projection, targets, the buffer of rounds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from fedkd_flwr.algorithms._knowledge import Knowledge, KnowledgeBuffer, draw_by_entropy, entropy, hard_targets

from fedkd_flwr.errors import ConfigError, DataError

PROBS = np.array([[1.0, 0.0, 0.0], [0.8, 0.1, 0.1], [1 / 3, 1 / 3, 1 / 3]])


def test_entropy_is_that_of_the_formula_and_finite_where_a_probability_is_zero():
    expected = [0.0, -(0.8 * np.log(0.8) + 0.2 * np.log(0.1)), np.log(3)]
    assert entropy(PROBS) == pytest.approx(expected)
    assert entropy(PROBS.astype(np.float32)) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("prefer", "sign"), [("uncertain", 1.0), ("certain", -1.0)])
def test_ordered_pairs_are_drawn_as_often_as_drawing_one_after_the_other_by_weight_says(prefer, sign):
    weights = np.exp(sign * entropy(PROBS))
    rng, draws = np.random.default_rng(5), 20_000
    drawn = [tuple(draw_by_entropy(PROBS, 2, prefer=prefer, rng=rng).tolist()) for _ in range(draws)]
    for first, second in itertools.permutations(range(3), 2):
        expected = weights[first] / weights.sum() * weights[second] / (weights.sum() - weights[first])
        error = np.sqrt(expected * (1 - expected) / draws)
        assert abs(drawn.count((first, second)) / draws - expected) < 4 * error


def test_no_row_is_drawn_twice_and_the_same_stream_draws_the_same():
    probs = np.random.default_rng(0).dirichlet(np.ones(4), 50)
    once = draw_by_entropy(probs, 50, prefer="certain", rng=np.random.default_rng(3))
    assert sorted(once.tolist()) == list(range(50))
    assert (once == draw_by_entropy(probs, 50, prefer="certain", rng=np.random.default_rng(3))).all()


@pytest.mark.parametrize(
    ("count", "prefer", "message"),
    [
        (0, "certain", r"rows to draw must be within 1\.\.3 \(public rows\), got 0"),
        (4, "certain", r"rows to draw must be within 1\.\.3 \(public rows\), got 4"),
        (1, "sure", 'prefer must be "uncertain" or "certain", got \'sure\''),
    ],
)
def test_an_impossible_draw_is_refused(count, prefer, message):
    with pytest.raises(ConfigError, match=message):
        draw_by_entropy(PROBS, count, prefer=prefer, rng=np.random.default_rng(0))


def test_hard_targets_follow_the_tie_policy_also_where_estimates_are_negative():
    estimates = np.array([[-0.5, 0.75, 0.75]] * 200)
    lowest = hard_targets(estimates, ties="lowest", rng=np.random.default_rng(0))
    assert (lowest == [0.0, 1.0, 0.0]).all()
    drawn = hard_targets(estimates, ties="random", rng=np.random.default_rng(0)).mean(axis=0)
    assert drawn[0] == 0.0
    assert 0.35 < drawn[1] < 0.65


def _knowledge(*rows):
    return Knowledge(rows=np.array(rows), targets=np.eye(3)[[0] * len(rows)])


def test_the_buffer_forgets_the_oldest_round_first_and_keeps_repeated_rows():
    buffer = KnowledgeBuffer(2)
    for rows in ((0, 1), (2, 3), (3, 4)):
        buffer.push(_knowledge(*rows))
    assert len(buffer) == 2
    assert buffer.all().rows.tolist() == [2, 3, 3, 4]
    assert buffer.all().targets.shape == (4, 3)
    assert [one.rows.tolist() for one in buffer.rounds()] == [[2, 3], [3, 4]]


@pytest.mark.parametrize("size", [0, -1, True, 1.0, float("nan")])
def test_a_buffer_of_no_rounds_is_refused(size):
    with pytest.raises(ConfigError, match="buffer_rounds must be a whole number >= 1, got"):
        KnowledgeBuffer(size)


def test_an_empty_buffer_teaches_nothing_and_says_so():
    with pytest.raises(DataError, match="the knowledge buffer must hold a round before it is learnt from, got 'none'"):
        KnowledgeBuffer(1).all()


def test_knowledge_without_a_target_for_each_row_is_refused():
    with pytest.raises(DataError, match=r"knowledge must be \(n,\) rows and \(n, classes\) targets"):
        Knowledge(rows=np.array([1, 2]), targets=np.eye(3))

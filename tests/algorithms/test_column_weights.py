"""The second round of noisy sums: vectors, their products, and what columns weigh."""

import numpy as np
import pytest
from scipy.special import softmax

from fedkd_flwr.algorithms.column_weights import asked, num_products, products, weighed
from fedkd_flwr.algorithms.noisy_sums import NoisySumsConfig, aggregate
from fedkd_flwr.privacy.noise.sums import LENGTH

SIZES = (2, 2, 2)
NOTHING = np.zeros((1, 3), dtype=np.int64)


def records(count, seed, classes=2):
    """Cells and classes: the third column says what the first one says once more, and is no news."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, count) * (rng.random(count) < 0.8)
    a = np.where(rng.random(count) < 0.8, y > 0, y == 0)
    b = np.where(rng.random(count) < 0.85, y > 0, y == 0)
    return np.column_stack([a, b, a]) + np.array([0, 2, 4]), y


def counted(cells, y, classes=2):
    sums = np.zeros((6, classes), dtype=np.int64)
    np.add.at(sums, (cells, y[:, None]), 1)
    return sums


def bayes(sums):
    config = NoisySumsConfig(noise_strength=0.001, learn="naive-bayes")
    return aggregate(sums, config=config, sizes=SIZES, public_cells=NOTHING, noises=1)[:2]


def released(cells, y, scores, sums):
    return 2 * products(asked(scores, sums, SIZES), np.column_stack([cells, len(sums) + y]))


def test_products_are_those_of_the_vectors_and_no_record_is_longer_than_allowed():
    rng = np.random.default_rng(1)
    vectors = rng.integers(-400, 400, (7, 3)).astype(np.int32)
    vectors[0] = 2**31 - 1  # whatever a server sends
    rows = rng.integers(0, 7, (50, 4))
    total = np.zeros((4, 4), dtype=np.int64)
    for row in rows:
        own = vectors[row].astype(object)
        squared = int((own**2).sum())
        if squared > LENGTH**2:
            own = np.trunc(own.astype(float) * (LENGTH / squared**0.5)).astype(np.int64)
        assert (own.astype(np.int64) ** 2).sum() <= LENGTH**2
        total += (own @ own.T).astype(np.int64)
        alone = products(vectors, row[None])
        assert len(alone) == num_products(3)
        assert alone[[0, 4, 7, 9]].sum() <= LENGTH**2  # the squares
    assert (products(vectors, rows) == total[np.triu_indices(4)]).all()
    assert (products(vectors, rows[:0]) == 0).all()


def test_most_records_are_as_long_as_they_are():
    cells, y = records(4000, 1)
    sums = counted(cells, y)
    vectors = asked(bayes(sums)[0], sums, SIZES).astype(np.int64)
    squared = (vectors[np.column_stack([cells, 6 + y])] ** 2).sum(axis=(1, 2)) / LENGTH**2
    assert squared.mean() == pytest.approx(1 / 1.5, abs=0.01)


def test_a_column_that_says_what_another_says_counts_half_and_odds_become_right():
    (cells, y), (test, y_test) = records(20_000, 1), records(20_000, 2)
    sums = counted(cells, y)
    scores, prior = bayes(sums)
    made, constant = weighed(scores, sums, SIZES, released(cells, y, scores, sums), 1e-6)
    said, before = (softmax(s[test].sum(axis=1) + p, axis=1) for s, p in ((made, constant), (scores, prior)))
    assert (said.argmax(axis=1) == y_test).mean() > (before.argmax(axis=1) == y_test).mean() + 0.01
    chosen = np.arange(len(y_test)), y_test
    assert -np.log(said[chosen]).mean() < -np.log(before[chosen]).mean() - 0.02
    width = np.abs(made[1::2] - made[::2])[:, 1] / np.abs(scores[1::2] - scores[::2])[:, 1]
    assert width[0] == pytest.approx(width[1] / 2, rel=0.15)
    assert said[:, 1].mean() == pytest.approx(y_test.mean(), abs=0.03)


def test_noise_alone_leaves_about_one_weight_for_all_columns_and_finite_scores():
    cells, y = records(2000, 1, classes=3)
    sums = counted(cells, y, classes=3)
    scores, _ = bayes(sums)
    noise = np.random.default_rng(1).normal(0, 1e6, num_products(3)) * 2 * LENGTH**2
    for answer in (noise, np.zeros(num_products(3))):
        made, constant = weighed(scores, sums, SIZES, answer, 1e6)
        assert np.isfinite(made).all()
        assert np.isfinite(constant).all()
    made, _ = weighed(scores, sums, SIZES, released(cells, y, scores, sums), 1e5)
    vectors = asked(scores, sums, SIZES)[:6]
    weight = (made * vectors).sum() / (vectors.astype(float) ** 2).sum()
    assert made == pytest.approx(weight * vectors, rel=0.1)

"""Noisy sums as arithmetic: the noise that is found, models of sums against those of rows, and rows drawn from them."""

import numpy as np
import pandas as pd
import pytest
from schemas import column
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

from fedkd_flwr.algorithms.noisy_sums import NoisySumsConfig, aggregate, difference, draw, shares, shares_of_sums
from fedkd_flwr.data.bins import Bins
from fedkd_flwr.data.public import make_public_set
from fedkd_flwr.data.schema import Schema
from fedkd_flwr.privacy.claims.claim import noisy_sums

NAMES = ("a", "b", "copy")
SCHEMA = Schema(columns=tuple(column(name, "0", "1") for name in NAMES), classes=("no", "yes"))


def table(count: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows whose column ``copy`` says what ``a`` says once more, and is no news."""
    rng = np.random.default_rng(seed)
    y = (rng.random(count) < 0.4).astype(np.int16)
    a = np.where(rng.random(count) < 0.8, y, 1 - y)
    b = np.where(rng.random(count) < 0.85, y, 1 - y)
    return pd.DataFrame({"a": a, "b": b, "copy": a}).astype(str), y


PUBLIC = make_public_set(table(3000, 9)[0], SCHEMA)
BINS = Bins.of(PUBLIC, most=10)
X, Y = PUBLIC.features(table(4000, 1)[0]), table(4000, 1)[1]
X_TEST, Y_TEST = PUBLIC.features(table(4000, 2)[0]), table(4000, 2)[1]
SUMS = BINS.counts(X, Y, num_classes=2)
CLEAR = NoisySumsConfig(noise_strength=0.001)


class Learnt:
    """What the sums give rows: scores of their cells."""

    def __init__(self, config, X_public=PUBLIC.X, answers=(SUMS,), noises=1):
        cells = BINS.cells(BINS.codes(X_public))
        self.sums = np.sum(answers, axis=0)
        self.scores, self.prior, self.facts = aggregate(
            self.sums, config=config, sizes=BINS.sizes, public_cells=cells, noises=noises
        )

    def predict_proba(self, X):
        return softmax(self.scores[BINS.cells(BINS.codes(X))].sum(axis=1) + self.prior, axis=1)

    def predict(self, X):
        return self.predict_proba(X).argmax(axis=1)

    def accuracy(self):
        return (self.predict(X_TEST) == Y_TEST).mean()


@pytest.mark.parametrize(("given", "epsilon", "delta"), [(0.0, 1.0, 1e-5), (0.3, 0.3, 1e-5), (5.0, 5.0, 1e-7)])
def test_the_noise_that_is_found_costs_what_was_asked_for_and_no_more(given, epsilon, delta):
    config = NoisySumsConfig(epsilon=given, delta=delta)
    told = config.resolved(num_public=10, num_classes=2, num_rounds=1)
    assert told.epsilon == 0.0
    for columns in (1, 14, 50):
        claim = noisy_sums(told.mechanism(columns), times=1, delta=config.delta)
        assert 0.99 * epsilon < claim.epsilon <= epsilon


def test_a_model_by_public_rows_is_the_logistic_regression_of_the_rows_themselves():
    model = Learnt(CLEAR, X)  # had public rows the very features, nothing but labels would be missing
    assert model.facts.by_public_rows
    assert model.facts.difference == 0
    own = LogisticRegression(C=1e6).fit(X, Y)
    assert np.abs(model.predict_proba(X_TEST) - own.predict_proba(X_TEST)).max() < 0.003
    other = Learnt(CLEAR)
    assert other.facts.by_public_rows
    assert 0 < other.facts.difference < 0.03
    assert np.abs(other.predict_proba(X_TEST) - own.predict_proba(X_TEST)).max() < 0.05


def test_naive_bayes_counts_what_two_columns_say_twice_and_public_rows_show_that_they_are_one():
    bayes = Learnt(CLEAR.changed(learn="naive-bayes"))
    model = Learnt(CLEAR)
    disagree = PUBLIC.features(pd.DataFrame({"a": ["1"], "b": ["0"], "copy": ["1"]}))
    assert model.predict(disagree).tolist() == [0]
    assert bayes.predict(disagree).tolist() == [1]
    assert model.accuracy() > bayes.accuracy() + 0.02


def test_public_rows_from_elsewhere_are_not_used():
    alike = np.tile(PUBLIC.X[:1], (500, 1))
    model = Learnt(CLEAR, alike)
    assert not model.facts.by_public_rows
    assert model.facts.difference > 0.3
    assert model.accuracy() > 0.75


def test_noise_drowns_the_sums_and_the_model_answers_all_the_same():
    noisy = NoisySumsConfig(noise_strength=1e6).mechanism(3).privatize(SUMS, rng=np.random.default_rng(1))
    for learn in ("naive-bayes", "public-rows"):
        model = Learnt(CLEAR.changed(learn=learn), answers=[noisy])
        assert np.isfinite(model.predict_proba(X_TEST)).all()


def test_shares_are_those_of_the_counts_and_what_noise_alone_has_filled_is_0():
    assert shares_of_sums(SUMS, BINS.sizes) == pytest.approx(np.bincount(Y) / len(Y))
    noisy = SUMS + np.array([[7, 0], [-7, 0], [3, -4]] * 3)
    for exact, found in zip(shares(SUMS, BINS.sizes), shares(noisy, BINS.sizes), strict=True):
        assert found.sum(axis=0) == pytest.approx(1)
        assert found.min() >= 0
        assert np.abs(found - exact).max() < 0.01
    for nothing in (np.zeros((9, 2), int), np.full((9, 2), -5)):
        assert all(part.sum(axis=0) == pytest.approx(1) for part in shares(nothing, BINS.sizes))
        assert shares_of_sums(nothing, BINS.sizes) == pytest.approx([0.5, 0.5])


def test_drawn_rows_fill_the_bins_as_the_sums_do_and_columns_are_independent_within_a_class():
    codes, classes = draw(SUMS, BINS.sizes, 20_000, rng=np.random.default_rng(1))
    counts = np.bincount(BINS.cells(codes).ravel(), minlength=9)
    assert difference(SUMS, BINS.sizes, counts) < 0.01
    for c in (0, 1):
        a, _, copy = codes[classes == c].T
        assert abs(np.corrcoef(a, copy)[0, 1]) < 0.05
        assert a.mean() == pytest.approx((X[c == Y][:, 1]).mean(), abs=0.02)
